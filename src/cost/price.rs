//! From LLM tokens to the amounts taken from a pool.
//!
//! Input counts by kind with the pool's weights, against the total limit and the input limit; output counts with its
//! weight against the total limit, and as it is against the output limit. Sums are rounded up, so that a call is
//! never cheaper than its share.

use super::request::RequestFacts;
use super::usage::Usage;
use crate::config::{LlmTokenWeights, Pool};
use crate::units::{Cost, Resource};

/// The call can never pass: its input alone exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceedsLimit {
    /// Whose limit.
    pub resource: Resource,
    /// The limit per minute.
    pub limit: u64,
    /// What the input alone takes.
    pub need: u64,
}

fn weights(pool: &Pool) -> LlmTokenWeights {
    pool.llm_token_weights.unwrap_or(LlmTokenWeights::ONCE)
}

/// `parts` are (LLM tokens, weight in thousandths).
fn weighted(parts: &[(u64, u32)]) -> u64 {
    let milli = parts.iter().fold(0_u128, |sum, (llm_tokens, weight)| {
        sum.saturating_add(u128::from(*llm_tokens).saturating_mul(u128::from(*weight)))
    });
    u64::try_from(milli.div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// What to reserve for a call: its estimated input, and `output` LLM tokens of output.
///
/// An output reserve that makes the sum exceed a limit is clamped to what fits; so is the whole when the input is
/// only a floor taken from the length of an unreadable body. No amount exceeds its limit.
///
/// # Errors
/// [`ExceedsLimit`] when the input alone exceeds a limit.
pub fn reserve(pool: &Pool, facts: &RequestFacts, output: u64) -> Result<Cost, ExceedsLimit> {
    let weights = weights(pool);
    let input = weighted(&[(facts.input_llm_tokens, weights.input_milli)]);
    let limits = &pool.limits;
    let output = if facts.generates_output { output } else { 0 };
    let output = limits.output.map_or(output, |limit| output.min(limit));
    for (resource, limit) in
        [(Resource::LlmTokens, limits.llm_tokens), (Resource::InputLlmTokens, limits.input)]
    {
        if let Some(limit) = limit.filter(|limit| facts.readable && input > *limit) {
            return Err(ExceedsLimit { resource, limit, need: input });
        }
    }
    let fit = |amount: u64, limit: Option<u64>| limit.map_or(amount, |limit| amount.min(limit));
    let both = weighted(&[(facts.input_llm_tokens, weights.input_milli), (output, weights.output_milli)]);
    Ok(Cost {
        requests: 1,
        llm_tokens: fit(both, limits.llm_tokens),
        input: fit(input, limits.input),
        output,
        concurrency: 1,
    })
}

/// Most minutes' worth of a limit that one call is charged on the provider's word. A wrong or forged number would
/// else shut the pool for as long as it likes; what is more than a minute old has left the provider's own window anyway.
pub const BELIEVED_MINUTES: u64 = 5;

/// `cost` with every amount at most so many minutes' worth of its limit.
pub fn within(pool: &Pool, cost: Cost, minutes: u64) -> Cost {
    Cost::from_fn(|resource| {
        let amount = *cost.get(resource);
        pool.limits.get(resource).map_or(amount, |limit| amount.min(limit.saturating_mul(minutes)))
    })
}

/// What a call took, by the usage that its response states.
///
/// A part that is not stated counts nothing: put the estimate or the streamed amount into it before.
pub fn actual(pool: &Pool, usage: &Usage) -> Cost {
    let weights = weights(pool);
    let input = usage.input.unwrap_or_default();
    let cached = usage.cached_input.min(input);
    let written = usage.cache_write.min(input.saturating_sub(cached));
    let plain = input.saturating_sub(cached).saturating_sub(written);
    let output = usage.output.unwrap_or_default();
    let parts = [
        (plain, weights.input_milli),
        (cached, weights.cached_input_milli),
        (written, weights.cache_write_milli),
        (output, weights.output_milli),
    ];
    let [inputs @ .., _] = &parts;
    Cost { requests: 1, llm_tokens: weighted(&parts), input: weighted(inputs), output, concurrency: 1 }
}

#[cfg(test)]
mod tests;
