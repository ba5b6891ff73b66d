//! Least squares on relative errors: weights not below zero, close to a rule of thumb where the corpus says little,
//! and smooth over the lengths of one kind.

use crate::corpus::Document;
use envoy_backpressure::cost::text::{Counts, KINDS, Kind, LENGTHS};
use std::collections::BTreeMap;
use std::fmt::Write;

const CELLS: usize = KINDS * LENGTHS;
/// How much a cell's distance from the rule of thumb weighs, against the mean squared relative error of a kind.
const TO_THUMB: f64 = 2e-6;
/// How much the bend of weights over neighbouring lengths weighs.
const TO_SMOOTH: f64 = 4e-5;
const ROUNDS: usize = 3_000;

/// What a run costs by rule of thumb, before fitting.
fn thumb(kind: usize, cell: usize) -> f64 {
    let len = (cell + 1) as f64;
    let beyond = cell == LENGTHS - 1;
    let per_character = |weight: f64| if beyond { weight } else { weight * len };
    let is = |first: Kind, last: Kind| (first as usize..=last as usize).contains(&kind);
    if is(Kind::Lower, Kind::UpperGlued) {
        if beyond { 0.3 } else { 0.9 + 0.13 * (len - 4.0).max(0.0) }
    } else if is(Kind::Digits, Kind::DigitsSpaced) {
        let spaced = f64::from(u8::from(kind == Kind::DigitsSpaced as usize));
        if beyond { 1.0 / 3.0 } else { (len / 3.0).ceil() + spaced }
    } else if is(Kind::Marks, Kind::MarksSpaced) {
        if beyond { 0.5 } else { 0.8 + 0.5 * (len - 1.0) }
    } else if is(Kind::Ruler, Kind::Lines) {
        if beyond { 0.02 } else { 1.0 }
    } else if is(Kind::Han, Kind::Hangul) || is(Kind::Wide, Kind::Kana) {
        per_character(0.8)
    } else if is(Kind::Emoji, Kind::Astral) {
        per_character(2.2)
    } else if is(Kind::Typographic, Kind::Symbol) || kind == Kind::Odd as usize {
        per_character(1.0)
    } else {
        per_character(0.45)
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
        let weight = 1.0 / per_kind[document.kind.as_str()];
        let row: Vec<(usize, f64)> = counts
            .cells()
            .iter()
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
    let start: Vec<f64> = (0..CELLS).map(|cell| thumb(cell / LENGTHS, cell % LENGTHS)).collect();
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
            fitted[cell] = (fitted[cell] + (linear[cell] - sum) / row[cell]).max(0.0);
        }
    }
    fitted
}

/// The source text of `weights.rs`.
pub(crate) fn source(documents: &[Document]) -> String {
    let mut text = String::from(
        "//! What a run costs, per tokenizer family. Written by `cargo run --release -p accuracy -- --fit`.\n\n\
         use super::family::Family;\nuse super::kind::{KINDS, LENGTHS};\n\n\
         /// Weights are in 1/1024 of an LLM token.\npub(super) const ONE: u64 = 1_024;\n\n\
         /// Rows by [`super::Kind`], columns by length; the last column is for each character beyond.\n\
         pub(super) type Weights = [[u16; LENGTHS]; KINDS];\n\n\
         /// The weights of a family.\npub(super) const fn of(family: Family) -> &'static Weights {\n    match family {\n\
         \x20       Family::O200k => &O200K,\n        Family::Cl100k => &CL100K,\n        Family::Claude => &CLAUDE,\n\
         \x20       Family::ClaudeDense => &CLAUDE_DENSE,\n    }\n}\n",
    );
    for (family, name) in ["O200K", "CL100K", "CLAUDE", "CLAUDE_DENSE"].iter().enumerate() {
        let fitted = weights(documents, family);
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
