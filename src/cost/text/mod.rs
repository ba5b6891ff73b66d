//! How many LLM tokens a text is, without a tokenizer.
//!
//! A tokenizer's vocabulary does not fit into the module and its merging does not fit into the time. What does fit
//! is what a byte-pair tokenizer does first: cut the text into runs (words, digits, punctuation, white space, other
//! scripts). [`Counts`] counts characters by the kind of their run and their place in it, in one pass; the estimate
//! is their sum, each weighted by what such a character adds on average under a tokenizer [`Family`]. The weights are
//! fitted on real tokenizers by `tools/accuracy`; figures in `docs/accuracy.md`. Of long text [`Sample`] counts a part.
//!
//! Counting does not depend on the family, because the model's name may come after megabytes of text.

mod counts;
mod family;
mod kind;
mod sample;
mod steps;
mod weights;

pub use counts::Counts;
pub use family::Family;
pub use kind::{KINDS, Kind, LENGTHS};
pub use sample::{Sample, WHOLE};

/// A byte-pair tokenizer has no pieces longer than this that are made of varied text; the floor of every estimate.
const BYTES_AT_MOST: u64 = 128;

impl Counts {
    /// LLM tokens of everything counted, rounded up; 0 only when nothing was counted.
    pub fn llm_tokens(&self, family: Family) -> u64 {
        bounded(self.weigh(family).div_ceil(weights::ONE), self.bytes())
    }
}

/// The estimate within what is possible: no piece is shorter than a byte.
fn bounded(llm_tokens: u64, bytes: u64) -> u64 {
    llm_tokens.max(bytes.div_ceil(BYTES_AT_MOST)).min(bytes)
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
