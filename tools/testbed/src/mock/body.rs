//! A response body fed by a task, which learns when nobody listens any more.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Why a fed body ends early; the connection is reset.
#[derive(Debug)]
pub struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("cut on purpose")
    }
}

impl std::error::Error for Cut {}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// What a feeding task sends.
pub type Piece = Result<Frame<Bytes>, Cut>;

/// The receiving end as an HTTP body.
#[derive(Debug)]
pub struct Fed(mpsc::Receiver<Piece>);

/// A body and the way to feed it.
#[must_use]
pub fn fed() -> (mpsc::Sender<Piece>, Fed) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Fed(receiver))
}

impl Body for Fed {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.0.poll_recv(cx)
    }
}
