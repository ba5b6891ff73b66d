//! The provider's own, deterministic idea of how many LLM tokens a text has.
//!
//! Words of up to six characters are one, longer ones one per six; each run of punctuation is one, each
//! character outside ASCII is one. About what real tokenizers say for English, and on purpose not the rule the
//! filter estimates by.

use serde_json::Value;

/// Counts the LLM tokens of a text.
#[must_use]
pub fn count(text: &str) -> u64 {
    let mut total = 0;
    let mut word = 0_u64;
    let mut in_punctuation = false;
    for ch in text.chars() {
        if ch.is_ascii_alphanumeric() {
            word += 1;
            in_punctuation = false;
            continue;
        }
        total += word.div_ceil(6);
        word = 0;
        if ch.is_ascii_punctuation() {
            total += u64::from(!in_punctuation);
            in_punctuation = true;
        } else {
            total += u64::from(!ch.is_ascii());
            in_punctuation = false;
        }
    }
    total + word.div_ceil(6)
}

/// Input of a whole request: every text under the members that carry a prompt, and 3 a message.
#[must_use]
pub fn of_request(body: &Value) -> u64 {
    let Some(members) = body.as_object() else { return 0 };
    let mut total = 0;
    for (name, value) in members {
        total += match name.as_str() {
            "messages" | "input" | "prompt" | "system" | "instructions" | "contents"
            | "systemInstruction" => of_prompt(value),
            "tools" | "functions" => count(&value.to_string()),
            _ => 0,
        };
    }
    total.max(1)
}

fn of_prompt(value: &Value) -> u64 {
    match value {
        Value::String(text) => count(text),
        Value::Number(_) => 1,
        Value::Array(items) => items.iter().map(of_prompt).sum(),
        Value::Object(part) => {
            let framing = if part.contains_key("role") { 3 } else { 0 };
            let texts = ["content", "text", "input", "output", "arguments", "parts"];
            framing + texts.iter().filter_map(|name| part.get(*name)).map(of_prompt).sum::<u64>()
        }
        Value::Null | Value::Bool(_) => 0,
    }
}

/// A text of exactly `amount` LLM tokens.
#[must_use]
pub fn text(amount: u64) -> String {
    const WORDS: [&str; 8] = ["knot ", "rope ", "bend ", "hitch ", "loop ", "cord ", "reef ", "lash "];
    WORDS.iter().cycle().take(usize::try_from(amount).unwrap_or(usize::MAX)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_stable() {
        let table =
            [("", 0), ("knot", 1), ("knotted rope", 3), ("a, b", 3), ("...", 1), ("漢字", 2), ("a b\n", 2)];
        for (text, expected) in table {
            assert_eq!(count(text), expected, "{text:?}");
        }
    }

    #[test]
    fn made_text_has_the_amount_asked_for() {
        for amount in [0, 1, 7, 100] {
            assert_eq!(count(&text(amount)), amount);
        }
    }

    #[test]
    fn a_request_counts_its_prompts_only() {
        let body = serde_json::json!({"model": "some-long-model-name", "max_tokens": 5,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "tie a knot"}]}]});
        assert_eq!(of_request(&body), 6);
    }
}
