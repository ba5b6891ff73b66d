//! Estimates against real tokenizers, over a few committed texts of each kind that the contract names. The whole corpus
//! and how the counts were made: `docs/accuracy.md`.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::Path;

use envoy_backpressure::cost::text::{Family, Sample};

/// Most per cent that a kind may be off in the mean. A kind has one to three texts here, and single texts scatter; over the
/// whole corpus `make accuracy` holds ten.
const KIND: f64 = 13.0;
/// Most per cent that all kinds may be off in the mean.
const ALL: f64 = 6.5;
/// Most per cent that the estimates of all texts may lean.
const BIAS: f64 = 3.0;

const FAMILIES: usize = Family::ALL.len();

/// A file's kind, and per family how far the estimate is from the count, as a part of it.
fn errors() -> Vec<(String, [f64; FAMILIES])> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accuracy");
    let counts = std::fs::read_to_string(folder.join("counts.tsv")).unwrap();
    let lines = counts.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let text = std::fs::read(folder.join(fields[0])).unwrap();
            assert!(text.len() >= 1_000, "{}", fields[0]);
            let kind = fields[0].split('-').next().unwrap().to_owned();
            let mut sample = Sample::new();
            sample.feed(&text);
            let error = |at: usize| {
                let exact: f64 = fields[at + 1].parse().unwrap();
                (sample.llm_tokens(Family::ALL[at]) as f64 - exact) / exact
            };
            (kind, std::array::from_fn(error))
        })
        .collect()
}

#[test]
fn estimates_of_every_named_kind_are_near_the_real_counts() {
    let errors = errors();
    let mut kinds: BTreeMap<&str, Vec<[f64; FAMILIES]>> = BTreeMap::new();
    for (kind, row) in &errors {
        kinds.entry(kind).or_default().push(*row);
    }
    assert_eq!(kinds.len(), 18);
    let (mut far, mut means) = (Vec::new(), Vec::new());
    for (kind, rows) in &kinds {
        let mean: [f64; FAMILIES] = std::array::from_fn(|at| {
            100.0 * rows.iter().map(|row: &[f64; FAMILIES]| row[at].abs()).sum::<f64>() / rows.len() as f64
        });
        println!("{kind:12} {mean:5.1?}");
        far.extend(mean.iter().filter(|off| **off > KIND).map(|off| format!("{kind} {off:.1} %")));
        means.push(mean);
    }
    for (at, family) in Family::ALL.into_iter().enumerate() {
        let bias = 100.0 * errors.iter().map(|(_, row)| row[at]).sum::<f64>() / errors.len() as f64;
        let all = means.iter().map(|mean| mean[at]).sum::<f64>() / means.len() as f64;
        println!("{family:?} {all:.1} %, bias {bias:+.1} %");
        if bias.abs() > BIAS || all > ALL {
            far.push(format!("{family:?} is {all:.1} % off and leans by {bias:+.1} %"));
        }
    }
    assert!(far.is_empty(), "{far:?}");
}
