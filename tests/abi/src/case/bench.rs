//! The configuration that the cases assume, and short ways to send calls through it.

use serde_json::{Value, json};

use crate::host::{Host, Options, StreamId};
use crate::stream::{ReplyOrigin, Stream};
use crate::wire::Headers;

/// The bench profile: two pools of 60 requests and 10 000 LLM tokens a minute in a plain sliding window, no parking.
pub fn bench_config() -> Value {
    let pool = |name: &str, matches: Value| {
        json!({
            "name": name,
            "match": matches,
            "limits": {"requests_per_minute": 60, "tokens_per_minute": 10_000},
            "strict_window": true,
            "burst_seconds": 60,
            "default_output_tokens": 512,
            "output_reserve": "max_tokens",
            "max_wait_ms": 0,
            "learn": {"headers": false, "pause_on_429": true, "adapt": false},
        })
    };
    json!({
        "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
        "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
        "default_class": "normal",
        "tenants": {"acme": {"weight": 3}, "beta": {"weight": 1}},
        "pools": [
            pool("m-embed", json!({"hosts": ["llm.test"], "models": ["m-embed"]})),
            pool("m-chat", json!({"hosts": ["llm.test"]})),
        ],
        "body_limit_bytes": 262_144,
        "reservation_ttl_seconds": 600,
        "max_retry_after_seconds": 59,
    })
}

/// What the gate decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On its way to the upstream.
    Admit,
    /// 429.
    Deny,
    /// 413.
    TooLarge,
    /// Held: neither sent on nor answered.
    Held,
    /// Answered by someone else, or with another status.
    Other(u16),
}

impl Verdict {
    /// Reads the verdict off a call's record.
    pub fn of(stream: &Stream) -> Self {
        match (stream.replied_by, stream.client_status()) {
            (Some(ReplyOrigin::Filter), Some(429)) => Self::Deny,
            (Some(ReplyOrigin::Filter), Some(413)) => Self::TooLarge,
            (Some(_), status) if !stream.reached_upstream() => Self::Other(status.unwrap_or(0)),
            _ if stream.reached_upstream() => Self::Admit,
            _ => Self::Held,
        }
    }
}

/// An upstream answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The body, one callback per part.
    pub parts: Vec<Vec<u8>>,
}

impl Answer {
    /// 200 with a content type and a body in one part.
    pub fn ok(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::status(200, content_type, body)
    }

    /// Any status with a content type and a body in one part.
    pub fn status(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            parts: vec![body.into()],
        }
    }

    /// 200 with an OpenAI-style usage object.
    pub fn usage(prompt: u64, completion: u64) -> Self {
        let body = json!({
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        });
        Self::ok("application/json", body.to_string())
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With the body in other parts.
    #[must_use]
    pub fn parts(mut self, parts: Vec<Vec<u8>>) -> Self {
        self.parts = parts;
        self
    }
}

/// Request headers of a call by `acme` in class `normal`.
pub fn field_post(path: &str) -> Headers {
    Headers::from_text(&[
        (":method", "POST"),
        (":path", path),
        (":authority", "llm.test"),
        ("content-type", "application/json"),
        ("x-tenant", "acme"),
        ("x-priority", "normal"),
    ])
}

/// A chat body with a one-letter prompt.
pub fn chat_body(max_tokens: u64) -> Vec<u8> {
    json!({"model": "m-chat", "messages": [{"role": "user", "content": "x"}], "max_tokens": max_tokens})
        .to_string()
        .into_bytes()
}

/// A host with the filter and the bench profile.
pub struct Bench {
    pub host: Host,
    pub config: Value,
}

impl Bench {
    /// The bench profile as it is.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// The bench profile with changes.
    pub fn with(change: impl FnOnce(&mut Value)) -> Self {
        Self::start(Options::filter(), change)
    }

    /// The bench profile with changes, on a host set up in another way.
    pub fn start(options: Options, change: impl FnOnce(&mut Value)) -> Self {
        let mut config = bench_config();
        change(&mut config);
        let host = Host::start(options, &config.to_string()).unwrap_or_else(|log| panic!("refused: {log}"));
        Self { host, config }
    }

    /// Sends a call with a whole body on worker 0.
    pub fn send(&mut self, headers: Headers, body: &[u8]) -> StreamId {
        self.send_on(0, headers, body)
    }

    /// Sends a call with a whole body on some worker.
    pub fn send_on(&mut self, worker: usize, headers: Headers, body: &[u8]) -> StreamId {
        let id = self.host.open(worker, headers, false);
        self.host.request_body(id, body, true);
        id
    }

    /// Sends a chat call with a one-letter prompt.
    pub fn chat(&mut self, max_tokens: u64) -> StreamId {
        self.send(field_post("/v1/chat/completions"), &chat_body(max_tokens))
    }

    /// The verdict about a call.
    pub fn verdict(&mut self, id: StreamId) -> Verdict {
        Verdict::of(self.host.stream(id))
    }

    /// Delivers an upstream answer; the call stays open.
    pub fn respond(&mut self, id: StreamId, answer: &Answer) {
        let mut headers = Headers::default();
        headers.add(b":status", answer.status.to_string().as_bytes());
        for (name, value) in &answer.headers {
            headers.add(name.as_bytes(), value.as_bytes());
        }
        self.host.response_headers(id, headers, answer.parts.is_empty());
        for (index, part) in answer.parts.iter().enumerate() {
            self.host.response_body(id, part, index + 1 == answer.parts.len());
        }
    }

    /// Delivers an upstream answer and ends the call.
    pub fn finish(&mut self, id: StreamId, answer: &Answer) {
        self.respond(id, answer);
        self.host.end(id);
    }

    /// What was reserved for a call, as its log field says.
    pub fn reserved(&mut self, id: StreamId) -> u64 {
        super::probe::amount(&self.host.stream(id).log_field()["reserved"])
    }

    /// Pool of the configuration by name.
    pub fn pool<'a>(config: &'a mut Value, name: &str) -> &'a mut Value {
        let pools = config["pools"].as_array_mut().expect("the configuration has pools");
        pools.iter_mut().find(|pool| pool["name"] == name).expect("the pool exists")
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}
