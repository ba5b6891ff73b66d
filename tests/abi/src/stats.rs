//! Stats of the process: one per kind and name, whichever worker defines it.

use std::collections::BTreeMap;

/// Kind of a stat, numbered as in the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The kind with the given number.
    pub fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Counter),
            1 => Some(Self::Gauge),
            2 => Some(Self::Histogram),
            _ => None,
        }
    }
}

/// All stats; values of counters and gauges, samples of histograms.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    values: BTreeMap<(Kind, String), u64>,
    samples: BTreeMap<String, Vec<u64>>,
}

impl Stats {
    /// Creates the stat if no one did yet.
    pub fn define(&mut self, kind: Kind, name: &str) {
        self.values.entry((kind, name.to_owned())).or_default();
    }

    /// Changes a counter or gauge by `delta`.
    pub fn add(&mut self, kind: Kind, name: &str, delta: i64) {
        let value = self.values.entry((kind, name.to_owned())).or_default();
        *value = value.wrapping_add_signed(delta);
    }

    /// Sets a gauge, adds to a counter, samples a histogram.
    pub fn record(&mut self, kind: Kind, name: &str, value: u64) {
        match kind {
            Kind::Counter => self.add(kind, name, value as i64),
            Kind::Gauge => {
                self.values.insert((kind, name.to_owned()), value);
            }
            Kind::Histogram => {
                *self.values.entry((kind, name.to_owned())).or_default() += 1;
                self.samples.entry(name.to_owned()).or_default().push(value);
            }
        }
    }

    /// The value of one stat; for a histogram the number of samples.
    pub fn get(&self, kind: Kind, name: &str) -> u64 {
        self.values.get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// Sum over the stats of a kind whose name contains every one of `parts`.
    pub fn sum(&self, kind: Kind, parts: &[&str]) -> u64 {
        let matching =
            self.values.iter().filter(|((k, name), _)| *k == kind && parts.iter().all(|p| name.contains(p)));
        matching.map(|(_, value)| *value).fold(0, u64::wrapping_add)
    }

    /// Number of distinct stats.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no stat was defined.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Every stat with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &str, u64)> {
        self.values.iter().map(|((kind, name), value)| (*kind, name.as_str(), *value))
    }

    /// Samples of a histogram.
    pub fn samples(&self, name: &str) -> &[u64] {
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }
}
