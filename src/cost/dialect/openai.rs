//! OpenAI and everything that serves its paths: vLLM, SGLang, Groq, OpenRouter, Gemini's and Ollama's compatibility
//! endpoints. Sources: the types of the `openai` Python package 3.57, vLLM's protocol files.

use super::{Dialect, Found, Names, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::OpenAi,
    find,
    prose: PROSE,
    json: JSON,
    caps: CAPS,
    copies: COPIES,
    streams_by_default: false,
};

pub(super) const PROSE: &[Names] = &[
    &["messages"],
    &["prompt"],
    &["suffix"],
    &["input"],
    &["instructions"],
    &["prediction"],
    &["documents"],
];
pub(super) const JSON: &[Names] =
    &[&["tools"], &["functions"], &["response_format"], &["text", "format"], &["guided_json"]];
/// A body may name several; servers differ in which one they honour.
pub(super) const CAPS: &[Names] = &[&["max_tokens"], &["max_completion_tokens"], &["max_output_tokens"]];
pub(super) const COPIES: &[Names] = &[&["n"], &["best_of"]];

fn find(place: &Place<'_>) -> Option<Found> {
    operation(place).and_then(Found::body)
}

/// The operation that the end of an OpenAI-style path names.
pub(super) fn operation(place: &Place<'_>) -> Option<Operation> {
    if place.ends_with(&["chat", "completions"]) {
        return Some(Operation::Chat);
    }
    let parent = place.back(1).unwrap_or_default();
    if parent.eq_ignore_ascii_case("images") {
        return Some(Operation::Images);
    }
    if parent.eq_ignore_ascii_case("audio") {
        return Some(Operation::Audio);
    }
    let last = place.back(0)?;
    [
        ("completions", Operation::Completions),
        ("responses", Operation::Responses),
        ("embeddings", Operation::Embeddings),
    ]
    .iter()
    .find_map(|(name, operation)| last.eq_ignore_ascii_case(name).then_some(*operation))
}
