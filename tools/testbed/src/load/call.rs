//! One call: its body, one try of it, and what the answer said.

use super::flow::{Api, Flow};
use super::random::Random;
use crate::llm_tokens;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request, StatusCode, Uri, body::Incoming};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use serde_json::{Value, json};
use std::time::Duration;

/// The pooled HTTP client.
pub type Http = Client<HttpConnector, Full<Bytes>>;

/// A call that can be sent any number of times.
#[derive(Clone, Debug)]
pub struct Prepared {
    uri: Uri,
    host: String,
    tenant: String,
    class: String,
    mock: String,
    body: Bytes,
}

/// What one try met.
#[derive(Debug)]
pub enum Met {
    /// 2xx; the body is still to be read.
    Admitted(Incoming),
    /// 429, from the gate or from the provider, with the wait it told.
    Refused {
        /// It carried the gate's reason.
        by_gate: bool,
        /// `retry-after-ms`, else `retry-after`.
        told: Option<Duration>,
    },
    /// Anything else.
    Failed(Option<StatusCode>),
}

/// Writes the call. The same generator state gives the same bytes; `number` makes each call's body its own.
#[must_use]
pub fn prepare(
    base: &str,
    host: &str,
    model: &str,
    flow: &Flow,
    number: u64,
    random: &mut Random,
) -> Option<Prepared> {
    let stream = random.unit() < flow.stream && flow.api != Api::Embeddings;
    let prompt = format!("{}call {number}", llm_tokens::text(random.around(flow.prompt)));
    let mut body = match flow.api {
        Api::Embeddings => json!({"model": model, "input": prompt}),
        Api::Chat | Api::Messages => {
            json!({"model": model, "messages": [{"role": "user", "content": prompt}]})
        }
    };
    if flow.max_tokens > 0 && flow.api != Api::Embeddings {
        body["max_tokens"] = json!(flow.max_tokens);
    }
    if stream {
        body["stream"] = json!(true);
        if flow.api == Api::Chat {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    let path = match flow.api {
        Api::Chat => "/v1/chat/completions",
        Api::Messages => "/v1/messages",
        Api::Embeddings => "/v1/embeddings",
    };
    let mut mock = format!("output={}", random.around(flow.output).max(1));
    if !flow.mock.is_empty() {
        mock = format!("{mock},{}", flow.mock);
    }
    Some(Prepared {
        uri: format!("{base}{path}").parse().ok()?,
        host: host.to_owned(),
        tenant: flow.tenant.clone(),
        class: flow.class.clone(),
        mock,
        body: body.to_string().into(),
    })
}

/// Sends the call once.
pub async fn send(http: &Http, call: &Prepared) -> Met {
    let mut request = Request::post(call.uri.clone())
        .header("host", &call.host)
        .header("content-type", "application/json")
        .header("x-tenant", &call.tenant)
        .header("x-mock", &call.mock);
    if !call.class.is_empty() {
        request = request.header("x-priority", &call.class);
    }
    let Ok(request) = request.body(Full::new(call.body.clone())) else { return Met::Failed(None) };
    let Ok(response) = http.request(request).await else { return Met::Failed(None) };
    let status = response.status();
    if status.is_success() {
        return Met::Admitted(response.into_body());
    }
    let (by_gate, told) =
        (response.headers().contains_key("x-backpressure-reason"), told(response.headers()));
    // Read to the end, so that the connection can be used again.
    drop(response.into_body().collect().await);
    if status == StatusCode::TOO_MANY_REQUESTS {
        Met::Refused { by_gate, told }
    } else {
        Met::Failed(Some(status))
    }
}

fn told(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads the answer to its end and adds up its usage.
pub async fn usage(body: Incoming) -> Option<u64> {
    let bytes = body.collect().await.ok()?.to_bytes();
    let text = std::str::from_utf8(&bytes).ok()?;
    let (mut input, mut output) = (0, 0);
    for line in text.lines() {
        let json = line.strip_prefix("data: ").unwrap_or(line);
        if !json.contains("\"usage\"") {
            continue;
        }
        let Ok(document) = serde_json::from_str::<Value>(json) else { continue };
        for at in ["/usage", "/message/usage", "/response/usage"] {
            let amount = |names: [&str; 2]| {
                let usage = document.pointer(at)?;
                names.into_iter().find_map(|name| usage.get(name)?.as_u64())
            };
            input = input.max(amount(["prompt_tokens", "input_tokens"]).unwrap_or(0));
            output = output.max(amount(["completion_tokens", "output_tokens"]).unwrap_or(0));
        }
    }
    Some(input + output)
}
