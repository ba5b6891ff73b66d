//! Cohere v2. Source: `v2/raw_client.py` of the `cohere` Python package 7.3.

use super::{Dialect, Found, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::Cohere,
    find,
    prose: &[
        &["messages"],
        &["documents"],
        &["texts"],
        &["images"],
        &["inputs"],
        &["message"],
        &["chat_history"],
        &["preamble"],
    ],
    json: &[&["tools"], &["response_format"]],
    caps: &[&["max_tokens"]],
    copies: &[],
    streams_by_default: false,
};

fn find(place: &Place<'_>) -> Option<Found> {
    if place.ends_with(&["v2", "chat"]) {
        Found::body(Operation::Chat)
    } else if place.ends_with(&["v2", "embed"]) {
        Found::body(Operation::Embeddings)
    } else {
        None
    }
}
