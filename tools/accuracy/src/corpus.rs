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
    pub(crate) exact: [u64; 4],
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

/// A text, its kind, and what tokenizers without weights of their own make of it.
pub(crate) struct Other {
    /// Its folder.
    pub(crate) kind: String,
    /// Its bytes.
    pub(crate) text: String,
    /// LLM tokens of Tekken and of Llama 3.
    pub(crate) exact: [u64; 2],
}

/// The documents that `others.py` counted.
pub(crate) fn others() -> Vec<Other> {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/accuracy/corpus"));
    let table = std::fs::read_to_string(root.join("others.tsv")).expect("tools/accuracy/others.py has run");
    let read = |line: &str| {
        let mut fields = line.split('\t');
        let name = fields.next()?;
        let mut number = || fields.next()?.parse().ok();
        let exact = [number()?, number()?];
        let text = std::fs::read_to_string(root.join(name)).ok()?;
        Some(Other { kind: name.split('/').nth(1)?.to_owned(), text, exact })
    };
    table.lines().filter_map(read).filter(|other| other.text.len() >= 1_000).collect()
}

/// Every document of a part, sorted. Claude's counts come from the file that `corpus.py` wrote.
pub(crate) fn load(part: &str) -> Vec<Document> {
    assert_eq!(Family::ALL, [Family::O200k, Family::Cl100k, Family::Claude, Family::ClaudeDense]);
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/accuracy/corpus"));
    let claude: BTreeMap<String, [u64; 2]> = std::fs::read_to_string(root.join("claude.tsv"))
        .expect("the corpus is built; run tools/accuracy/corpus.py first")
        .lines()
        .map(|line| {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap_or_default().to_owned();
            let mut number = || fields.next().and_then(|field| field.parse().ok()).unwrap_or_default();
            (name, [number(), number()])
        })
        .collect();
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
        documents.push(Document { kind, text, exact: [o200k, cl100k, counts[0], counts[1]] });
    }
    documents
}
