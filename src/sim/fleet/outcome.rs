//! What a fleet's run measured.

use std::collections::{BTreeMap, VecDeque};

use super::FleetLoad;
use crate::sim::outcome::Outcome;
use crate::units::{Cost, Limits, Resource, Span, Timestamp};

/// Amounts admitted in any trailing minute.
#[derive(Clone, Debug, Default)]
pub struct Trailing {
    within: VecDeque<(Timestamp, [u64; 4])>,
    sums: [u64; 4],
    /// Largest part of a limit so far.
    pub most: f64,
}

impl Trailing {
    /// A call passes.
    pub fn add(&mut self, limits: &Limits, cost: &Cost, now: Timestamp) {
        let edge = now.before(Span::from_secs(60));
        while self.within.front().is_some_and(|(at, _)| *at <= edge) {
            let Some((_, gone)) = self.within.pop_front() else { break };
            self.sums.iter_mut().zip(gone).for_each(|(sum, amount)| *sum -= amount);
        }
        let amounts: [u64; 4] = std::array::from_fn(|index| *cost.get(Resource::PER_MINUTE[index]));
        self.within.push_back((now, amounts));
        for (index, resource) in Resource::PER_MINUTE.iter().enumerate() {
            self.sums[index] += amounts[index];
            if let Some(limit) = limits.get(*resource) {
                self.most = self.most.max(self.sums[index] as f64 / *limit as f64);
            }
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct FleetOutcome {
    /// The figures of the callers.
    pub outcome: Outcome,
    /// Largest part of a limit admitted in any 60 s; before and since the measured time.
    pub most: (f64, f64),
    /// Anomalies of all workers, by name.
    pub anomalies: BTreeMap<&'static str, u64>,
    /// LLM tokens of the calls admitted in each second.
    pub passed_llm_tokens: Vec<u64>,
    /// Commands to the store in the whole run, by kinds of operation.
    pub operations: BTreeMap<char, u64>,
    /// Bytes to and from the store.
    pub bytes: (u64, u64),
    /// Part of the time in which the store worked.
    pub busy: f64,
    /// Most markers at a time.
    pub markers: usize,
    /// Waits for decisions of the store, sorted.
    pub decisions: Vec<Span>,
}

impl FleetOutcome {
    /// Of an anomaly.
    pub fn count(&self, name: &str) -> u64 {
        self.anomalies.get(name).copied().unwrap_or(0)
    }

    /// One line of figures.
    pub fn line(&self, fleet: &FleetLoad) -> String {
        let load = &fleet.load;
        let seconds = (load.until.as_micros() as f64 / 1e6).max(1.0);
        let operations: u64 = self.operations.values().sum();
        let middle = self.decisions.get(self.decisions.len() / 2).copied().unwrap_or_default();
        let late = self.decisions.get(self.decisions.len() * 99 / 100).copied().unwrap_or_default();
        format!(
            "in 60 s {:.3}  use {:.3}  Jain {:.4}  kept {:>5.1} %  429s {:>4}  tries {:.2}  alone {:>6}  ops/s {:>7.1} (beats {:.0} %)  bytes/s {:>8.0}  busy {:>4.1} %  wait {:.1}/{:.1} ms",
            self.most.1,
            self.outcome.utilisation(load),
            self.outcome.jain_classes(load),
            self.outcome.kept() * 100.0,
            self.outcome.provider_429,
            self.outcome.tries(),
            self.count("fleet_alone"),
            operations as f64 / seconds,
            self.operations.get(&'h').copied().unwrap_or(0) as f64 / operations.max(1) as f64 * 100.0,
            (self.bytes.0 + self.bytes.1) as f64 / seconds,
            self.busy * 100.0,
            middle.as_micros() as f64 / 1e3,
            late.as_micros() as f64 / 1e3,
        )
    }
}
