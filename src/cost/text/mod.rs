//! How many LLM tokens a text is, without a tokenizer.
//!
//! A tokenizer's vocabulary does not fit into the module and its merging does not fit into the time. What does fit
//! is what a byte-pair tokenizer does first: cut the text into runs (words, digits, punctuation, white space, other
//! scripts). [`Counts`] counts characters by the kind of their run and their place in it, in one pass; the estimate
//! is their sum, each weighted by what such a character adds on average under a tokenizer [`Family`]. The weights are fitted on real tokenizers by
//! `tools/accuracy`; figures in `docs/accuracy.md`.
//!
//! Counting does not depend on the family, because the model's name may come after megabytes of text.

mod counts;
mod family;
mod kind;
mod weights;

pub use counts::Counts;
pub use family::Family;
pub use kind::{KINDS, Kind, LENGTHS};

/// A byte-pair tokenizer has no pieces longer than this that are made of varied text; the floor of every estimate.
const BYTES_AT_MOST: u64 = 128;

impl Counts {
    /// LLM tokens of everything counted, rounded up; 0 only when nothing was counted.
    pub fn llm_tokens(&self, family: Family) -> u64 {
        let sum = self.rows().zip(weights::of(family)).fold(0_u64, |sum, (counts, weights)| {
            counts.iter().zip(weights).fold(sum, |sum, (count, weight)| {
                sum.saturating_add(u64::from(*count).saturating_mul(u64::from(*weight)))
            })
        });
        sum.div_ceil(weights::ONE).max(self.bytes().div_ceil(BYTES_AT_MOST))
    }
}

/// LLM tokens of one text.
pub fn llm_tokens(text: &[u8], family: Family) -> u64 {
    let mut counts = Counts::new();
    counts.feed(text);
    counts.cut();
    counts.llm_tokens(family)
}

#[cfg(test)]
mod tests;
