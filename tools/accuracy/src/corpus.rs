//! The documents and what each tokenizer makes of them.

use envoy_backpressure::cost::text::Family;
use std::collections::BTreeMap;
use tiktoken_rs::CoreBPE;

/// One text.
pub(crate) struct Document {
    /// Its folder.
    pub(crate) kind: String,
    /// Its bytes.
    pub(crate) text: String,
    /// LLM tokens, in the order of [`Family::ALL`].
    pub(crate) exact: [u64; Family::ALL.len()],
}

/// The tokenizers that run here.
pub(crate) struct Tokenizers {
    o200k: CoreBPE,
    cl100k: CoreBPE,
}

impl Tokenizers {
    pub(crate) fn new() -> Self {
        Self {
            o200k: tiktoken_rs::o200k_base().expect("the vocabulary is part of the crate"),
            cl100k: tiktoken_rs::cl100k_base().expect("the vocabulary is part of the crate"),
        }
    }

    /// o200k, cl100k.
    pub(crate) fn count(&self, text: &str) -> [u64; 2] {
        [&self.o200k, &self.cl100k].map(|bpe| bpe.encode_ordinary(text).len() as u64)
    }
}

/// Counts by document: lines of a name and two numbers.
fn table(path: &std::path::Path) -> BTreeMap<String, [u64; 2]> {
    std::fs::read_to_string(path)
        .expect("the corpus is built; run tools/accuracy/corpus.py and others.py first")
        .lines()
        .map(|line| {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap_or_default().to_owned();
            let mut number = || fields.next().and_then(|field| field.parse().ok()).unwrap_or_default();
            (name, [number(), number()])
        })
        .collect()
}

/// Every document of a part, sorted. Counts of tokenizers that do not run here come from the files that `corpus.py` and
/// `others.py` wrote.
pub(crate) fn load(part: &str) -> Vec<Document> {
    use Family::{Cl100k, Claude, ClaudeDense, Llama, O200k, Tekken};
    assert_eq!(Family::ALL, [O200k, Cl100k, Claude, ClaudeDense, Llama, Tekken]);
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/accuracy/corpus"));
    let (claude, others) = (table(&root.join("claude.tsv")), table(&root.join("others.tsv")));
    let tokenizers = Tokenizers::new();
    let mut documents = Vec::new();
    for (name, counts) in &claude {
        let Some((_, rest)) = name.split_once('/').filter(|(found, _)| *found == part) else { continue };
        let Ok(text) = std::fs::read_to_string(root.join(name)) else { continue };
        if text.len() < 1_000 {
            continue;
        }
        let kind = rest.split('/').next().unwrap_or_default().to_owned();
        let [o200k, cl100k] = tokenizers.count(&text);
        let [llama, tekken] = others.get(name).copied().unwrap_or_default();
        documents.push(Document { kind, text, exact: [o200k, cl100k, counts[0], counts[1], llama, tekken] });
    }
    documents
}
