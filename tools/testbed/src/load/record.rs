//! What happened to each call, written while it happens.

use serde::Serialize;
use std::time::Duration;

/// One call from its first try on. Times are offsets from the start of the run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Index of the flow.
    pub flow: usize,
    /// First try.
    pub begun: Duration,
    /// Response headers of the successful try.
    pub admitted: Option<Duration>,
    /// Given up, refused for good or failed.
    pub ended: Option<Duration>,
    /// Times of all tries that were sent.
    pub tries: u64,
    /// 429s of the gate, by time.
    pub gate_denials: Vec<Duration>,
    /// 429s of the provider, by time.
    pub provider_429s: Vec<Duration>,
    /// Other failures.
    pub errors: u64,
    /// Wait told by the first denial.
    pub told: Option<Duration>,
    /// What the first return after it met.
    pub first_return_admitted: Option<bool>,
    /// Usage as answered.
    pub llm_tokens: u64,
}

/// Counts for the progress line.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Progress {
    /// Seconds since the start.
    pub t: u64,
    /// Calls admitted.
    pub admitted: u64,
    /// 429s of the gate.
    pub gate_denied: u64,
    /// 429s of the provider.
    pub provider_429: u64,
    /// Calls not yet admitted.
    pub waiting: u64,
    /// LLM tokens of finished answers.
    pub llm_tokens: u64,
}

/// Sums the records.
#[must_use]
pub fn progress(records: &[Record], t: u64) -> Progress {
    let mut out = Progress { t, ..Progress::default() };
    for record in records {
        out.admitted += u64::from(record.admitted.is_some());
        out.waiting += u64::from(record.admitted.is_none() && record.ended.is_none());
        out.gate_denied += record.gate_denials.len() as u64;
        out.provider_429 += record.provider_429s.len() as u64;
        out.llm_tokens += record.llm_tokens;
    }
    out
}
