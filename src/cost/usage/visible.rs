//! Output that the caller can see, counted while it streams, for answers that state no usage.

use crate::cost::json::Path;

/// Names under which a dialect puts text that the model wrote.
fn is_text_name(name: &[u8]) -> bool {
    matches!(
        name,
        b"content"
            | b"text"
            | b"thinking"
            | b"reasoning"
            | b"reasoning_content"
            | b"reasoningText"
            | b"refusal"
            | b"arguments"
            | b"partial_json"
            | b"transcript"
            | b"input"
            | b"tool_plan"
            | b"name"
            | b"outputText"
    )
}

/// Objects whose every string was written by the model: arguments of tool calls.
fn is_arguments_name(name: &[u8]) -> bool {
    matches!(name, b"arguments" | b"args" | b"input")
}

/// Whether the string at `path` is visible output; `base` is the depth of the document's root object.
///
/// Positive list: what is not known to be text is not counted (identifiers, base64, signatures, padding, log
/// probabilities, and the full text that some streams repeat at their end).
pub(super) fn is_visible(path: &Path, base: usize) -> bool {
    let Some(root) = path.name(base) else { return false };
    let Some(depth) = path.depth().checked_sub(base) else { return false };
    if depth == 1 {
        return matches!(
            root,
            b"delta" | b"response" | b"generation" | b"completion" | b"outputText" | b"thinking"
        );
    }
    if !matches!(
        root,
        b"choices"
            | b"delta"
            | b"content"
            | b"content_block"
            | b"candidates"
            | b"message"
            | b"output"
            | b"outputs"
            | b"results"
            | b"token"
    ) {
        return false;
    }
    let middle = base.saturating_add(1)..path.depth().saturating_sub(1);
    if middle.clone().any(|level| path.name(level).is_some_and(is_foreign)) {
        return false;
    }
    path.last_name().is_some_and(is_text_name)
        || middle.into_iter().any(|level| path.name(level).is_some_and(is_arguments_name))
}

/// Parts of an answer that hold text which the model did not write.
fn is_foreign(name: &[u8]) -> bool {
    matches!(name, b"logprobs" | b"annotations" | b"citations" | b"usage" | b"context" | b"images")
}

/// Counts visible output in LLM tokens, thousandths inside.
///
/// Each string counts at least once: nearly all providers send at least one LLM token per chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    sum_milli: u64,
    string_milli: u64,
}

impl Counter {
    /// A part of a string; `last` ends it.
    pub(super) fn string(&mut self, part: &[u8], last: bool) {
        self.string_milli =
            part.iter().fold(self.string_milli, |sum, byte| sum.saturating_add(weight(*byte)));
        if last {
            let string = std::mem::take(&mut self.string_milli);
            let least = if string > 0 { 1_000 } else { 0 };
            self.sum_milli = self.sum_milli.saturating_add(string.max(least));
        }
    }

    /// Adds what another counter saw.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sum_milli = self.sum_milli.saturating_add(other.sum_milli).saturating_add(other.string_milli);
    }

    /// LLM tokens so far, rounded up.
    pub(super) fn llm_tokens(&self) -> u64 {
        self.sum_milli.saturating_add(self.string_milli).div_ceil(1_000)
    }
}

/// Thousandths of an LLM token that a byte stands for, by the script that its first byte shows.
fn weight(byte: u8) -> u64 {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => 250,
        b' ' | b'\t' => 80,
        b'0'..=b'9' => 450,
        b'\n' | b'\r' => 350,
        0..=0x7f => 550,
        0x80..=0xbf => 0,
        0xc0..=0xdf => 400,
        0xe0..=0xe2 => 500,
        0xe3..=0xef => 850,
        0xf0..=0xff => 2_200,
    }
}
