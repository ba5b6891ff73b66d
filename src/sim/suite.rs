//! Which gatekeeper plays which load, and what is demanded of the gate.

use crate::sim::baseline::{FirstCome, NaiveRetry, TimeToRefill};
use crate::sim::gatekeeper::Gatekeeper;
use crate::sim::ideal::Ideal;
use crate::sim::load::Load;
use crate::sim::loads;
use crate::sim::outcome::quantile;
use crate::sim::real::RealGate;
use crate::sim::report::Run;
use crate::sim::world::{beginning, play};

/// One write in this many meets another worker's.
const COLLISION: u64 = 16;

/// A gatekeeper for one run of one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// See [`NaiveRetry`].
    Naive,
    /// See [`TimeToRefill`].
    Bucket,
    /// See [`FirstCome`].
    Queue,
    /// The rule in its plainest form, see [`Ideal`].
    Paper,
    /// The gate, with a plain token bucket.
    Gate,
    /// The gate, with `strict_window`.
    Strict,
}

impl Kind {
    /// Plays `load` with a fresh gatekeeper of this kind.
    pub fn play(self, load: &Load, seed: u64) -> Run {
        let load = if self == Self::Strict { load.clone().strict() } else { load.clone() };
        let (policy, now) = (load.policy(), beginning());
        let mut keeper: Box<dyn Gatekeeper> = match self {
            Self::Naive => Box::new(NaiveRetry),
            Self::Bucket => Box::new(TimeToRefill::new(policy, now)),
            Self::Queue => Box::new(FirstCome::new(policy, now)),
            Self::Paper => Box::new(Ideal::new(&policy, now)),
            Self::Gate | Self::Strict => Box::new(RealGate::new(policy, load.workers, COLLISION)),
        };
        let outcome = play(&load, keeper.as_mut(), seed);
        Run { load, outcome }
    }
}

/// A figure that is demanded of the gate.
#[derive(Clone, Debug)]
pub struct Demand {
    /// What is measured.
    pub measure: String,
    /// True when more is better.
    pub more_is_better: bool,
    /// Demanded of the gate with a plain bucket.
    pub gate: Option<f64>,
    /// Demanded of the gate with a strict window.
    pub strict: Option<f64>,
    /// Measured, in the order of [`COLUMNS`].
    pub measured: Vec<Option<f64>>,
    /// Digits after the point.
    pub digits: usize,
}

/// Columns of the tables.
pub const COLUMNS: [Kind; 5] = [Kind::Gate, Kind::Strict, Kind::Naive, Kind::Bucket, Kind::Queue];

impl Demand {
    /// True when the gate does what is demanded.
    pub fn is_met(&self) -> bool {
        let meets = |demanded: Option<f64>, column: usize| match (demanded, self.measured.get(column)) {
            (Some(demanded), Some(Some(measured))) if self.more_is_better => *measured >= demanded,
            (Some(demanded), Some(Some(measured))) => *measured <= demanded,
            (Some(_), _) => false,
            (None, _) => true,
        };
        meets(self.gate, 0) && meets(self.strict, 1)
    }
}

/// Plays `load` with every kind of [`COLUMNS`].
pub fn side_by_side(load: &Load, seed: u64) -> Vec<Run> {
    COLUMNS.iter().map(|kind| kind.play(load, seed)).collect()
}

/// The runs behind the main table, load by load.
pub fn published_runs(seed: u64) -> Vec<Vec<Run>> {
    let mut loads = loads::published();
    loads.push(loads::abandoning(0.7));
    loads.iter().map(|load| side_by_side(load, seed)).collect()
}

fn worst(runs: &[&Vec<Run>], more_is_better: bool, of: impl Fn(&Run) -> f64) -> Vec<Option<f64>> {
    let pick = if more_is_better { f64::min } else { f64::max };
    (0..COLUMNS.len())
        .map(|column| runs.iter().filter_map(|row| row.get(column)).map(&of).reduce(pick))
        .collect()
}

fn jain_of(run: &Run) -> f64 {
    run.outcome.jain_classes(&run.load)
}

fn use_of(run: &Run) -> f64 {
    run.outcome.utilisation(&run.load)
}

/// How many times lower the high class's p99 wait is than under naive retry; over three seeds, as the naive tail is
/// long and varies.
pub fn tail_gain(load: &Load, kind: Kind, seed: u64) -> f64 {
    let tail = |kind: Kind| {
        let waits = (seed..seed.saturating_add(3)).flat_map(|seed| {
            let run = kind.play(load, seed);
            run.outcome.waits(&run.load, 0)
        });
        quantile(&waits.collect::<Vec<_>>(), 0.99)
    };
    tail(Kind::Naive) / tail(kind).max(0.001)
}

fn tail_gains(load: &Load, seed: u64) -> Vec<Option<f64>> {
    COLUMNS.iter().map(|kind| Some(tail_gain(load, *kind, seed))).collect()
}

/// The demands of the contract on the runs of [`published_runs`].
pub fn demands(runs: &[Vec<Run>], seed: u64) -> Vec<Demand> {
    let named = |name: &str| runs.iter().find(|row| row.first().is_some_and(|run| run.load.name == name));
    let contended: Vec<&Vec<Run>> = loads::published().iter().filter_map(|load| named(load.name)).collect();
    let mut table = Vec::new();
    for row in &contended {
        let name = row.first().map_or("", |run| run.load.name);
        let measured = worst(&[row], true, jain_of);
        let (gate, strict) = (Some(0.999), Some(0.999));
        table.push(Demand {
            measure: format!("Jain, {name}"),
            more_is_better: true,
            gate,
            strict,
            measured,
            digits: 4,
        });
    }
    let mut add = |measure: &str, more_is_better, gate, strict, measured, digits| {
        table.push(Demand { measure: measure.to_owned(), more_is_better, gate, strict, measured, digits });
    };
    let steady = &contended;
    add("use of the binding limit, worst", true, Some(0.99), Some(0.95), worst(steady, true, use_of), 3);
    if let Some(gone) = named(loads::abandoning(0.7).name) {
        add("Jain, 70 % of refused never return", true, Some(0.99), None, worst(&[gone], true, jain_of), 4);
        add("use, 70 % of refused never return", true, Some(0.99), None, worst(&[gone], true, use_of), 3);
    }
    let throttled = worst(steady, false, |run| run.outcome.provider_429 as f64);
    add("upstream 429s, worst", false, Some(0.0), Some(0.0), throttled, 0);
    let kept = worst(steady, true, |run| run.outcome.kept() * 100.0);
    add("bookings of at most 60 s kept, worst, %", true, Some(97.0), Some(90.0), kept, 1);
    let tries = worst(steady, false, |run| run.outcome.tries());
    add("tries per admitted call, worst", false, Some(2.4), Some(2.4), tries, 2);
    for (load, times) in
        [(loads::token_bound(), 12.0), (loads::request_bound(), 10.0), (loads::uneven(), 50.0)]
    {
        let measure = format!("high-class p99 wait, times below naive, {}", load.name);
        add(&measure, true, Some(times), None, tail_gains(&load, seed), 1);
    }
    table
}

/// How many times as long the others wait, by the 99th percentile, when one of ten tenants has fifty times their callers.
/// Over three seeds, as that percentile is of some fifteen waits in a run.
pub fn flood_cost(kind: Kind, seed: u64) -> f64 {
    let others = |flood: usize| {
        let waits = (seed..seed.saturating_add(3)).flat_map(|seed| {
            let groups = kind.play(&loads::flooded(flood), seed).outcome.groups;
            groups.into_iter().skip(1).flat_map(|group| group.waits)
        });
        quantile(&waits.collect::<Vec<_>>(), 0.99)
    };
    others(50) / others(1).max(0.001)
}

/// What is demanded beyond the contended loads: wrong estimates, many tenants, a flood, official clients.
pub fn further_demands(seed: u64) -> Vec<Demand> {
    let of = |runs: &[Run], of: &dyn Fn(&Run) -> f64| runs.iter().map(|run| Some(of(run))).collect();
    let mut table = Vec::new();
    let mut add = |measure: &str, more_is_better, bound, measured, digits| {
        let (measure, gate, strict) = (measure.to_owned(), Some(bound), Some(bound));
        table.push(Demand { measure, more_is_better, gate, strict, measured, digits });
    };
    for (factor, most_refused) in [(2.0, 0.0), (0.5, 1.0)] {
        let load = loads::misestimated(factor);
        let runs = side_by_side(&load, seed);
        add(&format!("Jain over true use, {}", load.name), true, 0.99, of(&runs, &jain_of), 4);
        let refused = |run: &Run| {
            run.outcome.provider_429 as f64 * 100.0 / (run.outcome.provider_429 + run.outcome.served) as f64
        };
        let measure = format!("calls that the provider refuses, {}, %", load.name);
        add(&measure, false, most_refused, of(&runs, &refused), 2);
    }
    let tenants = side_by_side(&loads::many_tenants(), seed);
    let flows = |run: &Run| run.outcome.jain_flows(&run.load);
    add("Jain over 300 tenants in 3 classes", true, 0.98, of(&tenants, &flows), 4);
    let flood = COLUMNS.iter().map(|kind| Some(flood_cost(*kind, seed))).collect();
    add("others' p99 wait when a tenant floods 50 x, times that without", false, 1.1, flood, 2);
    table
}

/// The published figures of a worker-side gate on three priority classes, against ours on the like loads.
pub fn against_published(runs: &[Vec<Run>], seed: u64) -> Vec<Demand> {
    let named = |name: &str| runs.iter().find(|row| row.first().is_some_and(|run| run.load.name == name));
    let mut table = Vec::new();
    let mut add = |measure: &str, theirs: f64, measured: Vec<Option<f64>>, digits| {
        let measure = measure.to_owned();
        table.push(Demand {
            measure,
            more_is_better: true,
            gate: Some(theirs),
            strict: Some(theirs),
            measured,
            digits,
        });
    };
    if let Some(row) = named(loads::token_bound().name) {
        add(
            "Jain over three priority classes (published: 0.60 -> 0.89)",
            0.89,
            worst(&[row], true, jain_of),
            4,
        );
        let gains = tail_gains(&loads::token_bound(), seed);
        add("high-priority tail, times lower (published: 8)", 8.0, gains, 1);
    }
    if let Some(row) = named(loads::mixed().name) {
        add("dominant-resource fairness (published: 0.99)", 0.99, worst(&[row], true, jain_of), 4);
    }
    table
}
