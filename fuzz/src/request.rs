//! A request body of any bytes, in any pieces.

use super::bytes::with_tail;
use envoy_backpressure::cost::dialect::classify;
use envoy_backpressure::cost::request::{BodySeen, RequestReader, inject_stream_usage, read_request};

const PATHS: [&str; 14] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/audio/transcriptions",
    "/openai/deployments/d/chat/completions",
    "/v1/messages",
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
    "/model/anthropic.claude-v2/invoke",
    "/model/m/converse-stream",
    "/v2/chat",
    "/api/chat",
    "/api/embed",
];

/// A request body of any bytes, in any pieces.
pub fn check(input: &[u8]) {
    let (body, mut choices) = with_tail(input, 12);
    let Some(endpoint) = classify(choices.pick(&PATHS).as_bytes(), None) else {
        panic!("a path is not known")
    };
    let seen = match choices.below(3) {
        0 => BodySeen::Complete,
        1 => BodySeen::Prefix { declared_len: None },
        _ => BodySeen::Prefix { declared_len: Some(choices.number()) },
    };
    let whole = read_request(&endpoint, body, seen);
    assert!(whole.input_llm_tokens > 0, "nothing costs nothing");
    assert!(whole.seen_llm_tokens <= whole.input_llm_tokens.max(1));
    if seen == BodySeen::Complete {
        // A byte is at most one LLM token; what media cost is bounded, and each needs some bytes to be named.
        let most = 4_096 + body.len() as u64 * 4_096;
        assert!(
            whole.input_llm_tokens <= most,
            "{} LLM tokens in {} bytes",
            whole.input_llm_tokens,
            body.len()
        );
    }
    if !body.starts_with(b"--") {
        // A form is read in one piece, everything else in any.
        let size = usize::from(choices.byte()).max(1);
        let mut reader = RequestReader::new(&endpoint);
        for piece in body.chunks(size) {
            reader.feed(piece);
        }
        let pieces = reader.facts(seen);
        assert_eq!(
            (whole.readable, &whole.model, whole.streams),
            (pieces.readable, &pieces.model, pieces.streams)
        );
        assert_eq!(whole.declared_output, pieces.declared_output);
    }
    if let Some(changed) = inject_stream_usage(body) {
        let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes);
        if let Ok(mut before) = read(body) {
            let mut after = read(&changed).expect("was JSON and is no more");
            assert_eq!(after["stream_options"]["include_usage"], true);
            for value in [&mut before, &mut after] {
                value.as_object_mut().expect("an object").remove("stream_options");
            }
            assert_eq!(before, after, "another member was changed");
        }
        assert_eq!(inject_stream_usage(&changed), None, "asked for twice");
    }
}
