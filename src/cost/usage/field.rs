//! Where the usage numbers are: by the name of the object that holds them and their own.
//!
//! The names are those of all dialects together, because gateways translate: what counts is which accounting a name
//! belongs to, and no name belongs to two. The usage object itself must stand at one of the known places, so that
//! text, tool results and vendor objects cannot imitate it.

use crate::cost::json::Path;

use super::stated::Field;

/// A place where usage is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The end of the answer, or a cumulative report.
    Report,
    /// The first event of a stream; its output is a placeholder.
    Start,
    /// TGI's `details`, which has other things beside.
    Details,
}

/// The place that the object at `path` is; `base` is the depth of the document's root object.
pub(super) fn place(path: &Path, base: usize) -> Option<Place> {
    let depth = path.depth().checked_sub(base)?;
    let last = path.last_name()?;
    match depth {
        1 => match last {
            b"usage" | b"usageMetadata" | b"meta" | b"amazon-bedrock-invocationMetrics" => {
                Some(Place::Report)
            }
            b"details" => Some(Place::Details),
            _ => None,
        },
        2 => match (path.name(base)?, last) {
            (b"message", b"usage") => Some(Place::Start),
            (b"response" | b"interaction" | b"delta" | b"x_groq", b"usage")
            | (b"response", b"usageMetadata") => Some(Place::Report),
            _ => None,
        },
        // Kimi, in the last event of a stream.
        3 if last == b"usage" && path.name(base) == Some(b"choices") => Some(Place::Report),
        _ => None,
    }
}

/// A number directly in the usage object.
pub(super) fn direct(place: Place, name: &[u8]) -> Option<Field> {
    if place == Place::Details {
        return match name {
            b"generated_tokens" => Some(Field::Completion),
            b"input_length" => Some(Field::Prompt),
            _ => None,
        };
    }
    Some(match name {
        b"prompt_tokens" => Field::Prompt,
        b"completion_tokens" => Field::Completion,
        b"total_tokens" => Field::Total,
        b"cached_tokens"
        | b"prompt_cache_hit_tokens"
        | b"cachedContentTokenCount"
        | b"total_cached_tokens" => Field::Cached,
        b"input_tokens" => Field::Input,
        b"output_tokens" if place == Place::Start => Field::OutputAtStart,
        b"output_tokens" => Field::Output,
        b"cache_read_input_tokens" => Field::CacheRead,
        b"cache_creation_input_tokens" => Field::CacheCreation,
        b"inputTokens" | b"inputTokenCount" => Field::BedrockInput,
        b"outputTokens" | b"outputTokenCount" => Field::BedrockOutput,
        b"totalTokens" => Field::BedrockTotal,
        b"cacheReadInputTokens" | b"cacheReadInputTokenCount" => Field::BedrockRead,
        b"cacheWriteInputTokens" | b"cacheWriteInputTokenCount" => Field::BedrockWritten,
        b"promptTokenCount" | b"total_input_tokens" => Field::GeminiPrompt,
        b"toolUsePromptTokenCount" | b"total_tool_use_tokens" => Field::GeminiTool,
        b"candidatesTokenCount" | b"total_output_tokens" => Field::GeminiCandidates,
        b"thoughtsTokenCount" | b"total_thought_tokens" => Field::GeminiThoughts,
        _ => return None,
    })
}

/// A number one level below the usage object.
pub(super) fn nested(parent: &[u8], name: &[u8]) -> Option<Field> {
    Some(match (parent, name) {
        (b"prompt_tokens_details" | b"input_tokens_details" | b"input_token_details", b"cached_tokens") => {
            Field::Cached
        }
        (b"prompt_tokens_details" | b"input_tokens_details", b"cache_write_tokens") => Field::Written,
        // Cohere names what is paid and what ran; the larger is what the model had to do.
        (b"billed_units" | b"tokens", b"input_tokens") => Field::Prompt,
        (b"billed_units" | b"tokens", b"output_tokens") => Field::Completion,
        _ => return None,
    })
}

/// A number of one inner call of an Anthropic answer.
pub(super) fn iteration(name: &[u8]) -> Option<Field> {
    match name {
        b"input_tokens" | b"cache_read_input_tokens" | b"cache_creation_input_tokens" => {
            Some(Field::IterationsInput)
        }
        b"output_tokens" => Some(Field::IterationsOutput),
        _ => None,
    }
}

/// A number directly in the root object.
pub(super) fn root(name: &[u8]) -> Option<Field> {
    match name {
        // Ollama; Llama and Titan on Bedrock.
        b"prompt_eval_count" | b"prompt_token_count" | b"inputTextTokenCount" => Some(Field::Prompt),
        b"eval_count" | b"generation_token_count" | b"totalOutputTextTokenCount" => Some(Field::Completion),
        _ => None,
    }
}
