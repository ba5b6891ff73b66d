//! Output that the caller can see, counted while it streams, for answers that state no usage.

use crate::cost::json::Path;
use crate::cost::text::{Family, Sample};

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

/// Names of reasoning, of which gateways send several with the same text (OpenRouter, vLLM, `LiteLLM`).
const REASONING: [&[u8]; 4] = [b"reasoning", b"reasoning_content", b"reasoning_details", b"thinking_blocks"];

/// Which of the names for the same text a response uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Twins {
    /// Text came in deltas.
    deltas: bool,
    /// Index of the first name of reasoning that had text.
    reasoning: Option<usize>,
}

impl Twins {
    /// Whether the visible text at `path`, which is not empty, repeats what stands under another name.
    ///
    /// Perplexity sends with each delta the whole message so far.
    pub(super) fn repeats(&mut self, path: &Path, base: usize) -> bool {
        match path.name(base.saturating_add(2)) {
            Some(b"message") if self.deltas => return true,
            Some(b"delta") => self.deltas = true,
            _ => {}
        }
        let name = path.name(base.saturating_add(3));
        let kind = REASONING.iter().position(|known| Some(*known) == name);
        kind.is_some_and(|kind| *self.reasoning.get_or_insert(kind) != kind)
    }
}

/// Counts visible output.
///
/// The strings are taken for one text: a stream goes on in the next delta where it stopped, often within a word. And
/// streams are cut between LLM tokens: a string that is not empty counts at least once.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    text: Sample,
    strings: u64,
    /// The string at hand is not empty.
    any: bool,
}

impl Counter {
    /// A part of a string; `last` ends it.
    pub(super) fn string(&mut self, part: &[u8], last: bool) {
        self.text.feed(part);
        self.any |= !part.is_empty();
        if last && std::mem::take(&mut self.any) {
            self.strings = self.strings.saturating_add(1);
        }
    }

    /// No text was seen.
    pub(super) const fn is_empty(&self) -> bool {
        self.strings == 0
    }

    /// LLM tokens so far under the model's tokenizer.
    ///
    /// About as many strings as LLM tokens in the text means a stream of one for each delta, so their number is exact;
    /// from 1.2 to 1.8 times as many it matters less and less.
    pub(super) fn llm_tokens(&self, family: Family) -> u64 {
        let (text, strings) = (self.text.llm_tokens(family), self.strings);
        let above = text.saturating_mul(5).saturating_sub(strings.saturating_mul(6));
        let most = strings.saturating_mul(3);
        let rest = text.saturating_sub(strings).saturating_mul(above.min(most));
        strings.saturating_add(rest.checked_div(most).unwrap_or(text))
    }
}
