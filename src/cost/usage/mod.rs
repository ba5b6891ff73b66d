//! What a response says it used.

/// LLM tokens that a response states, by the accounting of all dialects alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input, cached and cache-written included; `None` when not stated.
    pub input: Option<u64>,
    /// The part of `input` that came from the provider's prompt cache; at most `input` when that is stated.
    pub cached_input: u64,
    /// The part of `input` that was written to the provider's prompt cache.
    pub cache_write: u64,
    /// All output, reasoning included; `None` when not stated.
    pub output: Option<u64>,
}
