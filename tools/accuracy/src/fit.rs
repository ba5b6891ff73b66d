//! Least squares on relative errors: weights within bounds, close to a rule of thumb where the corpus says little,
//! and smooth over the lengths of one kind.

use crate::corpus::Document;
use envoy_backpressure::cost::text::{Counts, KINDS, Kind, LENGTHS};
use std::collections::BTreeMap;
use std::fmt::Write;

const CELLS: usize = KINDS * LENGTHS;
/// How much a cell's distance from the rule of thumb weighs, against the mean squared relative error of a kind.
const TO_THUMB: f64 = 4e-5;
/// How much the bend of weights over neighbouring places weighs.
const TO_SMOOTH: f64 = 2e-4;
const ROUNDS: usize = 1_000;
/// Kinds that would lean in the fit part if they counted like the others, and how much more they count.
const MORE: &[(&str, f64)] = &[("zh", 4.0), ("java", 2.0), ("base64", 2.0), ("json", 1.5)];

/// What a character adds by rule of thumb, and the least and most that a fit may make of it.
///
/// The bounds are what byte-pair tokenizers do by construction (a word after a blank is at least one piece, a single
/// blank belongs to it, digits go by three), so that texts unlike the corpus are not far off.
fn thumb(kind: usize, cell: usize) -> [f64; 3] {
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
            _ if beyond => [0.333, 0.32, 0.36],
            1 if spaced => [1.9, 1.3, 2.1],
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
        let more = MORE.iter().find(|(kind, _)| *kind == document.kind).map_or(1.0, |(_, more)| *more);
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
    let rule: Vec<[f64; 3]> = (0..CELLS).map(|cell| thumb(cell / LENGTHS, cell % LENGTHS)).collect();
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

/// Fitted weights of every family, in LLM tokens.
pub(crate) struct Fit([Vec<f64>; 4]);

impl Fit {
    pub(crate) fn of(documents: &[Document]) -> Self {
        Self([0, 1, 2, 3].map(|family| weights(documents, family)))
    }

    /// The estimate for a text, before rounding the weights.
    pub(crate) fn estimate(&self, text: &str, family: usize) -> f64 {
        let mut counts = Counts::new();
        counts.feed(text.as_bytes());
        counts.cut();
        counts.rows().flatten().zip(&self.0[family]).map(|(count, weight)| f64::from(*count) * weight).sum()
    }

    /// The source text of `weights.rs`.
    pub(crate) fn source(&self) -> String {
        let mut text = String::from(
            "//! What a character adds, per tokenizer family. Written by `cargo run --release -p accuracy -- --fit`.\n\n\
         use super::family::Family;\nuse super::kind::{KINDS, LENGTHS};\n\n\
         /// Weights are in 1/1024 of an LLM token.\npub(super) const ONE: u64 = 1_024;\n\n\
         /// Rows by [`super::Kind`], columns by place in the run; the last column is for each place beyond.\n\
         pub(super) type Weights = [[u16; LENGTHS]; KINDS];\n\n\
         /// The weights of a family.\npub(super) const fn of(family: Family) -> &'static Weights {\n    match family {\n\
         \x20       Family::O200k => &O200K,\n        Family::Cl100k => &CL100K,\n        Family::Claude => &CLAUDE,\n\
         \x20       Family::ClaudeDense => &CLAUDE_DENSE,\n    }\n}\n",
        );
        for (family, name) in ["O200K", "CL100K", "CLAUDE", "CLAUDE_DENSE"].iter().enumerate() {
            let fitted = &self.0[family];
            let _ = write!(text, "\n#[rustfmt::skip]\nstatic {name}: Weights = [\n");
            for row in fitted.chunks(LENGTHS) {
                let cells: Vec<String> = row
                    .iter()
                    .map(|weight| ((weight * 1024.0).round().min(65_535.0) as u16).to_string())
                    .collect();
                let _ = writeln!(text, "    [{}],", cells.join(", "));
            }
            text.push_str("];\n");
        }
        text
    }
}
