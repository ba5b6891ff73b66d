//! The provider's own caps, enforced without mercy.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// The trailing window of the strict rule.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Limits and the rule they follow. An absent limit is none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests in a minute.
    pub rpm: Option<u64>,
    /// Input and output LLM tokens in a minute.
    pub tpm: Option<u64>,
    /// Input LLM tokens in a minute.
    pub itpm: Option<u64>,
    /// Output LLM tokens in a minute.
    pub otpm: Option<u64>,
    /// Calls at the same time.
    pub concurrent: Option<u64>,
    /// Seconds' worth a token bucket holds. 0: the strict trailing window instead of a bucket.
    pub burst_seconds: f64,
}

/// What one call takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Take {
    /// Input LLM tokens.
    pub input: u64,
    /// Output LLM tokens.
    pub output: u64,
}

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// `requests`, `tokens`, `input tokens`, `output tokens` or `concurrent requests`.
    pub what: &'static str,
    /// The limit.
    pub limit: u64,
    /// When it could pass.
    pub wait: Duration,
}

const RESOURCES: [&str; 4] = ["requests", "tokens", "input tokens", "output tokens"];

/// The caps with what was taken from them. Times are offsets on one monotonic clock.
#[derive(Debug, Default)]
pub struct Caps {
    limits: Limits,
    taken: VecDeque<(Duration, [u64; 4])>,
    sums: [u64; 4],
    peaks: [u64; 4],
    levels: [f64; 4],
    refilled: Duration,
}

impl Caps {
    /// Nothing taken yet, buckets full.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let mut caps = Self { limits, ..Self::default() };
        caps.levels = caps.capacities();
        caps
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Most requests, LLM tokens, input and output LLM tokens seen in any trailing 60 s.
    #[must_use]
    pub fn peaks(&self) -> [u64; 4] {
        self.peaks
    }

    /// What is left of requests and LLM tokens now (no limit: `None`).
    pub fn remaining(&mut self, now: Duration) -> [Option<u64>; 2] {
        self.advance(now);
        let limits = self.per_minute();
        [0, 1].map(|index| limits[index].map(|limit| limit.saturating_sub(self.sums[index])))
    }

    /// Takes the amounts, all or nothing.
    ///
    /// # Errors
    /// The first limit that stands against it.
    pub fn take(&mut self, now: Duration, take: Take, in_flight: u64) -> Result<(), Refusal> {
        self.advance(now);
        if let Some(limit) = self.limits.concurrent.filter(|limit| in_flight >= *limit) {
            return Err(Refusal { what: "concurrent requests", limit, wait: Duration::from_secs(1) });
        }
        let amounts = [1, take.input + take.output, take.input, take.output];
        let limits = self.per_minute();
        for (index, amount) in amounts.into_iter().enumerate() {
            let Some(limit) = limits[index] else { continue };
            if let Some(wait) = self.wait_for(now, index, limit, amount) {
                return Err(Refusal { what: RESOURCES[index], limit, wait });
            }
        }
        for (index, amount) in amounts.into_iter().enumerate() {
            self.sums[index] += amount;
            self.peaks[index] = self.peaks[index].max(self.sums[index]);
            self.levels[index] -= amount as f64;
        }
        self.taken.push_back((now, amounts));
        Ok(())
    }

    fn wait_for(&self, now: Duration, index: usize, limit: u64, amount: u64) -> Option<Duration> {
        if self.limits.burst_seconds > 0.0 {
            let missing = amount as f64 - self.levels[index];
            return (missing > 1e-9).then(|| Duration::from_secs_f64(missing * 60.0 / limit as f64));
        }
        let mut excess = (self.sums[index] + amount).checked_sub(limit).filter(|excess| *excess > 0)?;
        for (at, amounts) in &self.taken {
            if amounts[index] >= excess {
                return Some((*at + WINDOW).saturating_sub(now));
            }
            excess -= amounts[index];
        }
        Some(WINDOW)
    }

    fn advance(&mut self, now: Duration) {
        while let Some((at, amounts)) = self.taken.front() {
            if now < *at + WINDOW {
                break;
            }
            for (sum, amount) in self.sums.iter_mut().zip(amounts) {
                *sum -= amount;
            }
            self.taken.pop_front();
        }
        let seconds = now.saturating_sub(self.refilled).as_secs_f64();
        self.refilled = now;
        let (limits, capacities) = (self.per_minute(), self.capacities());
        for (index, capacity) in capacities.into_iter().enumerate() {
            let rate = limits[index].unwrap_or(0) as f64 / 60.0;
            self.levels[index] = (self.levels[index] + rate * seconds).min(capacity);
        }
    }

    fn per_minute(&self) -> [Option<u64>; 4] {
        [self.limits.rpm, self.limits.tpm, self.limits.itpm, self.limits.otpm]
    }

    fn capacities(&self) -> [f64; 4] {
        self.per_minute().map(|limit| limit.unwrap_or(0) as f64 * self.limits.burst_seconds / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn the_strict_window_frees_what_was_taken_after_exactly_a_minute() {
        let mut caps = Caps::new(Limits { tpm: Some(100), ..Limits::default() });
        let take = Take { input: 30, output: 20 };
        assert!(caps.take(at(0.0), take, 0).is_ok() && caps.take(at(10.0), take, 0).is_ok());
        let refusal = caps.take(at(20.0), take, 0).unwrap_err();
        assert_eq!((refusal.what, refusal.wait), ("tokens", at(40.0)));
        assert!(caps.take(at(59.999), take, 0).is_err());
        assert!(caps.take(at(60.0), take, 0).is_ok());
        assert_eq!(caps.peaks()[1], 100);
    }

    #[test]
    fn a_refusal_takes_nothing() {
        let mut caps = Caps::new(Limits { rpm: Some(10), tpm: Some(10), ..Limits::default() });
        assert!(caps.take(at(0.0), Take { input: 11, output: 0 }, 0).is_err());
        assert_eq!(caps.remaining(at(0.0)), [Some(10), Some(10)]);
    }

    #[test]
    fn the_bucket_refills_at_the_rate_and_holds_no_more_than_its_burst() {
        let mut caps = Caps::new(Limits { rpm: Some(60), burst_seconds: 2.0, ..Limits::default() });
        let take = Take::default();
        assert!(caps.take(at(0.0), take, 0).is_ok() && caps.take(at(0.0), take, 0).is_ok());
        assert_eq!(caps.take(at(0.5), take, 0).unwrap_err().wait, at(0.5));
        assert!(caps.take(at(1.0), take, 0).is_ok());
        assert!(caps.take(at(100.0), take, 0).is_ok() && caps.take(at(100.0), take, 0).is_ok());
        assert!(caps.take(at(100.0), take, 0).is_err());
    }

    #[test]
    fn concurrent_calls_are_capped() {
        let mut caps = Caps::new(Limits { concurrent: Some(2), ..Limits::default() });
        assert!(caps.take(at(0.0), Take::default(), 1).is_ok());
        assert_eq!(caps.take(at(0.0), Take::default(), 2).unwrap_err().what, "concurrent requests");
    }
}
