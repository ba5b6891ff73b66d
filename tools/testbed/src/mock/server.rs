//! The HTTP server: reads a call, asks the caps, writes the answer.

use super::behave::Behave;
use super::body::fed;
use super::caps::{Caps, Limits, Refusal, Take};
use super::dialect::{Answer, Endpoint};
use super::sse;
use super::stats::{Arrival, Stats};
use super::write::{
    Body, boxed, document, feed, finish, full, ordered_error, refused, upgrade_and_echo, whole,
};
use crate::llm_tokens;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRAILER};
use hyper::http::response::Builder;
use hyper::{Method, Request, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What `/config` may change.
#[derive(Debug, Default)]
pub struct Settings {
    /// The caps.
    pub limits: Limits,
    /// Directions for calls that bring none.
    pub behave: Behave,
    /// Answer at once with a constant, counting only: for benchmarks.
    pub fast: bool,
}

#[derive(Debug)]
struct State {
    stats: Stats,
    caps: Caps,
    behave: Behave,
    since_reset: Instant,
    calls: u64,
}

/// The provider.
#[derive(Clone, Debug)]
pub struct Provider {
    state: Arc<Mutex<State>>,
    started: Instant,
    fast: bool,
}

/// Counts a call as in flight while it lives.
struct InFlight(Provider);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.lock().stats.in_flight -= 1;
    }
}

/// A whole call.
struct Call {
    endpoint: Option<Endpoint>,
    caller: String,
    headers: HeaderMap,
    body: Value,
    behave: Behave,
}

impl Provider {
    /// A provider that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let now = Instant::now();
        let state = State {
            stats: Stats::default(),
            caps: Caps::new(settings.limits),
            behave: settings.behave,
            since_reset: now,
            calls: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), started: now, fast: settings.fast }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request.
    pub async fn serve(self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        if self.fast && request.method() == Method::POST {
            return self.serve_fast(request).await;
        }
        let path = request.uri().path().to_owned();
        match (request.method(), path.as_str()) {
            (&Method::GET, "/stats") => Ok(document(200, &self.stats())),
            (&Method::POST, "/reset") => Ok(document(200, &self.reset())),
            (&Method::POST, "/config") => {
                let body = request.into_body().collect().await?.to_bytes();
                Ok(match self.configure(&body) {
                    Ok(()) => document(200, &json!({"ok": true})),
                    Err(reason) => document(400, &json!({"error": reason})),
                })
            }
            (&Method::GET, "/healthz") => Ok(document(200, &json!({"ok": true}))),
            _ if request.headers().contains_key("upgrade") => Ok(upgrade_and_echo(request)),
            _ => self.serve_call(request, &path).await,
        }
    }

    async fn serve_fast(self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        const ANSWER: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m-chat","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"knot rope bend"}}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        self.lock().stats.total.requests += 1;
        Ok(finish(Response::builder().header(CONTENT_TYPE, "application/json"), full(ANSWER.into())))
    }

    fn stats(&self) -> Value {
        let state = self.lock();
        let mut out = serde_json::to_value(&state.stats).unwrap_or_default();
        let names = ["requests", "llm_tokens", "input", "output"];
        let peaks: BTreeMap<_, _> = names.into_iter().zip(state.caps.peaks()).collect();
        out["peak_window"] = json!(peaks);
        out["limits"] = json!(state.caps.limits());
        out["seconds"] = json!(state.since_reset.elapsed().as_secs_f64());
        out
    }

    fn reset(&self) -> Value {
        let mut state = self.lock();
        state.stats.reset();
        let limits = state.caps.limits().clone();
        state.caps = Caps::new(limits);
        state.since_reset = Instant::now();
        json!({"ok": true})
    }

    /// `{"limits": {...}, "behave": "delay_ms=5"}`, either or both. New limits start with nothing taken.
    fn configure(&self, body: &[u8]) -> Result<(), String> {
        let mut document: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let mut state = self.lock();
        if let Some(text) = document.get("behave").and_then(Value::as_str) {
            state.behave = Behave::default().with(text)?;
        }
        if let Some(limits) = document.get_mut("limits").map(Value::take) {
            state.caps = Caps::new(serde_json::from_value(limits).map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    async fn serve_call(
        self,
        request: Request<Incoming>,
        path: &str,
    ) -> Result<Response<Body>, hyper::Error> {
        let (parts, body) = request.into_parts();
        self.lock().stats.header_blocks += 1;
        let body = match body.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) => {
                self.lock().stats.broken_bodies += 1;
                return Err(error);
            }
        };
        let digest = hex(&Sha256::digest(&body));
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let caller = format!("{}/{}", text("x-tenant").unwrap_or("-"), text("x-priority").unwrap_or("-"));
        let defaults = self.lock().behave.clone();
        let behave = match defaults.with(text("x-mock").unwrap_or("")) {
            Ok(behave) => behave,
            Err(reason) => return Ok(document(400, &json!({"error": {"message": reason}}))),
        };
        let json = serde_json::from_slice(&body).unwrap_or_default();
        let endpoint = if parts.method == Method::POST { Endpoint::of(path) } else { None };
        let mut arrival = Arrival {
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            version: format!("{:?}", parts.version),
            headers: headers_of(&parts.headers),
            body_size: body.len(),
            body_sha256: digest.clone(),
            input: 0,
            output: 0,
        };
        let call = Call { endpoint, caller, headers: parts.headers, body: json, behave };
        let (mut response, take) = self.answer(call, &body).await;
        (arrival.input, arrival.output) = (take.input, take.output);
        self.lock().stats.remember(arrival);
        for (name, value) in [("x-mock-body-size", body.len().to_string()), ("x-mock-body-sha256", digest)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        Ok(response)
    }

    async fn answer(&self, call: Call, raw: &[u8]) -> (Response<Body>, Take) {
        let Some(endpoint) = call.endpoint else {
            self.lock().stats.count(&call.caller, |counts| counts.requests += 1);
            return (document(200, &json!({"ok": true, "body_size": raw.len()})), Take::default());
        };
        let take = amounts(endpoint, &call, raw);
        let (in_flight, id) = match self.admit(&call.caller, take) {
            Ok(admitted) => admitted,
            Err(refusal) => return (refused(endpoint, &refusal), Take::default()),
        };
        tokio::time::sleep(call.behave.delay).await;
        if let Some(status) = call.behave.status {
            self.lock().stats.count(&call.caller, |counts| counts.errors += 1);
            return (ordered_error(endpoint, status, &call.behave), take);
        }
        self.lock().stats.count(&call.caller, |counts| counts.ok += 1);
        let answer = Answer {
            endpoint,
            model: call.body.get("model").and_then(Value::as_str).unwrap_or("m-chat").to_owned(),
            id,
            input: take.input,
            output: take.output,
            text: llm_tokens::text(take.output),
            usage: call.behave.usage,
            stream: endpoint.streams(call.body.get("stream").and_then(Value::as_bool)),
            include_usage: call.body.pointer("/stream_options/include_usage").and_then(Value::as_bool)
                == Some(true),
        };
        let head = self.head(endpoint, &call.behave);
        let response = if answer.stream {
            self.stream(head, &answer, call.behave, in_flight)
        } else {
            whole(head, &answer, &call.behave, &call.headers)
        };
        (response, take)
    }

    /// Takes from the caps and counts, in one step.
    fn admit(&self, caller: &str, take: Take) -> Result<(InFlight, u64), Refusal> {
        let mut state = self.lock();
        let now = self.started.elapsed();
        state.stats.count(caller, |counts| counts.requests += 1);
        let in_flight = state.stats.in_flight;
        if let Err(refusal) = state.caps.take(now, take, in_flight) {
            state.stats.count(caller, |counts| counts.limited += 1);
            return Err(refusal);
        }
        let second = state.since_reset.elapsed().as_secs();
        state.stats.accept(caller, second, take);
        state.stats.in_flight += 1;
        state.stats.max_in_flight = state.stats.max_in_flight.max(state.stats.in_flight);
        state.calls += 1;
        Ok((InFlight(self.clone()), state.calls))
    }

    fn head(&self, endpoint: Endpoint, behave: &Behave) -> Builder {
        let head = Response::builder();
        if !behave.limit_headers {
            return head;
        }
        let mut state = self.lock();
        let [requests, llm_tokens] = state.caps.remaining(self.started.elapsed());
        let prefix =
            if endpoint == Endpoint::Messages { "anthropic-ratelimit" } else { "x-ratelimit-remaining" };
        [("requests", requests), ("tokens", llm_tokens)].into_iter().fold(head, |head, (what, left)| {
            match left {
                None => head,
                Some(left) if endpoint == Endpoint::Messages => {
                    head.header(format!("{prefix}-{what}-remaining"), left)
                }
                Some(left) => head.header(format!("{prefix}-{what}"), left),
            }
        })
    }

    fn stream(&self, head: Builder, answer: &Answer, behave: Behave, in_flight: InFlight) -> Response<Body> {
        let events = sse::events(answer, behave.chunks.unwrap_or(8));
        let (sender, body) = fed();
        let mut head = head.header(CONTENT_TYPE, answer.endpoint.stream_type());
        if behave.gzip {
            head = head.header(CONTENT_ENCODING, "gzip");
        }
        if behave.trailers {
            head = head.header(TRAILER, "x-mock-end");
        }
        let provider = self.clone();
        tokio::spawn(async move {
            let finished = feed(&sender, events, &behave).await;
            if finished.is_none() {
                provider.lock().stats.abandoned += 1;
            }
            drop(in_flight);
        });
        finish(head, boxed(body))
    }
}

/// Input and output of a call: by the tokenizer, by order, or by a hash of the body under its cap.
fn amounts(endpoint: Endpoint, call: &Call, raw: &[u8]) -> Take {
    let input = llm_tokens::of_request(&call.body).max(u64::from(!raw.is_empty()));
    if endpoint == Endpoint::Embeddings {
        return Take { input, output: 0 };
    }
    let caps = [
        "/max_tokens",
        "/max_completion_tokens",
        "/max_output_tokens",
        "/generationConfig/maxOutputTokens",
        "/inferenceConfig/maxTokens",
        "/options/num_predict",
    ];
    let cap = caps.iter().filter_map(|place| call.body.pointer(place)?.as_u64()).max().unwrap_or(1000);
    let drawn = raw.iter().fold(17_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let output = call.behave.output.unwrap_or(10 + (drawn >> 7) % 90).min(cap.max(1));
    Take { input, output }
}

fn headers_of(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        out.entry(name.to_string())
            .and_modify(|old| *old = format!("{old}, {value}"))
            .or_insert(value.into_owned());
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Wait after a failed accept (out of file descriptors) before the next.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
