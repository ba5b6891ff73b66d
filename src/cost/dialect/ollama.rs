//! Ollama's native API: answers stream unless told otherwise, caps sit in `options`.
//! Source: `server/routes.go` and `api/types.go` of ollama.

use super::{Dialect, Found, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::Ollama,
    find,
    prose: &[&["messages"], &["prompt"], &["system"], &["suffix"], &["template"], &["input"], &["images"]],
    json: &[&["tools"], &["format"]],
    caps: &[&["options", "num_predict"]],
    copies: &[],
    streams_by_default: true,
};

fn find(place: &Place<'_>) -> Option<Found> {
    let operation = match place.back(0)? {
        "chat" => Operation::Chat,
        "generate" => Operation::Completions,
        "embed" | "embeddings" => Operation::Embeddings,
        _ => return None,
    };
    let native = place.back(1).is_some_and(|parent| parent.eq_ignore_ascii_case("api"));
    if native { Found::body(operation) } else { None }
}
