//! Anthropic messages, and the same bodies on Vertex (`:rawPredict`).
//! Source: the types and `lib/vertex` of the `anthropic` Python package 2.14.

use super::{Dialect, Found, Names, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::Anthropic,
    find,
    prose: PROSE,
    json: JSON,
    caps: CAPS,
    copies: &[],
    streams_by_default: false,
};

pub(super) const PROSE: &[Names] = &[&["system"], &["messages"]];
pub(super) const JSON: &[Names] = &[&["tools"], &["output_config", "format"], &["output_format"]];
/// `thinking.budget_tokens` lies inside `max_tokens`.
pub(super) const CAPS: &[Names] = &[&["max_tokens"]];

fn find(place: &Place<'_>) -> Option<Found> {
    if place.ends_with(&["v1", "messages"]) {
        return Found::body(Operation::Chat);
    }
    let (model, verb) = place.model_and_verb()?;
    let streams = match verb {
        "rawPredict" => false,
        "streamRawPredict" => true,
        _ => return None,
    };
    let counts_only = model == "count-tokens";
    let ours = place.back(2).is_some_and(|publisher| publisher.eq_ignore_ascii_case("anthropic"));
    (ours && !counts_only).then(|| Found {
        operation: Operation::Chat,
        model: Some(model.to_owned()),
        streams: Some(streams),
    })
}
