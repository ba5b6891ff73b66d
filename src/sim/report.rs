//! The tables that `simulate` prints.

use crate::sim::load::Load;
use crate::sim::outcome::{Outcome, quantile};
use crate::sim::suite::Demand;
use std::fmt::Write as _;

/// One run with the load it played.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was played.
    pub load: Load,
    /// What was measured.
    pub outcome: Outcome,
}

impl Run {
    /// Quantile of the waits of one class in seconds.
    pub fn wait(&self, class: u8, part: f64) -> f64 {
        quantile(&self.outcome.waits(&self.load, class), part)
    }

    fn classes(&self) -> Vec<u8> {
        self.outcome.series.keys().copied().collect()
    }

    fn by_class(&self, of: impl Fn(u8) -> String) -> String {
        self.classes().into_iter().map(of).collect::<Vec<_>>().join("/")
    }

    /// One line of figures.
    pub fn line(&self) -> String {
        let outcome = &self.outcome;
        let shares = outcome.class_shares(&self.load);
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{:<24} jain {:.4}  flows {:.4}  use {:.3}  kept {:>5.1} %  tries {:>5.2}  429s {:>5}  failed {:>4.1} %",
            outcome.keeper,
            outcome.jain_classes(&self.load),
            outcome.jain_flows(&self.load),
            outcome.utilisation(&self.load),
            outcome.kept() * 100.0,
            outcome.tries(),
            outcome.provider_429,
            outcome.failure_rate() * 100.0,
        );
        let share = |class: u8| shares.get(&class).map_or("-".to_owned(), |share| format!("{share:.2}"));
        let _ = write!(line, "  share/entitled {}", self.by_class(share));
        let wait = |part: f64| self.by_class(|class| format!("{:.1}", self.wait(class, part)));
        let _ = write!(line, "  p50 {} s  p99 {} s", wait(0.5), wait(0.99));
        line
    }
}

/// A table of demands: what is asked, what the gate does with both kinds of window, what the baselines do.
pub fn table(title: &str, demands: &[Demand]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{title}\n{:<62} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "demanded", "gate", "strict:", "gate", "naive", "bucket", "fcfs"
    );
    for demand in demands {
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.*}", demand.digits));
        let sign = if demand.more_is_better { ">= " } else { "<= " };
        let bound = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{sign}{value}"));
        let cell = |column: usize| number(demand.measured.get(column).copied().flatten());
        let _ = writeln!(
            out,
            "{:<62} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {}",
            demand.measure,
            bound(demand.gate),
            cell(0),
            bound(demand.strict),
            cell(1),
            cell(2),
            cell(3),
            cell(4),
            if demand.is_met() { "met" } else { "MISSED" },
        );
    }
    out
}
