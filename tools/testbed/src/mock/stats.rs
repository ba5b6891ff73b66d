//! What the provider saw, for `/stats`.

use super::caps::Take;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Counts of one caller, or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Calls that arrived whole.
    pub requests: u64,
    /// Answered with a 2xx.
    pub ok: u64,
    /// Answered 429 by the caps.
    pub limited: u64,
    /// Answered with an error on order.
    pub errors: u64,
    /// Input LLM tokens of those accepted.
    pub input: u64,
    /// Output LLM tokens of those accepted.
    pub output: u64,
}

/// One call as it arrived.
#[derive(Clone, Debug, Serialize)]
pub struct Arrival {
    /// Method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// HTTP version.
    pub version: String,
    /// Headers, names in lower case, values of repeated ones joined by a comma.
    pub headers: BTreeMap<String, String>,
    /// Body bytes.
    pub body_size: usize,
    /// SHA-256 of the body.
    pub body_sha256: String,
    /// Input LLM tokens.
    pub input: u64,
    /// Output LLM tokens.
    pub output: u64,
}

/// How many arrivals are remembered.
const REMEMBERED: usize = 256;

/// Everything counted since the last reset.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Sum over all callers.
    pub total: Counts,
    /// By `tenant/class`, from `x-tenant` and `x-priority`.
    pub callers: BTreeMap<String, Counts>,
    /// Accepted requests and LLM tokens by second since the reset.
    pub by_second: BTreeMap<u64, (u64, u64)>,
    /// Request headers seen, also of calls whose body never came.
    pub header_blocks: u64,
    /// Calls whose body broke off.
    pub broken_bodies: u64,
    /// Answers whose client went away.
    pub abandoned: u64,
    /// Calls being answered.
    pub in_flight: u64,
    /// The most of them at once.
    pub max_in_flight: u64,
    /// The last arrivals, oldest first.
    pub recent: VecDeque<Arrival>,
}

impl Stats {
    /// Applies a change to the caller's counts and to the total.
    pub fn count(&mut self, caller: &str, change: impl Fn(&mut Counts)) {
        change(&mut self.total);
        if let Some(counts) = self.callers.get_mut(caller) {
            change(counts);
        } else if self.callers.len() < 10_000 {
            change(self.callers.entry(caller.to_owned()).or_default());
        }
    }

    /// A call was accepted.
    pub fn accept(&mut self, caller: &str, second: u64, take: Take) {
        self.count(caller, |counts| {
            counts.input += take.input;
            counts.output += take.output;
        });
        let (requests, llm_tokens) = self.by_second.entry(second).or_default();
        *requests += 1;
        *llm_tokens += take.input + take.output;
    }

    /// Remembers an arrival, forgetting the oldest.
    pub fn remember(&mut self, arrival: Arrival) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(arrival);
    }

    /// Begins anew; calls being answered stay counted.
    pub fn reset(&mut self) {
        *self = Self { in_flight: self.in_flight, max_in_flight: self.in_flight, ..Self::default() };
    }
}
