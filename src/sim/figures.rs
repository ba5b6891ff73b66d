//! The published figures, drawn from runs.

use crate::sim::chart::{Axis, Chart, Line, Panel};
use crate::sim::outcome::{BIN, Used};
use crate::sim::report::Run;

const CLASS_NAMES: [&str; 3] = ["high (weight 4)", "normal (2)", "low (1)"];

fn minutes(run: &Run) -> Axis {
    let high = run.load.until.as_micros() as f64 / 60e6;
    let ticks = (0..=5).map(|i| high * f64::from(i) / 5.0).map(|at| (at, format!("{at:.0}"))).collect();
    Axis { label: "time, minutes", low: 0.0, high, log: false, ticks }
}

fn percent(label: &'static str, high: f64) -> Axis {
    let ticks = (0..=4).map(|i| high * f64::from(i) / 4.0).map(|at| (at, format!("{:.0} %", at * 100.0)));
    Axis { label, low: 0.0, high, log: false, ticks: ticks.collect() }
}

/// Mean over this many neighbouring bins on each side.
fn smooth(bins: &[f64], reach: usize) -> Vec<f64> {
    (0..bins.len())
        .map(|at| {
            let (from, to) = (at.saturating_sub(reach), (at + reach + 1).min(bins.len()));
            bins[from..to].iter().sum::<f64>() / (to - from) as f64
        })
        .collect()
}

fn over_time(run: &Run, used: impl Fn(usize) -> Used, reach: usize) -> Vec<(f64, f64)> {
    let bins = (run.load.until.as_micros() / BIN.as_micros()) as usize;
    let parts: Vec<f64> = (0..bins).map(|bin| used(bin).dominant(&run.load, BIN)).collect();
    let middle = |bin: usize| (bin as f64 + 0.5) * BIN.as_micros() as f64 / 60e6;
    smooth(&parts, reach).into_iter().enumerate().map(|(bin, part)| (middle(bin), part)).collect()
}

fn used_by(run: &Run, class: u8, bin: usize) -> Used {
    run.outcome.series.get(&class).and_then(|bins| bins.get(bin)).copied().unwrap_or_default()
}

fn used_by_all(run: &Run, bin: usize) -> Used {
    let mut sum = Used::default();
    for class in run.outcome.series.keys() {
        let more = used_by(run, *class, bin);
        for (total, amount) in sum.0.iter_mut().zip(more.0) {
            *total += amount;
        }
    }
    sum
}

/// Part of the limit each class gets over time, one panel per gatekeeper; thin lines are the entitlements.
pub fn shares(runs: &[Run]) -> Chart {
    let panels = runs.iter().map(|run| {
        let mut lines = Vec::new();
        for (style, entitled) in [4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0].into_iter().enumerate() {
            let end = run.load.until.as_micros() as f64 / 60e6;
            lines.push(Line { style, points: vec![(0.0, entitled), (end, entitled)], reference: true });
        }
        for style in 0..3 {
            let points = over_time(run, |bin| used_by(run, style as u8, bin), 1);
            lines.push(Line { style, points, reference: false });
        }
        let y = percent("share of the limit", 1.0);
        Panel { title: run.outcome.keeper.to_owned(), x: minutes(run), y, lines }
    });
    Chart {
        title: "Share of the limit over time; the high class arrives after 5 minutes".to_owned(),
        legend: CLASS_NAMES.map(str::to_owned).to_vec(),
        panels: panels.collect(),
        columns: 2,
        panel_height: 230.0,
    }
}

/// Part of the calls that wait longer than x, one panel per class, one line per gatekeeper.
pub fn waits(runs: &[Run]) -> Chart {
    let decades = |low: i32, high: i32| (low..=high).map(|power| 10f64.powi(power));
    let panels = (0..3u8).map(|class| {
        let lines = runs.iter().enumerate().map(|(style, run)| {
            let mut waits = run.outcome.waits(&run.load, class);
            waits.sort_unstable();
            let count = waits.len() as f64;
            let step = (waits.len() / 400).max(1);
            let tail = waits.len().saturating_sub(60);
            let points = waits.iter().enumerate().filter(|(i, _)| i % step == 0 || *i >= tail);
            let point = |(index, wait): (usize, &crate::units::Span)| {
                (wait.as_micros() as f64 / 1e6, (count - index as f64) / count)
            };
            Line { style, points: points.map(point).collect(), reference: false }
        });
        let x_ticks = decades(-1, 3).map(|at| (at, format!("{at}"))).collect();
        let y_ticks = decades(-3, 0).map(|at| (at, format!("{} %", at * 100.0))).collect();
        Panel {
            title: CLASS_NAMES[usize::from(class)].to_owned(),
            x: Axis { label: "wait, seconds", low: 0.1, high: 1000.0, log: true, ticks: x_ticks },
            y: Axis { label: "calls that wait longer", low: 0.001, high: 1.0, log: true, ticks: y_ticks },
            lines: lines.collect(),
        }
    });
    Chart {
        title: "Waits from first try to admission, token-bound load".to_owned(),
        legend: runs.iter().map(|run| run.outcome.keeper.to_owned()).collect(),
        panels: panels.collect(),
        columns: 3,
        panel_height: 300.0,
    }
}

/// Part of the limit used over time by all, one line per gatekeeper; one panel per load.
pub fn utilisation(loads: &[Vec<Run>]) -> Chart {
    let panels = loads.iter().filter_map(|runs| {
        let first = runs.first()?;
        let line = |(style, run): (usize, &Run)| Line {
            style,
            points: over_time(run, |bin| used_by_all(run, bin), 1),
            reference: false,
        };
        Some(Panel {
            title: first.load.name.to_owned(),
            x: minutes(first),
            y: percent("use of the limit", 1.2),
            lines: runs.iter().enumerate().map(line).collect(),
        })
    });
    let legend = loads.first().into_iter().flatten().map(|run| run.outcome.keeper.to_owned());
    Chart {
        title: "Use of the binding limit over time".to_owned(),
        legend: legend.collect(),
        panels: panels.collect(),
        columns: 2,
        panel_height: 260.0,
    }
}
