//! Answers in the shapes of Gemini, Cohere, Ollama and Bedrock.

use super::dialect::{Answer, Endpoint};
use super::sse::{Events, named};
use flate2::Crc;
use serde_json::{Value, json};

/// The usage object of an answer, amounts as given.
pub(super) fn usage(endpoint: Endpoint, input: u64, output: u64) -> Value {
    match endpoint {
        Endpoint::Gemini { .. } => json!({
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output}),
        Endpoint::Cohere => json!({
            "billed_units": {"input_tokens": input, "output_tokens": output},
            "tokens": {"input_tokens": input, "output_tokens": output}}),
        Endpoint::Ollama { .. } => json!({"prompt_eval_count": input, "eval_count": output}),
        _ => json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + output}),
    }
}

/// The whole answer, its usage in its place.
pub(super) fn json(answer: &Answer) -> Value {
    match answer.endpoint {
        Endpoint::Gemini { .. } => gemini(answer, &answer.text, true),
        Endpoint::Ollama { .. } => ollama(answer, &answer.text, true),
        Endpoint::Cohere => with_usage(
            answer,
            json!({"id": format!("co-{}", answer.id), "finish_reason": "COMPLETE",
                "message": {"role": "assistant", "content": [{"type": "text", "text": answer.text}]}}),
        ),
        _ => with_usage(
            answer,
            json!({"output": {"message": {"role": "assistant", "content": [{"text": answer.text}]}},
                "stopReason": "end_turn", "metrics": {"latencyMs": 1}}),
        ),
    }
}

/// The answer as a stream.
pub(super) fn events(answer: &Answer, pieces: &[String]) -> Events {
    match answer.endpoint {
        Endpoint::Gemini { .. } => gemini_events(answer, pieces),
        Endpoint::Ollama { .. } => ollama_events(answer, pieces),
        Endpoint::Cohere => cohere_events(answer, pieces),
        _ => bedrock_events(answer, pieces),
    }
}

fn with_usage(answer: &Answer, mut document: Value) -> Value {
    if let Some(usage) = answer.usage_value() {
        document["usage"] = usage;
    }
    document
}

fn gemini(answer: &Answer, text: &str, last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": 0});
    if last {
        candidate["finishReason"] = json!("STOP");
    }
    let mut document = json!({"candidates": [candidate], "modelVersion": answer.model,
        "responseId": format!("g-{}", answer.id)});
    if let Some(mut usage) = answer.usage_value() {
        // Early chunks know the prompt only.
        if !last && usage.is_object() {
            usage = json!({"promptTokenCount": answer.input, "totalTokenCount": answer.input});
        }
        document["usageMetadata"] = usage;
    }
    document
}

fn gemini_events(answer: &Answer, pieces: &[String]) -> Events {
    let event = |text: &str, last| format!("data: {}\r\n\r\n", gemini(answer, text, last)).into_bytes();
    Events {
        content: pieces.iter().map(|piece| event(piece, false)).collect(),
        end: event("", true),
        ..Events::default()
    }
}

fn ollama(answer: &Answer, text: &str, done: bool) -> Value {
    let mut line = json!({"model": answer.model, "created_at": "2026-11-29T08:00:00.5Z", "done": done});
    if answer.endpoint == (Endpoint::Ollama { chat: true }) {
        line["message"] = json!({"role": "assistant", "content": text});
    } else {
        line["response"] = json!(text);
    }
    if done {
        line["done_reason"] = json!("stop");
        if let Some(Value::Object(usage)) = answer.usage_value() {
            for (name, value) in usage {
                line[name] = value;
            }
        }
    }
    line
}

fn ollama_events(answer: &Answer, pieces: &[String]) -> Events {
    let line = |text: &str, done| format!("{}\n", ollama(answer, text, done)).into_bytes();
    Events {
        content: pieces.iter().map(|piece| line(piece, false)).collect(),
        end: line("", true),
        ..Events::default()
    }
}

fn cohere_events(answer: &Answer, pieces: &[String]) -> Events {
    let head = [
        json!({"type": "message-start", "id": format!("co-{}", answer.id),
            "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}}}),
        json!({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}),
    ];
    let delta = |piece: &String| {
        named(
            &json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}}),
        )
    };
    let end =
        json!({"type": "message-end", "delta": with_usage(answer, json!({"finish_reason": "COMPLETE"}))});
    let mut last = named(&end);
    last.extend_from_slice(b"data: [DONE]\n\n");
    Events {
        head: head.iter().flat_map(named).collect(),
        content: pieces.iter().map(delta).collect(),
        tail: named(&json!({"type": "content-end", "index": 0})),
        end: last,
    }
}

fn bedrock_events(answer: &Answer, pieces: &[String]) -> Events {
    let delta = |piece: &String| {
        frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": piece}}))
    };
    let mut tail = frame("contentBlockStop", &json!({"contentBlockIndex": 0}));
    tail.extend(frame("messageStop", &json!({"stopReason": "end_turn"})));
    Events {
        head: frame("messageStart", &json!({"role": "assistant"})),
        content: pieces.iter().map(delta).collect(),
        tail,
        end: frame("metadata", &with_usage(answer, json!({"metrics": {"latencyMs": 1}}))),
    }
}

/// One frame of Amazon's event stream: lengths, their checksum, headers, payload, checksum of everything.
fn frame(event: &str, payload: &Value) -> Vec<u8> {
    let payload = payload.to_string();
    let mut headers = Vec::new();
    let fields = [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")];
    for (name, value) in fields {
        headers.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut out = Vec::new();
    out.extend_from_slice(&size(16 + headers.len() + payload.len()));
    out.extend_from_slice(&size(headers.len()));
    out.extend_from_slice(&checksum(&out));
    out.extend_from_slice(&headers);
    out.extend_from_slice(payload.as_bytes());
    out.extend_from_slice(&checksum(&out));
    out
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_be_bytes()
}
