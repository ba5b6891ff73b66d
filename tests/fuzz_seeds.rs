//! Every fuzz target on its seeds and on inputs made from them, without a fuzzer's search: `make fuzz` searches.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub
)]

use std::fs;
use std::path::Path;

#[path = "../fuzz/src/lib.rs"]
mod targets;

/// A plain generator: the same inputs at each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// Files of a folder whose names end so.
fn seeds(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(ending))
        .collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).filter(|seed| seed.len() <= 16_384).collect()
}

/// `seed` with some bytes changed, doubled or lost, and a part of `other` in it.
fn mutated(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = seed.to_vec();
    for _ in 0..1 + random.below(6) {
        let at = random.below(out.len() + 1);
        match random.below(5) {
            0 if at < out.len() => out[at] = random.next() as u8,
            1 if at < out.len() => out[at] ^= 1 << random.below(8),
            2 => out.truncate(at),
            3 => {
                let from = random.below(other.len() + 1);
                let piece = &other[from..(from + random.below(64)).min(other.len())];
                out.splice(at..at, piece.iter().copied());
            }
            _ => {
                let end = (at + random.below(32)).min(out.len());
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece);
            }
        }
    }
    out
}

fn run(seeds: &[Vec<u8>], inputs: usize, check: impl Fn(&[u8])) {
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| check(seed));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..inputs {
        let (one, other) = (random.below(seeds.len()), random.below(seeds.len()));
        check(&mutated(&seeds[one], &seeds[other], &mut random));
    }
}

#[test]
fn configurations() {
    let mut all = seeds("tests/config/good", "");
    all.extend(seeds("tests/config/bad", ""));
    run(&all, 1_000, targets::config::check);
}

#[test]
fn requests() {
    run(&seeds("tests/samples/requests", ".json"), 1_000, targets::request::check);
}

#[test]
fn responses() {
    for (ending, content_type) in [
        (".resp.json", "application/json"),
        (".sse", "text/event-stream"),
        (".ndjson", "application/x-ndjson"),
        (".eventstream", "application/vnd.amazon.eventstream"),
        (".gz", "application/json"),
    ] {
        run(&seeds("tests/samples", ending), 400, |input| {
            targets::response::target(content_type.as_bytes(), input)
        });
    }
    run(&seeds("tests/samples", ".resp.json"), 200, targets::response::array);
}

#[test]
fn limit_headers() {
    run(&seeds("fuzz/seeds/headers", ""), 1_000, targets::headers::check);
}

#[test]
fn ledgers_and_learned_sizes() {
    run(&seeds("fuzz/seeds/ledger", ""), 2_000, targets::ledger::check);
    run(&seeds("fuzz/seeds/ledger", ""), 1_000, targets::learned::check);
}

#[test]
fn sessions() {
    run(&seeds("fuzz/seeds/session", ""), 200, targets::world::play);
}
