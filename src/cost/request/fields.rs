//! Which members of a body hold what.

use crate::cost::dialect::{Operation, Row};
use crate::cost::json::Path;

/// How the strings at a place count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Not at all.
    Skip,
    /// Values only.
    Prose,
    /// As JSON text: names, numbers and brackets too.
    Json,
}

/// The mode at a place of depth 1 or 2, by the dialect's row.
pub(super) fn mode(row: &Row, path: &Path) -> Mode {
    let under = |places: &[&[&str]]| places.iter().any(|names| path.starts_with(names));
    if under(row.json) {
        Mode::Json
    } else if under(row.prose) {
        Mode::Prose
    } else {
        Mode::Skip
    }
}

/// `name` is one of `names`. A comparison in code for each name would take several times the room.
fn one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.contains(&name)
}

/// Objects inside prose that the model is shown as JSON: arguments and results of tools.
pub(super) fn is_json_object(name: &[u8]) -> bool {
    one_of(name, &[b"input", b"args", b"arguments", b"response", b"json", b"schema", b"parameters"])
}

/// Containers inside prose that the model is not shown.
pub(super) fn is_hidden(name: &[u8]) -> bool {
    one_of(name, &[b"cache_control", b"citations", b"metadata", b"cachePoint", b"annotations", b"logprobs"])
}

/// Strings inside prose that the model is not shown, or that are counted with the framing.
pub(super) fn is_opaque(name: &[u8]) -> bool {
    one_of(
        name,
        &[
            b"role",
            b"type",
            b"id",
            b"tool_call_id",
            b"call_id",
            b"tool_use_id",
            b"toolUseId",
            b"item_id",
            b"signature",
            b"thoughtSignature",
            b"thought_signature",
            b"encrypted_content",
            b"redactedContent",
            b"media_type",
            b"mimeType",
            b"mime_type",
            b"format",
            b"status",
            b"model",
            b"ttl",
        ],
    )
}

/// Strings that the model reads as they are: base64 there is text to it, whatever stands in front.
///
/// Embeddings of pictures take them among the texts.
pub(super) fn is_spoken(name: &[u8], operation: Operation) -> bool {
    match name {
        b"content" | b"text" | b"prompt" | b"system" | b"instructions" | b"arguments" | b"description" => {
            true
        }
        b"input" | b"inputs" => operation != Operation::Embeddings,
        _ => false,
    }
}

/// Strings inside prose that hold base64 when they look like it.
pub(super) fn is_file(name: &[u8], operation: Operation) -> bool {
    match name {
        // A picture that was generated before; tools of other APIs answer in text there.
        b"result" => operation == Operation::Responses,
        _ => one_of(
            name,
            &[
                b"data",
                b"bytes",
                b"file_data",
                b"images",
                b"image",
                b"inputImage",
                b"image_embeds",
                b"input_audio",
                b"b64_json",
                b"video",
            ],
        ),
    }
}

/// Base64 there is a file; elsewhere it is opaque (redacted thinking).
pub(super) fn holds_files(name: &[u8], holder: &[u8]) -> bool {
    name != b"data"
        || one_of(
            holder,
            &[
                b"source",
                b"inlineData",
                b"inline_data",
                b"input_audio",
                b"audio",
                b"image",
                b"document",
                b"file",
            ],
        )
}

/// Strings inside prose that refer to a file elsewhere.
pub(super) fn is_reference(name: &[u8], holder: &[u8]) -> bool {
    if one_of(name, &[b"url", b"uri"]) {
        return one_of(
            holder,
            &[b"image_url", b"source", b"s3Location", b"file", b"audio_url", b"video_url"],
        );
    }
    one_of(
        name,
        &[
            b"image_url",
            b"file_url",
            b"document_url",
            b"audio_url",
            b"video_url",
            b"fileUri",
            b"file_uri",
            b"input_audio",
        ],
    )
}
