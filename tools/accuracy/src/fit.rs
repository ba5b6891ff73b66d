//! Least squares on relative errors: weights within bounds, close to a rule of thumb where the corpus says little,
//! and smooth over the lengths of one kind.

use crate::corpus::Document;
use envoy_backpressure::cost::text::{Counts, Family, KINDS, Kind, LENGTHS};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const CELLS: usize = KINDS * LENGTHS;
/// How much a cell's distance from the rule of thumb weighs, against the mean squared relative error of a kind.
const TO_THUMB: f64 = 4e-5;
/// How much the bend of weights over neighbouring places weighs.
const TO_SMOOTH: f64 = 2e-4;
const ROUNDS: usize = 1_000;
/// Kinds that would lean in the fit part if they counted like the others, and how much more they count.
const MORE: &[(&str, f64)] = &[("zh", 4.0), ("java", 2.0), ("base64", 2.0), ("json", 1.5)];
/// The same for Llama 3.
const MORE_LLAMA: &[(&str, f64)] = &[("zh", 4.0), ("java", 4.0), ("base64", 3.5), ("json", 3.0)];

/// What a character adds by rule of thumb, and the least and most that a fit may make of it.
///
/// The bounds are what byte-pair tokenizers do by construction (a word after a blank is at least one piece, a single
/// blank belongs to it, digits go by three), so that texts unlike the corpus are not far off.
fn thumb(family: Family, kind: usize, cell: usize) -> [f64; 3] {
    let place = cell + 1;
    let beyond = cell == LENGTHS - 1;
    let is = |first: Kind, last: Kind| (first as usize..=last as usize).contains(&kind);
    let spaced = [Kind::Lower, Kind::First, Kind::DigitsSpaced].iter().any(|spaced| *spaced as usize == kind);
    if is(Kind::Lower, Kind::FirstGlued) && place == 1 {
        if spaced { [1.0, 1.0, 1.3] } else { [0.8, 0.4, 1.5] }
    } else if is(Kind::Lower, Kind::UpperGlued) {
        match place {
            _ if is(Kind::Upper, Kind::UpperGlued) => [0.35, 0.05, 0.8],
            _ if beyond => [0.15, 0.05, 0.35],
            1..=4 => [0.02, 0.0, 0.6],
            5..=8 => [0.07, 0.0, 0.6],
            _ => [0.15, 0.05, 0.6],
        }
    } else if is(Kind::Digits, Kind::DigitsSpaced) {
        match place {
            1 if spaced => [1.9, 1.3, 2.1],
            _ if family == Family::Tekken => [1.0, 0.9, 1.1],
            _ if beyond => [0.333, 0.32, 0.36],
            _ if place % 3 == 1 => [1.0, 0.9, 1.1],
            _ => [0.01, 0.0, 0.1],
        }
    } else if is(Kind::Marks, Kind::MarksSpaced) {
        if place == 1 { [0.8, 0.4, 1.2] } else { [0.45, 0.1, 1.2] }
    } else if is(Kind::Same, Kind::Same) {
        if place < 4 { [0.3, 0.0, 1.0] } else { [0.05, 0.02, 0.5] }
    } else if is(Kind::Blank, Kind::Blank) {
        match place {
            1 => [0.02, 0.0, 0.1],
            2 => [0.8, 0.3, 1.1],
            _ => [0.02, 0.01, 0.2],
        }
    } else if is(Kind::Line, Kind::Line) {
        if place == 1 { [0.7, 0.3, 1.1] } else { [0.1, 0.02, 0.5] }
    } else if kind == Kind::Wide as usize {
        [1.0, 0.8, 1.1]
    } else if kind == Kind::Han as usize {
        [0.8, 0.5, if beyond { 1.2 } else { 1.4 }]
    } else if kind == Kind::Hangul as usize || kind == Kind::Kana as usize {
        if beyond { [0.8, 0.62, 1.4] } else { [0.8, 0.3, 1.8] }
    } else if is(Kind::Emoji, Kind::Astral) {
        [2.0, 0.8, 4.0]
    } else if is(Kind::Typographic, Kind::Symbol) || kind == Kind::Odd as usize {
        [1.0, 0.3, 3.0]
    } else if is(Kind::Accent, Kind::AccentFar) {
        [0.3, 0.0, 1.5]
    } else if place == 1 {
        [0.8, 0.3, 3.0]
    } else {
        [0.35, if beyond { 0.2 } else { 0.03 }, 2.5]
    }
}

/// Fits one family; weights in LLM tokens.
fn weights(documents: &[Document], family: usize) -> Vec<f64> {
    let mut per_kind: BTreeMap<&str, f64> = BTreeMap::new();
    for document in documents {
        *per_kind.entry(&document.kind).or_default() += 1.0;
    }
    let mut square = vec![0.0; CELLS * CELLS];
    let mut linear = vec![0.0; CELLS];
    for document in documents {
        let mut counts = Counts::new();
        counts.feed(document.text.as_bytes());
        counts.cut();
        let exact = document.exact[family] as f64;
        let more = if Family::ALL[family] == Family::Llama { MORE_LLAMA } else { MORE };
        let more = more.iter().find(|(kind, _)| *kind == document.kind).map_or(1.0, |(_, more)| *more);
        let weight = more / per_kind[document.kind.as_str()];
        let row: Vec<(usize, f64)> = counts
            .rows()
            .flatten()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(cell, count)| (cell, f64::from(*count) / exact))
            .collect();
        for &(a, x) in &row {
            linear[a] += weight * x;
            for &(b, y) in &row {
                square[a * CELLS + b] += weight * x * y;
            }
        }
    }
    let rule: Vec<[f64; 3]> =
        (0..CELLS).map(|cell| thumb(Family::ALL[family], cell / LENGTHS, cell % LENGTHS)).collect();
    let start: Vec<f64> = rule.iter().map(|[start, ..]| *start).collect();
    for cell in 0..CELLS {
        square[cell * CELLS + cell] += TO_THUMB;
        linear[cell] += TO_THUMB * start[cell];
    }
    // The bend is that of the distance from the rule of thumb, so that its own steps (three digits) stay.
    for kind in 0..KINDS {
        for at in 0..LENGTHS - 3 {
            let cells = [0, 1, 2].map(|step| kind * LENGTHS + at + step);
            let bend = [1.0, -2.0, 1.0];
            let thumb_bend: f64 = cells.iter().zip(bend).map(|(cell, factor)| start[*cell] * factor).sum();
            for (a, x) in cells.iter().zip(bend) {
                linear[*a] += TO_SMOOTH * x * thumb_bend;
                for (b, y) in cells.iter().zip(bend) {
                    square[a * CELLS + b] += TO_SMOOTH * x * y;
                }
            }
        }
    }
    let mut fitted = start;
    for _ in 0..ROUNDS {
        for cell in 0..CELLS {
            let row = &square[cell * CELLS..(cell + 1) * CELLS];
            let sum: f64 = row.iter().zip(&fitted).map(|(factor, weight)| factor * weight).sum();
            fitted[cell] =
                (fitted[cell] + (linear[cell] - sum) / row[cell]).clamp(rule[cell][1], rule[cell][2]);
        }
    }
    fitted
}

/// Names of the tables in `weights.rs`, in the order of [`Family::ALL`].
pub(crate) const NAMES: [&str; Family::ALL.len()] =
    ["O200K", "CL100K", "CLAUDE", "CLAUDE_DENSE", "LLAMA", "TEKKEN"];

/// Fitted weights of a family.
pub(crate) struct Fit(Vec<f64>);

impl Fit {
    pub(crate) fn of(documents: &[Document], family: usize) -> Self {
        Self(weights(documents, family))
    }

    /// The text of `weights.rs` with this family's table in place of its own.
    pub(crate) fn rewritten(&self, source: &str, family: usize) -> String {
        let head = format!("static {}: Weights = [\n", NAMES[family]);
        let (before, rest) = source.split_once(&head).expect("the table is there");
        let (_, after) = rest.split_once("];\n").expect("the table ends");
        let mut text = format!("{before}{head}");
        for row in self.0.chunks(LENGTHS) {
            let cells: Vec<String> = row
                .iter()
                .map(|weight| ((weight * 1024.0).round().min(65_535.0) as u16).to_string())
                .collect();
            let _ = writeln!(text, "    [{}],", cells.join(", "));
        }
        text + "];\n" + after
    }
}
