//! Answers as streams of events, in the order the real APIs send them.

use super::behave::UsageStyle;
use super::dialect::{Answer, Endpoint};
use super::others;
use serde_json::{Value, json};

/// A stream cut into the pieces that are sent one by one. Only `content` pieces are delayed and counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Before the content.
    pub head: Vec<u8>,
    /// One content event each.
    pub content: Vec<Vec<u8>>,
    /// After the content, without usage.
    pub tail: Vec<u8>,
    /// What carries the usage, and the end mark.
    pub end: Vec<u8>,
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// An event named by its member `type`.
pub(super) fn named(value: &Value) -> Vec<u8> {
    let name = value.get("type").and_then(Value::as_str).unwrap_or("message");
    format!("event: {name}\ndata: {value}\n\n").into_bytes()
}

/// The events of an answer, its text spread over `chunks` of them.
#[must_use]
pub fn events(answer: &Answer, chunks: u64) -> Events {
    let pieces = split(&answer.text, chunks);
    match answer.endpoint {
        Endpoint::Responses => responses(answer, &pieces),
        Endpoint::Messages => messages(answer, &pieces),
        Endpoint::Chat | Endpoint::Completions | Endpoint::Embeddings => completions(answer, &pieces),
        _ => others::events(answer, &pieces),
    }
}

/// Cuts at word ends into at most `chunks` pieces, at least one.
fn split(text: &str, chunks: u64) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let size = words.len().div_ceil(usize::try_from(chunks.max(1)).unwrap_or(usize::MAX)).max(1);
    let pieces: Vec<String> = words.chunks(size).map(<[&str]>::concat).collect();
    if pieces.is_empty() { vec![String::new()] } else { pieces }
}

fn completions(answer: &Answer, pieces: &[String]) -> Events {
    let chat = answer.endpoint == Endpoint::Chat;
    let with_usage = answer.include_usage || answer.usage == UsageStyle::Always;
    let event = |delta: Option<&str>, finish: Option<&str>| {
        let mut choice = json!({"index": 0, "finish_reason": finish, "logprobs": null});
        if chat {
            choice["delta"] = delta.map_or(json!({}), |text| json!({"content": text}));
        } else {
            choice["text"] = json!(delta.unwrap_or(""));
        }
        let mut event = envelope(answer, chat, json!([choice]));
        if with_usage {
            event["usage"] = Value::Null;
        }
        data(&event)
    };
    let mut out = Events { tail: event(None, Some("stop")), ..Events::default() };
    if chat {
        let first =
            json!([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]);
        out.head = data(&envelope(answer, chat, first));
    }
    out.content = pieces.iter().map(|piece| event(Some(piece), None)).collect();
    if with_usage && let Some(usage) = answer.usage_value() {
        let mut last = envelope(answer, chat, json!([]));
        last["usage"] = usage;
        out.end = data(&last);
    }
    out.end.extend_from_slice(b"data: [DONE]\n\n");
    out
}

fn envelope(answer: &Answer, chat: bool, choices: Value) -> Value {
    let (prefix, object) =
        if chat { ("chatcmpl", "chat.completion.chunk") } else { ("cmpl", "text_completion") };
    json!({"id": format!("{prefix}-{}", answer.id), "object": object, "created": 1_795_900_100_u64,
        "model": answer.model, "choices": choices})
}

fn responses(answer: &Answer, pieces: &[String]) -> Events {
    let item = format!("msg_{}", answer.id);
    let place = |kind: &str| json!({"type": kind, "item_id": item, "output_index": 0, "content_index": 0});
    let mut out = Events::default();
    let created =
        json!({"type": "response.created", "response": answer.response_object("in_progress", false)});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item":
        {"type": "message", "id": item, "status": "in_progress", "role": "assistant", "content": []}});
    let mut part = place("response.content_part.added");
    part["part"] = json!({"type": "output_text", "text": "", "annotations": []});
    out.head = [created, added, part].iter().flat_map(named).collect();
    out.content = pieces
        .iter()
        .map(|piece| {
            let mut event = place("response.output_text.delta");
            event["delta"] = json!(piece);
            named(&event)
        })
        .collect();
    let mut done = place("response.output_text.done");
    done["text"] = json!(answer.text);
    out.tail = named(&done);
    let mut response = answer.response_object("completed", true);
    if let Some(usage) = answer.usage_value() {
        response["usage"] = usage;
    }
    out.end = named(&json!({"type": "response.completed", "response": response}));
    out
}

fn messages(answer: &Answer, pieces: &[String]) -> Events {
    let mut out = Events::default();
    let mut message = answer.message_object(false);
    let usage = answer.usage_value();
    if let Some(mut first) = usage.clone() {
        if first.is_object() {
            first["output_tokens"] = json!(1);
        }
        message["usage"] = first;
    }
    let start = json!({"type": "message_start", "message": message});
    let block =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    out.head = [start, block, json!({"type": "ping"})].iter().flat_map(named).collect();
    out.content = pieces
        .iter()
        .map(|piece| {
            named(&json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": piece}}))
        })
        .collect();
    out.tail = named(&json!({"type": "content_block_stop", "index": 0}));
    let mut delta =
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}});
    if let Some(usage) = usage {
        delta["usage"] =
            if usage.is_object() { json!({"output_tokens": usage["output_tokens"]}) } else { usage };
    }
    out.end = [delta, json!({"type": "message_stop"})].iter().flat_map(named).collect();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(endpoint: Endpoint, usage: UsageStyle, include_usage: bool) -> Answer {
        Answer {
            endpoint,
            model: "m-chat".to_owned(),
            id: 1,
            input: 7,
            output: 3,
            text: crate::llm_tokens::text(3),
            usage,
            stream: true,
            include_usage,
        }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn chat_streams_carry_usage_only_when_asked_for() {
        let end = |usage, asked| text(events(&answer(Endpoint::Chat, usage, asked), 2).end);
        assert!(end(UsageStyle::Normal, true).contains("\"prompt_tokens\":7"));
        assert!(!end(UsageStyle::Normal, false).contains("prompt_tokens"));
        assert!(end(UsageStyle::Always, false).contains("\"completion_tokens\":3"));
        assert!(end(UsageStyle::Normal, false).ends_with("data: [DONE]\n\n"));
    }

    #[test]
    fn the_text_is_spread_over_the_chunks() {
        for (chunks, expected) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
            assert_eq!(
                events(&answer(Endpoint::Messages, UsageStyle::Normal, false), chunks).content.len(),
                expected
            );
        }
    }

    #[test]
    fn anthropic_usage_comes_first_for_input_and_last_for_output() {
        let out = events(&answer(Endpoint::Messages, UsageStyle::Normal, false), 1);
        let (head, end) = (text(out.head), text(out.end));
        assert!(head.contains("\"input_tokens\":7") && head.contains("\"output_tokens\":1"));
        assert!(end.contains("\"usage\":{\"output_tokens\":3}"));
    }
}
