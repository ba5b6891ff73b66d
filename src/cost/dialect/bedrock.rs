//! Bedrock: `converse` has one body for all models, `invoke` takes the vendor's own.
//! Source: `bedrock-runtime/2023-09-30/service-2.json` of botocore 1.44.

use super::{Dialect, Found, Operation, Place, Row};

pub(super) static ROW: Row = Row {
    dialect: Dialect::Bedrock,
    find,
    prose: &[
        &["messages"],
        &["system"],
        &["prompt"],
        &["inputText"],
        &["inputImage"],
        &["images"],
        &["message"],
        &["chat_history"],
        &["texts"],
        &["documents"],
    ],
    json: &[&["toolConfig"], &["tools"]],
    caps: &[
        &["inferenceConfig", "maxTokens"],
        &["inferenceConfig", "max_new_tokens"],
        &["textGenerationConfig", "maxTokenCount"],
        &["max_tokens"],
        &["max_completion_tokens"],
        &["max_gen_len"],
        &["max_tokens_to_sample"],
    ],
    copies: &[],
    streams_by_default: false,
};

fn find(place: &Place<'_>) -> Option<Found> {
    let (operation, streams) = match place.back(0)? {
        "converse" => (Operation::Chat, false),
        "converse-stream" => (Operation::Chat, true),
        "invoke" => (Operation::Invoke, false),
        "invoke-with-response-stream" => (Operation::Invoke, true),
        _ => return None,
    };
    let model = place.between("model")?;
    Some(Found { operation, model: Some(model), streams: Some(streams) })
}
