//! The HTTP server: reads a call, asks the caps, writes the answer.

use super::behave::Behave;
use super::body::{Cut, Fed, Piece, fed};
use super::caps::{Caps, Limits, Refusal, Take};
use super::dialect::{Answer, Endpoint};
use super::stats::{Arrival, Stats};
use super::{errors, sse};
use crate::llm_tokens;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, TRAILER,
};
use hyper::http::response::Builder;
use hyper::{Method, Request, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

type Body = BoxBody<Bytes, Cut>;

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

/// Writes the events at their pace. `None`: the reader went away.
async fn feed(sender: &mpsc::Sender<Piece>, events: sse::Events, behave: &Behave) -> Option<()> {
    let mut gzip = behave.gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
    let mut sent = 0;
    let content = events.content.into_iter().map(|event| (event, true));
    let rest = [(events.tail, false), (events.end, false)];
    for (event, paced) in std::iter::once((events.head, false)).chain(content).chain(rest) {
        if paced {
            if behave.stall_after == Some(sent) {
                sender.closed().await;
                return None;
            }
            if behave.reset_after == Some(sent) {
                return sender.send(Err(Cut)).await.ok();
            }
            if sent > 0 {
                tokio::time::sleep(behave.chunk_interval).await;
            }
            sent += 1;
        }
        if let Some(bytes) = squeeze(&mut gzip, event)? {
            sender.send(Ok(Frame::data(bytes))).await.ok()?;
        }
    }
    if let Some(gzip) = gzip {
        sender.send(Ok(Frame::data(gzip.finish().ok()?.into()))).await.ok()?;
    }
    if behave.trailers {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-mock-end", HeaderValue::from_static("1"));
        sender.send(Ok(Frame::trailers(trailers))).await.ok()?;
    }
    Some(())
}

/// The event as sent: compressed and flushed, or as it is.
fn squeeze(gzip: &mut Option<GzEncoder<Vec<u8>>>, event: Vec<u8>) -> Option<Option<Bytes>> {
    let bytes = match gzip {
        None => event,
        Some(encoder) => {
            encoder.write_all(&event).ok()?;
            encoder.flush().ok()?;
            std::mem::take(encoder.get_mut())
        }
    };
    Some((!bytes.is_empty()).then(|| bytes.into()))
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

fn whole(head: Builder, answer: &Answer, behave: &Behave, asked: &HeaderMap) -> Response<Body> {
    let mut head = head.header(CONTENT_TYPE, "application/json");
    let mut bytes = answer.json().to_string().into_bytes();
    if behave.garbage {
        bytes = b"{\"usage\": {\"prompt_tokens\": \xff\xfe, <<<".to_vec();
    }
    if behave.gzip {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        if encoder.write_all(&bytes).is_ok() {
            bytes = encoder.finish().unwrap_or_default();
        }
        head = head.header(CONTENT_ENCODING, "gzip");
    }
    if behave.reset_after.is_none() && !behave.trailers {
        return finish(head, full(bytes.into()));
    }
    let (sender, body) = fed();
    let trailers = behave.trailers && (asked.contains_key("te") || behave.reset_after.is_none());
    tokio::spawn(async move {
        let half = bytes.len() / 2;
        let first = if trailers { bytes } else { bytes.into_iter().take(half).collect() };
        if sender.send(Ok(Frame::data(first.into()))).await.is_ok() {
            let last = if trailers {
                let mut map = HeaderMap::new();
                map.insert("x-mock-end", HeaderValue::from_static("1"));
                Ok(Frame::trailers(map))
            } else {
                Err(Cut)
            };
            drop(sender.send(last).await);
        }
    });
    finish(head.header(TRAILER, "x-mock-end"), boxed(body))
}

fn refused(endpoint: Endpoint, refusal: &Refusal) -> Response<Body> {
    let seconds = refusal.wait.as_secs_f64();
    let what = refusal.what;
    let message = format!(
        "Rate limit reached on {what} per min (limit {}): try again in {seconds:.3}s.",
        refusal.limit
    );
    let head = Response::builder().status(429).header(RETRY_AFTER, seconds.ceil().max(1.0) as u64);
    let head = if endpoint == Endpoint::Messages {
        head
    } else {
        head.header("retry-after-ms", refusal.wait.as_millis().max(1).to_string())
    };
    let body = errors::document(Some(endpoint), 429, what, &message);
    finish(head.header(CONTENT_TYPE, "application/json"), full(body.to_string().into()))
}

fn ordered_error(endpoint: Endpoint, status: u16, behave: &Behave) -> Response<Body> {
    let mut head = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    if let Some(value) = &behave.retry_after {
        head = head.header(RETRY_AFTER, value);
    }
    let body = errors::document(Some(endpoint), status, "requests", "as ordered by the test");
    finish(head, full(body.to_string().into()))
}

/// Agrees to any upgrade and sends back the bytes that come.
fn upgrade_and_echo(mut request: Request<Incoming>) -> Response<Body> {
    let protocol = request.headers().get("upgrade").cloned();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            let (mut read, mut write) = tokio::io::split(hyper_util::rt::TokioIo::new(upgraded));
            drop(tokio::io::copy(&mut read, &mut write).await);
        }
    });
    let mut head = Response::builder().status(101).header("connection", "upgrade");
    if let Some(protocol) = protocol {
        head = head.header("upgrade", protocol);
    }
    finish(head, full(Bytes::new()))
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

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(Cut::from).boxed()
}

fn boxed(body: Fed) -> Body {
    BodyExt::boxed(body)
}

fn document(status: u16, value: &Value) -> Response<Body> {
    let head = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    finish(head, full(value.to_string().into()))
}

/// The response, or a bare 500 when a header did not fit.
fn finish(head: Builder, body: Body) -> Response<Body> {
    head.body(body).unwrap_or_else(|error| {
        let mut response = Response::new(full(error.to_string().into()));
        *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// Wait after a failed accept (out of file descriptors) before the next.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
