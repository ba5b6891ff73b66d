//! How much output to reserve: what calls of this model have really produced lately.
//!
//! Declared output caps say little (agents declare 32 000 and use 300), and what is reserved in vain is refused to others.
//! So each pool keeps a small [`History`] in shared data, one value of exactly [`History::LEN`] bytes under a key of its
//! own, and with it the gate reserves the smaller of the declared cap and what the history suggests.
//!
//! 1. For each of up to 16 models a histogram of outputs, half an octave per bucket, halved whenever it holds 96 calls: it
//!    follows within some 50 calls and forgets within some 300.
//! 2. The suggestion is the 90th percentile plus a sixteenth, and never below the mean: then the reserves of many calls
//!    cover their outputs even where a few are very long.
//! 3. For up to 32 (model, tenant) pairs the same. A pair counts when it differs from its model by more than a factor of
//!    two.
//! 4. Fewer than five calls suggest nothing.
//! 5. For each model also how real and estimated input compare: a moving mean, bounded to 0.5 to 2.
//!
//! Full tables forget the entry that was used longest ago. The value may be lost or overwritten by another worker at
//! any time: it is advice, and is rebuilt within a few calls. So one compare-and-swap that fails need not be tried
//! again, and a worker may work for a second with a copy.

use crate::config::OutputReserve;

/// Buckets of a histogram: half octaves from 1 to 65 536; larger outputs are in the last.
const BUCKETS: usize = 32;
const MODELS: usize = 16;
const PAIRS: usize = 32;
/// Bytes of one encoded entry.
const ENTRY: usize = 40;
/// Calls after which a histogram is halved.
const MEMORY: u32 = 96;
/// Calls below which nothing is suggested.
const COLD: u32 = 5;
/// A model's mean input ratio moves by this part per call once it is warm.
const BIAS_STEPS: u32 = 16;
/// Inputs below this are mostly framing and say little about the text estimate.
const LEAST_INPUT: u64 = 32;
/// Version of the layout, in front.
const VERSION: u8 = 1;

/// Ratio of real to estimated input that means "as estimated", in 1/16384.
const EVEN: u16 = 16_384;

/// One call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// [`key`] of the model.
    pub model: u64,
    /// Who called, any number that stays the same.
    pub tenant: u32,
    /// Real output, LLM tokens; `None` when unknown.
    pub output: Option<u64>,
    /// Estimated and real input, LLM tokens; `None` when the real one is unknown.
    pub input: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// 0 = empty.
    key: u32,
    /// Real / estimated input, 1/16384.
    bias: u16,
    /// Stamp of the last use, wrapping.
    used: u16,
    counts: [u8; BUCKETS],
}

const EMPTY: Entry = Entry { key: 0, bias: EVEN, used: 0, counts: [0; BUCKETS] };

/// What a pool remembers of its calls' outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    stamp: u16,
    models: [Entry; MODELS],
    pairs: [Entry; PAIRS],
}

impl Default for History {
    fn default() -> Self {
        Self { stamp: 0, models: [EMPTY; MODELS], pairs: [EMPTY; PAIRS] }
    }
}

/// A model's key: its name without case.
pub fn key(model: &str) -> u64 {
    model.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Output to reserve for a call.
///
/// `declared` is the largest declared cap times the number of answers, `suggested` comes from [`History::suggest`],
/// `default` is the pool's default for calls of which nothing is known.
pub fn output_reserve(
    rule: OutputReserve,
    declared: Option<u64>,
    suggested: Option<u64>,
    default: u64,
) -> u64 {
    let suggested = suggested.filter(|_| rule == OutputReserve::Learned);
    match (declared, suggested) {
        (Some(declared), Some(suggested)) => declared.min(suggested),
        (Some(known), None) | (None, Some(known)) => known,
        (None, None) => default,
    }
}

impl History {
    /// Bytes of the encoded value.
    pub const LEN: usize = 4_usize.saturating_add(MODELS.saturating_add(PAIRS).saturating_mul(ENTRY));

    /// The value as it is stored: exactly [`Self::LEN`] bytes, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::LEN);
        out.extend_from_slice(&[VERSION, 0]);
        out.extend_from_slice(&self.stamp.to_le_bytes());
        for entry in self.models.iter().chain(&self.pairs) {
            out.extend_from_slice(&entry.key.to_le_bytes());
            out.extend_from_slice(&entry.bias.to_le_bytes());
            out.extend_from_slice(&entry.used.to_le_bytes());
            out.extend_from_slice(&entry.counts);
        }
        out
    }

    /// Reads what [`Self::encode`] wrote. `None` for other versions and lengths: then begin anew.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let ([VERSION, _, low, high], rest) = bytes.split_first_chunk::<4>()? else { return None };
        let (entries, rest) = rest.as_chunks::<ENTRY>();
        if !rest.is_empty() || entries.len() != MODELS.saturating_add(PAIRS) {
            return None;
        }
        let mut history = Self { stamp: u16::from_le_bytes([*low, *high]), ..Self::default() };
        for (entry, bytes) in history.models.iter_mut().chain(&mut history.pairs).zip(entries) {
            let (key, rest) = bytes.split_first_chunk::<4>()?;
            let (bias, rest) = rest.split_first_chunk::<2>()?;
            let (used, counts) = rest.split_first_chunk::<2>()?;
            *entry = Entry {
                key: u32::from_le_bytes(*key),
                bias: u16::from_le_bytes(*bias).clamp(EVEN / 2, EVEN.saturating_mul(2)),
                used: u16::from_le_bytes(*used),
                counts: *counts.first_chunk()?,
            };
        }
        Some(history)
    }

    /// Output that a call of this model, by this tenant, will hardly exceed; `None` when too little is known.
    pub fn suggest(&self, model: u64, tenant: u32) -> Option<u64> {
        let general = find(&self.models, fold(model)).and_then(Entry::suggestion);
        let own = find(&self.pairs, pair(model, tenant)).and_then(Entry::suggestion);
        match (general, own) {
            (Some(general), Some(own)) => {
                let differs = own > general.saturating_mul(2) || own.saturating_mul(2) < general;
                Some(if differs { own } else { general })
            }
            (general, own) => general.or(own),
        }
    }

    /// The input estimate, corrected by how such estimates have turned out.
    pub fn corrected_input(&self, model: u64, estimate: u64) -> u64 {
        let bias = find(&self.models, fold(model))
            .filter(|entry| entry.total() >= COLD)
            .map_or(EVEN, |entry| entry.bias);
        let corrected = u128::from(estimate).saturating_mul(u128::from(bias)).div_ceil(u128::from(EVEN));
        u64::try_from(corrected).unwrap_or(u64::MAX)
    }

    /// Takes note of a call that has ended. Only what a response *stated* should be shown here.
    ///
    /// The estimate in `input` is the uncorrected one.
    pub fn record(&mut self, call: &Observation) {
        self.stamp = self.stamp.wrapping_add(1);
        let stamp = self.stamp;
        if let Some(model) = slot(&mut self.models, fold(call.model), stamp) {
            if let Some((estimated, real)) = call.input.filter(|(estimated, _)| *estimated >= LEAST_INPUT) {
                model.learn_bias(estimated, real);
            }
            if let Some(output) = call.output {
                model.count(output);
            }
        }
        if let Some(output) = call.output
            && let Some(own) = slot(&mut self.pairs, pair(call.model, call.tenant), stamp)
        {
            own.count(output);
        }
    }
}

impl Entry {
    fn total(&self) -> u32 {
        self.counts.iter().map(|count| u32::from(*count)).sum()
    }

    fn count(&mut self, output: u64) {
        if self.total() >= MEMORY {
            for count in &mut self.counts {
                *count /= 2;
            }
        }
        if let Some(count) = self.counts.get_mut(bucket(output)) {
            *count = count.saturating_add(1);
        }
    }

    fn suggestion(&self) -> Option<u64> {
        let total = self.total();
        if total < COLD {
            return None;
        }
        // Rank of the 90th percentile, counted from above: so many calls may be longer.
        let mut above = total / 10;
        let (mut quantile, mut sum) = (None, 0u64);
        for (at, count) in self.counts.iter().enumerate().rev().filter(|(_, count)| **count > 0) {
            let count = u32::from(*count);
            sum = sum.saturating_add(u64::from(count).saturating_mul(middle(at)));
            if quantile.is_none() {
                match above.checked_sub(count) {
                    Some(left) => above = left,
                    None => quantile = Some(upper(at)),
                }
            }
        }
        let quantile = quantile.unwrap_or(0);
        let mean = sum.div_ceil(u64::from(total.max(1)));
        Some(quantile.saturating_add(quantile / 16).max(mean))
    }

    fn learn_bias(&mut self, estimated: u64, real: u64) {
        let even = u64::from(EVEN);
        let ratio = real
            .saturating_mul(even)
            .checked_div(estimated)
            .unwrap_or(even)
            .clamp(even / 2, even.saturating_mul(2));
        let steps = i64::from(self.total().saturating_add(1).min(BIAS_STEPS));
        let (known, ratio) = (i64::from(self.bias), i64::try_from(ratio).unwrap_or(i64::MAX));
        let moved = known.saturating_add(ratio.saturating_sub(known).checked_div(steps).unwrap_or(0));
        self.bias = u16::try_from(moved).unwrap_or(EVEN);
    }
}

/// Half octaves: 1, 1.5 and so on; bucket `2k` begins at `2^k`, bucket `2k + 1` at `1.5 * 2^k`.
fn bucket(output: u64) -> usize {
    let output = output.max(1);
    let octave = output.ilog2();
    let half = output.checked_shr(octave.saturating_sub(1)).unwrap_or(0) & u64::from(octave > 0);
    let at = octave.saturating_mul(2).saturating_add(u32::try_from(half).unwrap_or(0));
    usize::try_from(at).unwrap_or(BUCKETS).min(BUCKETS.saturating_sub(1))
}

/// First output of a bucket.
fn lower(at: usize) -> u64 {
    let octave = u32::try_from(at / 2).unwrap_or(0);
    let base = 1u64.checked_shl(octave).unwrap_or(u64::MAX);
    if at.is_multiple_of(2) { base } else { base.saturating_add(base / 2) }
}

/// Last output of a bucket; what is beyond the last one is taken for twice its start.
fn upper(at: usize) -> u64 {
    let next = at.saturating_add(1);
    if next < BUCKETS { lower(next).saturating_sub(1).max(lower(at)) } else { lower(at).saturating_mul(2) }
}

fn middle(at: usize) -> u64 {
    lower(at).saturating_add(upper(at)).div_ceil(2)
}

/// 32 bits of a hash, never 0.
fn fold(hash: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])).max(1)
}

fn pair(model: u64, tenant: u32) -> u32 {
    fold(model ^ u64::from(tenant).wrapping_add(1).wrapping_mul(0xff51_afd7_ed55_8ccd))
}

fn find(entries: &[Entry], key: u32) -> Option<&Entry> {
    entries.iter().find(|entry| entry.key == key)
}

/// The entry of `key`, which takes the place of an empty one or of the one used longest ago.
fn slot(entries: &mut [Entry], key: u32, stamp: u16) -> Option<&mut Entry> {
    let age =
        |entry: &Entry| if entry.key == 0 { u32::MAX } else { u32::from(stamp.wrapping_sub(entry.used)) };
    let found = entries.iter().position(|entry| entry.key == key);
    let oldest = || entries.iter().enumerate().max_by_key(|(_, entry)| age(entry)).map(|(at, _)| at);
    let entry = entries.get_mut(found.or_else(oldest)?)?;
    if entry.key != key {
        *entry = Entry { key, ..EMPTY };
    }
    entry.used = stamp;
    Some(entry)
}

#[cfg(test)]
#[path = "reserve_tests.rs"]
mod tests;
