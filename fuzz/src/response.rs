//! Any response in any pieces says the same, within bounds.

use envoy_backpressure::cost::dialect::Dialect;
use envoy_backpressure::cost::usage::{Report, ResponseHead, ResponseMeter};

use super::bytes::{Choices, with_tail};

const DIALECTS: [Dialect; 8] = [
    Dialect::OpenAi,
    Dialect::AzureOpenAi,
    Dialect::Anthropic,
    Dialect::Gemini,
    Dialect::Bedrock,
    Dialect::Mistral,
    Dialect::Cohere,
    Dialect::Ollama,
];

fn read(head: &ResponseHead<'_>, body: &[u8], mut next: impl FnMut() -> usize) -> Report {
    let mut meter = ResponseMeter::new(head);
    let mut rest = body;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(next().clamp(1, rest.len()));
        meter.feed(piece);
        rest = after;
    }
    meter.finish()
}

/// Reads `body` whole, byte by byte and in pieces that `choices` name, and compares.
pub fn check(content_type: &[u8], content_encoding: &[u8], body: &[u8], mut choices: Choices<'_>) {
    let head = ResponseHead {
        dialect: choices.pick(&DIALECTS),
        model: choices.pick(&[None, Some("gpt-4o"), Some("claude-sonnet-4"), Some("")]),
        content_type,
        content_encoding,
        failed: choices.byte() & 1 == 1,
        streams: choices.byte() & 1 == 1,
    };
    let whole = read(&head, body, || usize::MAX);
    let (one, other) = (usize::from(choices.byte()), usize::from(choices.byte()));
    let mut turn = false;
    let pieces = read(&head, body, || {
        turn = !turn;
        if turn { one } else { other }
    });
    assert_eq!(whole, pieces, "pieces of {one} and {other} bytes");
    if body.len() < 4_096 {
        assert_eq!(whole, read(&head, body, || 1), "byte by byte");
    }
    assert!(whole.usage.is_some() || whole.anomaly.is_some());
    let is_whole = whole.usage.is_some_and(|usage| usage.input.is_some());
    assert!(is_whole || whole.anomaly.is_some(), "what is estimated is told");
    assert_eq!(whole.body_bytes, body.len() as u64);
    let usage = whole.usage.unwrap_or_default();
    if let Some(input) = usage.input {
        assert!(input > 0, "a prompt is never empty");
        assert!(usage.cached_input.saturating_add(usage.cache_write) <= input, "{usage:?}");
    }
    // Inflated data is read up to 1 MiB plus 200 times what came; text has at most one LLM token a byte.
    let readable = (1 << 20) + body.len() as u64 * 201;
    assert!(whole.output_seen <= readable, "{} LLM tokens in {} bytes", whole.output_seen, body.len());
}

/// A target whose input is the body with a few bytes of choices behind it.
pub fn target(content_type: &[u8], input: &[u8]) {
    let (body, choices) = with_tail(input, 6);
    check(content_type, b"", body, choices);
}

/// Gemini's stream without SSE is one array, an element at a time.
pub fn array(input: &[u8]) {
    let (body, choices) = with_tail(input, 6);
    let array = [b"[", body, b"]"].concat();
    check(b"application/json", b"", &array, choices);
}
