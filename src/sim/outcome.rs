//! What a run measured.

use std::collections::BTreeMap;

use crate::sim::load::{Arrival, Group, Load};
use crate::units::{Cost, Resource, Span};

/// Width of the bins of [`Outcome::series`].
pub const BIN: Span = Span::from_secs(10);

/// Amounts used, by resource; concurrency in slot-microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used(pub [f64; 5]);

impl Used {
    /// Adds a served call that lasts this long within the measured time.
    pub fn add(&mut self, cost: &Cost, lasting: Span) {
        for (sum, resource) in self.0.iter_mut().zip(Resource::ALL) {
            *sum += match resource {
                Resource::Concurrency => lasting.as_micros() as f64,
                _ => *cost.get(resource) as f64,
            };
        }
    }

    fn plus(mut self, other: &Self) -> Self {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
        self
    }

    /// Part of each limit used in `span`; 0 for unlimited resources.
    pub fn parts(&self, load: &Load, span: Span) -> [f64; 5] {
        let micros = (span.as_micros() as f64).max(1.0);
        std::array::from_fn(|i| {
            let resource = Resource::ALL[i];
            match (resource, load.limits.get(resource)) {
                (_, None) => 0.0,
                (Resource::Concurrency, Some(slots)) => self.0[i] / (*slots as f64 * micros),
                (_, Some(limit)) => self.0[i] / (*limit as f64 * micros / 60e6),
            }
        })
    }

    /// The dominant share: the largest part of any limit.
    pub fn dominant(&self, load: &Load, span: Span) -> f64 {
        self.parts(load, span).into_iter().fold(0.0, f64::max)
    }
}

/// What one group of callers got, within the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupOutcome {
    /// True cost of its served calls.
    pub used: Used,
    /// True cost of the calls it began.
    pub offered: Used,
    /// Served calls.
    pub admitted: u64,
    /// Tries of the served calls.
    pub tries: u64,
    /// Tries of all calls.
    pub knocks: u64,
    /// Waits of the served calls, from first try to admission.
    pub waits: Vec<Span>,
    /// Calls given up for good after their last retry.
    pub failed: u64,
    /// Refused calls that never came back.
    pub abandoned: u64,
    /// Callers back for the first time from a booking that was told in full and is at most 60 s long.
    pub returned: u64,
    /// Those of them that were admitted within 1 s of that return.
    pub kept: u64,
    /// Calls served after being parked.
    pub parked: u64,
}

/// What one run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Who decided.
    pub keeper: &'static str,
    /// By group, in the load's order.
    pub groups: Vec<GroupOutcome>,
    /// Calls that the provider refused, over the whole run.
    pub provider_429: u64,
    /// Calls that the provider served, over the whole run.
    pub served: u64,
    /// Used by class in each bin of [`BIN`], over the whole run.
    pub series: BTreeMap<u8, Vec<Used>>,
    /// Most calls parked at once in one worker.
    pub most_parked: usize,
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has everything. 1 for nothing at all.
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

/// The value below which this part of the waits lies, in seconds; NaN when there are none.
pub fn quantile(waits: &[Span], part: f64) -> f64 {
    let mut sorted: Vec<Span> = waits.to_vec();
    sorted.sort_unstable();
    let at = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(f64::NAN, |wait| wait.as_micros() as f64 / 1e6)
}

/// True when an open stream got (nearly) all it asked for, so that its share is its own choice.
fn satisfied(group: &Group, outcome: &GroupOutcome) -> bool {
    matches!(group.arrival, Arrival::Open { .. }) && outcome.used.0[0] >= 0.98 * outcome.offered.0[0]
}

impl Outcome {
    /// The measured time.
    pub fn span(load: &Load) -> Span {
        load.until.minus(load.measure_from)
    }

    /// Dominant share / entitled share of each class that wanted more than it got, by class.
    pub fn class_shares(&self, load: &Load) -> BTreeMap<u8, f64> {
        let mut classes: BTreeMap<u8, (f64, Used)> = BTreeMap::new();
        for (group, outcome) in load.groups.iter().zip(&self.groups) {
            if satisfied(group, outcome) {
                continue;
            }
            let entry = classes.entry(group.class).or_default();
            entry.0 = f64::from(final_class_weight(load, group));
            entry.1 = entry.1.plus(&outcome.used);
        }
        let total: f64 = classes.values().map(|(weight, _)| weight).sum();
        let share = |used: &Used| used.dominant(load, Self::span(load));
        classes.iter().map(|(class, (weight, used))| (*class, share(used) / (weight / total))).collect()
    }

    /// Jain's index over [`Self::class_shares`].
    pub fn jain_classes(&self, load: &Load) -> f64 {
        jain(&self.class_shares(load).into_values().collect::<Vec<_>>())
    }

    /// Jain's index over the flows: dominant share / (class weight x tenant's part of its class), of those that wanted
    /// more than they got.
    pub fn jain_flows(&self, load: &Load) -> f64 {
        let mut flows: BTreeMap<(u8, u32), (Group, Used)> = BTreeMap::new();
        for (group, outcome) in load.groups.iter().zip(&self.groups) {
            if !satisfied(group, outcome) {
                let entry = flows.entry((group.class, group.tenant)).or_insert((*group, Used::default()));
                entry.1 = entry.1.plus(&outcome.used);
            }
        }
        let mut class_total: BTreeMap<u8, f64> = BTreeMap::new();
        for (group, _) in flows.values() {
            *class_total.entry(group.class).or_default() += f64::from(group.tenant_weight);
        }
        let fair: Vec<f64> = flows
            .values()
            .map(|(group, used)| {
                let part = f64::from(group.tenant_weight) / class_total[&group.class];
                used.dominant(load, Self::span(load)) / (f64::from(final_class_weight(load, group)) * part)
            })
            .collect();
        jain(&fair)
    }

    /// Part of the binding limit that was used.
    pub fn utilisation(&self, load: &Load) -> f64 {
        let all = self.groups.iter().fold(Used::default(), |sum, group| sum.plus(&group.used));
        all.dominant(load, Self::span(load))
    }

    /// Waits of one class.
    pub fn waits(&self, load: &Load, class: u8) -> Vec<Span> {
        let of_class = load.groups.iter().zip(&self.groups).filter(|(group, _)| group.class == class);
        of_class.flat_map(|(_, outcome)| outcome.waits.iter().copied()).collect()
    }

    fn total(&self, of: impl Fn(&GroupOutcome) -> u64) -> u64 {
        self.groups.iter().map(of).sum()
    }

    /// Part of the returns from a booking of at most 60 s that were admitted within 1 s; 1 when there were none.
    pub fn kept(&self) -> f64 {
        let returned = self.total(|group| group.returned);
        if returned == 0 { 1.0 } else { self.total(|group| group.kept) as f64 / returned as f64 }
    }

    /// Tries per served call.
    pub fn tries(&self) -> f64 {
        self.total(|group| group.tries) as f64 / (self.total(|group| group.admitted) as f64).max(1.0)
    }

    /// Calls served in the measured time.
    pub fn admitted(&self) -> u64 {
        self.total(|group| group.admitted)
    }

    /// Part of the finished calls that failed for good.
    pub fn failure_rate(&self) -> f64 {
        let failed = self.total(|group| group.failed) as f64;
        failed / (failed + self.admitted() as f64).max(1.0)
    }
}

/// The weight a class has at the end of the run.
fn final_class_weight(load: &Load, group: &Group) -> u32 {
    let changed = load.script.iter().rev().find_map(|(_, change)| match change {
        crate::sim::load::Change::ClassWeight(class, weight) if *class == group.class => Some(*weight),
        _ => None,
    });
    changed.unwrap_or(group.class_weight)
}
