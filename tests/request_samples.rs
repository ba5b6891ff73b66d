//! Every request sample, whole and in pieces of every small size, against what it is known to hold.

use envoy_backpressure::cost::dialect::classify;
use envoy_backpressure::cost::request::{BodySeen, RequestReader, read_request};
use std::ops::RangeInclusive;

struct Sample {
    file: &'static str,
    path: &'static str,
    model: Option<&'static str>,
    streams: bool,
    output: Option<u64>,
    input: RangeInclusive<u64>,
}

const fn sample(
    file: &'static str,
    path: &'static str,
    model: Option<&'static str>,
    streams: bool,
    output: Option<u64>,
    input: RangeInclusive<u64>,
) -> Sample {
    Sample { file, path, model, streams, output, input }
}

const CHAT: &str = "/v1/chat/completions";

static SAMPLES: [Sample; 28] = [
    sample("openai-chat-basic", CHAT, Some("gpt-5.4-mini"), false, Some(300), 20..=28),
    // Two pictures (one of unknown size), a quarter of a second of sound, one page; two answers.
    sample("openai-chat-parts", CHAT, Some("gpt-5.5"), false, Some(2_400), 2_500..=4_000),
    sample("openai-chat-stream", CHAT, Some("gpt-5.4"), true, Some(40), 9..=14),
    sample("openai-chat-stream-nousage", CHAT, Some("gpt-5.4"), true, None, 9..=14),
    sample("openai-chat-dupkeys", CHAT, Some("gpt-6-astra"), true, Some(1), 7..=10),
    sample(
        "openai-completions-batch",
        "/v1/completions",
        Some("gpt-3.5-turbo-instruct"),
        false,
        Some(120),
        4..=6,
    ),
    sample("openai-completions-tokens", "/v1/completions", Some("davinci-002"), false, Some(2), 5..=5),
    sample("openai-embeddings-many", "/v1/embeddings", Some("text-embedding-3-small"), false, None, 4..=7),
    sample("openai-images-gen", "/v1/images/generations", Some("gpt-image-2"), false, None, 4..=8),
    sample("openai-audio-speech", "/v1/audio/speech", Some("gpt-4o-mini-tts"), false, None, 10..=15),
    sample("openai-responses-items", "/v1/responses", Some("gpt-5.6"), true, Some(800), 1_500..=1_800),
    sample("openai-responses-prev", "/v1/responses", Some("gpt-5.6"), false, None, 9..=12),
    sample(
        "azure-chat-deployment",
        "/openai/deployments/harbour-prod/chat/completions?api-version=2024-10-21",
        Some("harbour-prod"),
        true,
        Some(50),
        8..=10,
    ),
    sample("anthropic-messages-basic", "/v1/messages", Some("claude-sonnet-5"), false, Some(256), 10..=14),
    // Pictures of 1024 px (1 369), 8 px (1) and unknown size (at most 2 000); a document; tools.
    sample(
        "anthropic-messages-rich",
        "/v1/messages",
        Some("claude-opus-4-8"),
        true,
        Some(4_096),
        3_500..=6_500,
    ),
    sample(
        "gemini-generate-rich",
        "/v1beta/models/gemini-3-pro:generateContent",
        Some("gemini-3-pro"),
        false,
        Some(1_400),
        1_700..=3_500,
    ),
    sample(
        "gemini-generate-snake",
        "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
        Some("gemini-3-pro"),
        true,
        Some(20),
        8..=11,
    ),
    sample(
        "vertex-generate-basic",
        "/v1/projects/p1/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent",
        Some("gemini-2.5-flash"),
        false,
        Some(64),
        8..=11,
    ),
    sample(
        "gemini-interactions-stream",
        "/v1beta/interactions",
        Some("gemini-3-pro"),
        true,
        Some(90),
        8..=11,
    ),
    sample(
        "gemini-embed-batch",
        "/v1beta/models/gemini-embedding-2:batchEmbedContents",
        Some("gemini-embedding-2"),
        false,
        None,
        2..=4,
    ),
    sample(
        "bedrock-converse-rich",
        "/model/us.anthropic.claude-sonnet-5-v1%3A0/converse",
        Some("us.anthropic.claude-sonnet-5-v1:0"),
        false,
        Some(512),
        300..=1_200,
    ),
    sample(
        "bedrock-invoke-claude",
        "/model/anthropic.claude-haiku-4-5-20251001-v1:0/invoke-with-response-stream",
        Some("anthropic.claude-haiku-4-5-20251001-v1:0"),
        true,
        Some(100),
        2..=11,
    ),
    sample("mistral-chat-basic", CHAT, Some("mistral-medium-latest"), false, Some(90), 1_500..=2_000),
    sample("mistral-fim-basic", "/v1/fim/completions", Some("codestral-latest"), true, Some(40), 4..=8),
    sample("cohere-chat-basic", "/v2/chat", Some("command-a-03-2025"), true, Some(60), 13..=22),
    sample("ollama-chat-default", "/api/chat", Some("llama3.2:3b"), true, Some(80), 200..=400),
    sample("vllm-chat-nomodel", CHAT, None, true, Some(60), 8..=11),
    // The model stands after the sound; the length of sound says nothing.
    sample(
        "openai-audio-transcribe-modellast",
        "/v1/audio/transcriptions",
        Some("gpt-4o-mini-transcribe"),
        true,
        None,
        1..=1_500,
    ),
];

fn load(file: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/requests");
    let read = |ending: &str| std::fs::read(format!("{folder}/{file}.req.{ending}"));
    read("json").or_else(|_| read("multipart")).expect(file)
}

#[test]
fn each_sample_is_read() {
    for sample in &SAMPLES {
        let endpoint = classify(sample.path.as_bytes(), None).unwrap();
        let facts = read_request(&endpoint, &load(sample.file), BodySeen::Complete);
        assert!(facts.readable, "{}", sample.file);
        assert_eq!(facts.model.as_deref(), sample.model, "{}", sample.file);
        assert_eq!(facts.streams, sample.streams, "{}", sample.file);
        assert_eq!(facts.declared_output, sample.output, "{}", sample.file);
        assert!(
            sample.input.contains(&facts.input_llm_tokens),
            "{}: {} not in {:?}",
            sample.file,
            facts.input_llm_tokens,
            sample.input
        );
    }
}

#[test]
fn pieces_of_any_size_read_the_same() {
    for sample in SAMPLES.iter().filter(|sample| sample.path != "/v1/audio/transcriptions") {
        let endpoint = classify(sample.path.as_bytes(), None).unwrap();
        let body = load(sample.file);
        let whole = read_request(&endpoint, &body, BodySeen::Complete);
        for size in [1, 2, 3, 7, 64, 1_000] {
            let mut reader = RequestReader::new(&endpoint);
            body.chunks(size).for_each(|piece| reader.feed(piece));
            assert_eq!(reader.facts(BodySeen::Complete), whole, "{} in pieces of {size}", sample.file);
        }
    }
}

#[test]
fn no_prefix_traps_or_costs_nothing() {
    for sample in &SAMPLES {
        let endpoint = classify(sample.path.as_bytes(), None).unwrap();
        let body = load(sample.file);
        let step = (body.len() / 300).max(1);
        for end in (0..body.len()).step_by(step) {
            let prefix = &body[..end];
            for seen in [
                BodySeen::Complete,
                BodySeen::Prefix { declared_len: None },
                BodySeen::Prefix { declared_len: Some(body.len() as u64) },
                BodySeen::Prefix { declared_len: Some(u64::MAX) },
                BodySeen::Prefix { declared_len: Some(0) },
            ] {
                assert!(read_request(&endpoint, prefix, seen).input_llm_tokens >= 1);
            }
        }
    }
}
