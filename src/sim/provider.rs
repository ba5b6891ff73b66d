//! The provider: enforces its caps on the true cost, at the moment a call arrives.

use std::collections::VecDeque;

use crate::units::{Cost, Limits, Resource, Span, Timestamp};

const MINUTE_MICROS: i128 = 60_000_000;
const MINUTE: Span = Span::from_secs(60);

/// How a provider measures its per-minute limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A bucket that holds this long's worth of the limit and refills at its rate. A call larger than the bucket
    /// passes on a full one.
    Bucket(Span),
    /// Never more than the limit in any trailing 60 s, to the microsecond.
    Window,
}

/// A provider with its present state.
#[derive(Clone, Debug)]
pub struct Provider {
    limits: Limits,
    measure: Measure,
    /// Bucket levels in amount x microseconds of a minute, by [`Resource::PER_MINUTE`].
    levels: [i128; 4],
    seen: Timestamp,
    window: VecDeque<(Timestamp, [u64; 4])>,
    window_sum: [u64; 4],
    in_flight: u64,
}

impl Provider {
    /// A provider that was idle until now.
    pub fn new(limits: Limits, measure: Measure, now: Timestamp) -> Self {
        let mut provider = Self {
            limits,
            measure,
            levels: [0; 4],
            seen: now,
            window: VecDeque::new(),
            window_sum: [0; 4],
            in_flight: 0,
        };
        if let Measure::Bucket(burst) = measure {
            provider.levels = provider.capacity(burst);
        }
        provider
    }

    fn limit(&self, index: usize) -> Option<u64> {
        *self.limits.get(Resource::PER_MINUTE[index])
    }

    fn capacity(&self, burst: Span) -> [i128; 4] {
        std::array::from_fn(|i| i128::from(self.limit(i).unwrap_or(0)) * i128::from(burst.as_micros()))
    }

    fn advance(&mut self, now: Timestamp) {
        let passed = i128::from(now.since(self.seen).as_micros());
        self.seen = self.seen.max(now);
        match self.measure {
            Measure::Bucket(burst) => {
                let capacity = self.capacity(burst);
                for (i, most) in capacity.into_iter().enumerate() {
                    let gained = i128::from(self.limit(i).unwrap_or(0)) * passed;
                    self.levels[i] = (self.levels[i] + gained).min(most);
                }
            }
            Measure::Window => {
                let edge = now.before(MINUTE);
                while self.window.front().is_some_and(|(at, _)| *at <= edge) {
                    let Some((_, amounts)) = self.window.pop_front() else { break };
                    for (sum, amount) in self.window_sum.iter_mut().zip(amounts) {
                        *sum -= amount;
                    }
                }
            }
        }
    }

    /// A call arrives with its true cost: true when it is served, false for a 429 (which costs nothing).
    pub fn arrive(&mut self, cost: &Cost, now: Timestamp) -> bool {
        self.advance(now);
        let amounts: [u64; 4] = std::array::from_fn(|i| *cost.get(Resource::PER_MINUTE[i]));
        let fits = (0..4).all(|i| {
            let Some(limit) = self.limit(i) else { return true };
            match self.measure {
                Measure::Bucket(burst) => {
                    let need = i128::from(amounts[i]) * MINUTE_MICROS;
                    self.levels[i] >= need.min(self.capacity(burst)[i])
                }
                Measure::Window => self.window_sum[i] + amounts[i] <= limit,
            }
        });
        let slot = self.limits.concurrency.is_none_or(|slots| self.in_flight < slots);
        if !(fits && slot) {
            return false;
        }
        self.in_flight += 1;
        match self.measure {
            Measure::Bucket(_) => {
                for (level, amount) in self.levels.iter_mut().zip(amounts) {
                    *level -= i128::from(amount) * MINUTE_MICROS;
                }
            }
            Measure::Window => {
                self.window.push_back((now, amounts));
                for (sum, amount) in self.window_sum.iter_mut().zip(amounts) {
                    *sum += amount;
                }
            }
        }
        true
    }

    /// A served call is over: its slot is free.
    pub fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}
