//! Measures the text estimator against real tokenizers, and fits it.
//!
//! ```text
//! tools/accuracy/corpus.py                         # once: builds target/accuracy/corpus
//! tools/accuracy/others.py                         # once: counts it with Llama 3 and Tekken
//! cargo run --release -p accuracy                  # error per kind of text, over the test part
//! cargo run --release -p accuracy -- --fit TEKKEN  # fits on the fit part, rewrites tables of src/cost/text/weights.rs; all without a name
//! cargo run --release -p accuracy -- --count FILE  # what each tokenizer and the estimate say for one file
//! ```
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::disallowed_methods
)]

mod corpus;
mod fit;
mod report;

use envoy_backpressure::cost::text::{Family, Sample, llm_tokens};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--count", file] => {
            let text = std::fs::read_to_string(file).expect("a readable text file");
            let exact = corpus::Tokenizers::new().count(&text);
            println!("o200k {} (estimate {})", exact[0], llm_tokens(text.as_bytes(), Family::O200k));
            println!("cl100k {} (estimate {})", exact[1], llm_tokens(text.as_bytes(), Family::Cl100k));
        }
        ["--fit", names @ ..] => {
            let documents = corpus::load("fit");
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/cost/text/weights.rs");
            let mut source = std::fs::read_to_string(path).expect("weights.rs is readable");
            for (family, name) in fit::NAMES.iter().enumerate() {
                if names.is_empty() || names.contains(name) {
                    source = fit::Fit::of(&documents, family).rewritten(&source, family);
                }
            }
            std::fs::write(path, source).expect("weights.rs is writable");
            println!("wrote {path}");
        }
        _ => {
            let documents = corpus::load("test");
            let kept = report::print(&documents, |text, family| sampled(text, Family::ALL[family]));
            report::speed(&documents);
            if !kept {
                eprintln!("a named kind is more than 10 % off, or the whole leans by more than 3 %");
                std::process::exit(1);
            }
        }
    }
}

/// The estimate as the filter makes it.
fn sampled(text: &str, family: Family) -> f64 {
    let mut sample = Sample::new();
    sample.feed(text.as_bytes());
    sample.llm_tokens(family) as f64
}
