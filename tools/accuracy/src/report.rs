//! The table of errors.

use crate::corpus::Document;
use envoy_backpressure::cost::text::{Family, llm_tokens};
use std::collections::BTreeMap;
use std::time::Instant;

/// Kinds that the contract names; the others are reported for information.
const NAMED: &[&str] = &[
    "en",
    "python",
    "javascript",
    "typescript",
    "java",
    "go",
    "rust",
    "json",
    "tools",
    "zh",
    "ja",
    "ko",
    "ru",
    "ar",
    "hi",
    "th",
    "emoji",
    "base64",
];

#[derive(Default)]
struct Errors {
    documents: f64,
    absolute: f64,
    signed: f64,
    worst: f64,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.documents += 1.0;
        self.absolute += error.abs();
        self.signed += error;
        if error.abs() > self.worst.abs() {
            self.worst = error;
        }
    }

    fn cells(&self) -> String {
        let percent = |sum: f64| 100.0 * sum / self.documents;
        format!("{:5.1} {:+6.1} {:+6.1}", percent(self.absolute), percent(self.signed), 100.0 * self.worst)
    }
}

/// Prints, for each kind and family, the mean absolute error, the bias and the worst document, in per cent. True when no
/// named kind is more than 10 % off in the mean and no family leans by more than 3 % over all of them.
pub(crate) fn print(documents: &[Document], estimate: impl Fn(&str, usize) -> f64) -> bool {
    let mut kinds: BTreeMap<(bool, &str), [Errors; Family::ALL.len()]> = BTreeMap::new();
    let mut named: [Errors; Family::ALL.len()] = Default::default();
    for document in documents {
        let is_named = NAMED.contains(&document.kind.as_str());
        let row = kinds.entry((!is_named, &document.kind)).or_default();
        for at in 0..Family::ALL.len() {
            let exact = document.exact[at] as f64;
            let error = (estimate(&document.text, at) - exact) / exact;
            row[at].add(error);
            if is_named {
                named[at].add(error);
            }
        }
    }
    println!(
        "             docs   o200k: mean bias worst |  cl100k              |  Claude <= 4.6       |  Claude >= 4.7       |  Llama 3             |  Tekken"
    );
    let line = |name: &str, row: &[Errors; Family::ALL.len()]| {
        let cells: Vec<String> = row.iter().map(Errors::cells).collect();
        println!("{name:12} {:4}   {}", row[0].documents, cells.join("  | "));
    };
    for ((_, kind), row) in &kinds {
        line(kind, row);
    }
    line("named kinds", &named);
    let bytes: usize = documents.iter().map(|document| document.text.len()).sum();
    println!("{} documents, {} KB", documents.len(), bytes / 1_000);
    let near = kinds
        .iter()
        .filter(|((unnamed, _), _)| !unnamed)
        .flat_map(|(_, row)| row)
        .all(|errors| errors.absolute <= 0.1 * errors.documents);
    near && named.iter().all(|errors| errors.signed.abs() <= 0.03 * errors.documents)
}

/// Prints how fast the compiled estimator is here.
pub(crate) fn speed(documents: &[Document]) {
    let text: String = documents.iter().map(|document| document.text.as_str()).collect();
    let best = (0..200).map(|_| {
        let part = text.get(..65_536).unwrap_or(&text).as_bytes();
        let start = Instant::now();
        std::hint::black_box(llm_tokens(std::hint::black_box(part), Family::O200k));
        part.len() as f64 / start.elapsed().as_secs_f64()
    });
    println!("{:.0} MB/s native", best.fold(0.0, f64::max) / 1e6);
}
