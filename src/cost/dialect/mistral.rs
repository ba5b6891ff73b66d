//! Mistral's own paths; its chat and embeddings share OpenAI's.
//! Source: the `mistralai` Python package 3.7.

use super::{Dialect, Found, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::Mistral,
    find,
    prose: &[&["messages"], &["prompt"], &["suffix"], &["inputs"], &["instructions"], &["input"]],
    json: &[&["tools"], &["response_format"], &["completion_args", "response_format"]],
    caps: &[&["max_tokens"], &["completion_args", "max_tokens"]],
    copies: &[&["n"]],
    streams_by_default: false,
};

fn find(place: &Place<'_>) -> Option<Found> {
    if place.ends_with(&["fim", "completions"]) {
        return Found::body(Operation::Completions);
    }
    if place.ends_with(&["agents", "completions"]) || place.ends_with(&["v1", "conversations"]) {
        return Found::body(Operation::Chat);
    }
    // An existing conversation is continued under its id.
    let continues = place.back(1).is_some_and(|name| name.eq_ignore_ascii_case("conversations"))
        && place.back(2).is_some_and(|name| name.eq_ignore_ascii_case("v1"));
    if continues { Found::body(Operation::Chat) } else { None }
}
