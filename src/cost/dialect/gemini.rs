//! Gemini and Vertex: model and verb share the last segment of the path; the body takes both spellings of its names.
//! Source: the types of the `google-genai` Python package 3.6.

use super::{Dialect, Found, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::Gemini,
    find,
    prose: &[
        &["contents"],
        &["content"],
        &["systemInstruction"],
        &["system_instruction"],
        &["requests"],
        &["input"],
    ],
    json: &[
        &["tools"],
        &["generationConfig", "responseSchema"],
        &["generationConfig", "responseJsonSchema"],
        &["generation_config", "response_schema"],
        &["generation_config", "response_json_schema"],
    ],
    caps: &[
        &["generationConfig", "maxOutputTokens"],
        &["generationConfig", "max_output_tokens"],
        &["generation_config", "max_output_tokens"],
        &["generation_config", "maxOutputTokens"],
    ],
    copies: &[
        &["generationConfig", "candidateCount"],
        &["generationConfig", "candidate_count"],
        &["generation_config", "candidate_count"],
        &["generation_config", "candidateCount"],
    ],
    streams_by_default: false,
};

fn find(place: &Place<'_>) -> Option<Found> {
    if place.ends_with(&["interactions"]) && place.back(1).is_some_and(|version| version.starts_with('v')) {
        return Found::body(Operation::Chat);
    }
    let (model, verb) = place.model_and_verb()?;
    let (operation, streams) = match verb {
        "generateContent" => (Operation::Chat, false),
        "streamGenerateContent" => (Operation::Chat, true),
        "embedContent" | "batchEmbedContents" => (Operation::Embeddings, false),
        _ => return None,
    };
    Some(Found { operation, model: Some(model.to_owned()), streams: Some(streams) })
}
