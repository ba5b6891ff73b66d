//! How answers are written: whole, piece by piece, refused, ordered, upgraded.

use super::behave::Behave;
use super::body::{Cut, Fed, Piece, fed};
use super::caps::Refusal;
use super::dialect::{Answer, Endpoint};
use super::{errors, sse};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, TRAILER};
use hyper::http::response::Builder;
use hyper::{Request, Response};
use serde_json::Value;
use std::io::Write;
use tokio::sync::mpsc;

pub(super) type Body = BoxBody<Bytes, Cut>;

/// Writes the events at their pace. `None`: the reader went away.
pub(super) async fn feed(sender: &mpsc::Sender<Piece>, events: sse::Events, behave: &Behave) -> Option<()> {
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

pub(super) fn whole(head: Builder, answer: &Answer, behave: &Behave, asked: &HeaderMap) -> Response<Body> {
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

pub(super) fn refused(endpoint: Endpoint, refusal: &Refusal) -> Response<Body> {
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

pub(super) fn ordered_error(endpoint: Endpoint, status: u16, behave: &Behave) -> Response<Body> {
    let mut head = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    if let Some(value) = &behave.retry_after {
        head = head.header(RETRY_AFTER, value);
    }
    let body = errors::document(Some(endpoint), status, "requests", "as ordered by the test");
    finish(head, full(body.to_string().into()))
}

/// Agrees to any upgrade and sends back the bytes that come.
pub(super) fn upgrade_and_echo(mut request: Request<Incoming>) -> Response<Body> {
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

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(Cut::from).boxed()
}

pub(super) fn boxed(body: Fed) -> Body {
    BodyExt::boxed(body)
}

pub(super) fn document(status: u16, value: &Value) -> Response<Body> {
    let head = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    finish(head, full(value.to_string().into()))
}

/// The response, or a bare 500 when a header did not fit.
pub(super) fn finish(head: Builder, body: Body) -> Response<Body> {
    head.body(body).unwrap_or_else(|error| {
        let mut response = Response::new(full(error.to_string().into()));
        *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
