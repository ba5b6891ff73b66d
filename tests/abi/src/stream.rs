//! One HTTP call as Envoy's filter chain sees it.

use std::collections::BTreeMap;

use crate::wire::Headers;

/// Which way data flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

/// How the filter holds one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// Everything flows.
    #[default]
    None,
    /// Headers and buffered body are held, body callbacks go on.
    Single,
    /// Nothing is delivered to the filter until it resumes.
    All,
}

/// What left the filter chain towards the peer.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub headers: Option<Headers>,
    pub body: Vec<u8>,
    pub trailers: Option<Headers>,
    pub ended: bool,
    pub reset: bool,
}

/// One direction of a call.
#[derive(Clone, Debug, Default)]
pub struct Half {
    pub headers: Option<Headers>,
    pub headers_readable: bool,
    pub trailers: Option<Headers>,
    pub trailers_readable: bool,
    pub stop: Stop,
    /// The filter paused in the body callback: its buffer shows everything so far.
    pub buffering: bool,
    pub buffer: Vec<u8>,
    /// Bytes of the callback that runs now.
    pub chunk: Option<Vec<u8>>,
    /// The sender has finished.
    pub ended: bool,
    /// All bytes received from the sender.
    pub received: Vec<u8>,
    pub sent: Sent,
}

impl Half {
    /// The body buffer that the filter may read now.
    pub fn readable_body(&mut self) -> Option<&mut Vec<u8>> {
        if self.buffering { Some(&mut self.buffer) } else { self.chunk.as_mut() }
    }
}

/// Who answered a call in place of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOrigin {
    /// The filter itself.
    Filter,
    /// Another filter, the router, or Envoy.
    Other,
}

/// A local answer.
#[derive(Clone, Debug, Default)]
pub struct LocalReply {
    pub status: u32,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub details: String,
    pub flags: u64,
}

/// One HTTP call.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub root: u32,
    pub request: Half,
    pub response: Half,
    /// Request headers as the client sent them, for the `request.*` properties.
    pub received: Headers,
    /// Set once a local reply was sent.
    pub replied_by: Option<ReplyOrigin>,
    /// The filter asked for a local reply that has not run yet.
    pub reply_queued: bool,
    /// A callback of this call is running.
    pub in_callback: bool,
    pub details: String,
    pub flags: u64,
    pub upstream_reached: bool,
    pub properties: BTreeMap<Vec<u8>, Vec<u8>>,
    pub filter_state: BTreeMap<String, Vec<u8>>,
    pub opened_at: u64,
    pub logged: bool,
    pub done: bool,
    pub deleted: bool,
}

impl Stream {
    /// One direction of the call.
    pub fn half(&mut self, direction: Direction) -> &mut Half {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
    }

    /// Status the client has seen.
    pub fn client_status(&self) -> Option<u16> {
        let value = self.response.sent.headers.as_ref()?.text(":status")?;
        value.parse().ok()
    }

    /// Whether the request headers have gone on towards the upstream.
    pub fn reached_upstream(&self) -> bool {
        self.request.sent.headers.is_some()
    }

    /// A header of the answer as text.
    pub fn client_header(&self, name: &str) -> Option<String> {
        self.response.sent.headers.as_ref()?.text(name)
    }

    /// The access-log field of the filter, parsed.
    pub fn log_field(&self) -> serde_json::Value {
        let raw = self.filter_state.get("wasm.backpressure").map_or(&b"null"[..], Vec::as_slice);
        serde_json::from_slice(raw).unwrap_or(serde_json::Value::Null)
    }
}
