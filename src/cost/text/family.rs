//! Which tokenizer a model uses, as far as its name tells.

use crate::cost::dialect::Dialect;

/// A group of models whose tokenizers cut text alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// GPT-4o and later, and everything that is not known: the vocabularies of current open models are as large.
    O200k,
    /// GPT-4, GPT-3.5 and the OpenAI embeddings.
    Cl100k,
    /// Claude up to 4.6.
    Claude,
    /// Claude 4.7 and later: 1.2 to 1.5 times as many LLM tokens on Latin script.
    ClaudeDense,
    /// Llama 3.
    Llama,
    /// Mistral's Tekken, which counts each digit alone.
    Tekken,
}

/// Parts of model names, lower case, first match wins.
const NAMES: &[(&str, Family)] = &[
    ("gpt-4o", Family::O200k),
    ("gpt-4.", Family::O200k),
    ("gpt-4", Family::Cl100k),
    ("gpt-3.5", Family::Cl100k),
    ("gpt-35", Family::Cl100k),
    ("text-embedding-", Family::Cl100k),
    ("davinci-002", Family::Cl100k),
    ("babbage-002", Family::Cl100k),
    ("claude-2", Family::Claude),
    ("claude-3", Family::Claude),
    ("claude-instant", Family::Claude),
    ("haiku-4", Family::Claude),
    ("sonnet-4", Family::Claude),
    ("opus-4-7", Family::ClaudeDense),
    ("opus-4-8", Family::ClaudeDense),
    ("opus-4-9", Family::ClaudeDense),
    ("opus-4.7", Family::ClaudeDense),
    ("opus-4.8", Family::ClaudeDense),
    ("opus-4.9", Family::ClaudeDense),
    ("opus-4", Family::Claude),
    ("claude", Family::ClaudeDense),
    ("llama3", Family::Llama),
    ("llama-3", Family::Llama),
    // Mistral, Ministral, Magistral, Devstral, Codestral; Pixtral, Voxtral, Mixtral.
    ("stral", Family::Tekken),
    ("xtral", Family::Tekken),
];

impl Family {
    /// Every family.
    pub const ALL: [Self; 6] =
        [Self::O200k, Self::Cl100k, Self::Claude, Self::ClaudeDense, Self::Llama, Self::Tekken];

    /// The family of a model; unknown names go by the dialect.
    pub fn of(model: Option<&str>, shape: Dialect) -> Self {
        let known = model.and_then(|model| {
            let model = model.to_ascii_lowercase();
            NAMES.iter().find(|(part, _)| is_in(part.as_bytes(), model.as_bytes())).map(|(_, family)| *family)
        });
        known.unwrap_or(if shape == Dialect::Anthropic { Self::ClaudeDense } else { Self::O200k })
    }
}

/// Both are short, and there are many parts: the search of the standard library prepares more than it saves here.
fn is_in(part: &[u8], name: &[u8]) -> bool {
    name.windows(part.len()).any(|found| found.first() == part.first() && found == part)
}
