//! The HTTP filter chain around one filter: what is delivered when, held, released, answered and ended.

use crate::state::VmState;
use crate::stream::{Direction, Half, LocalReply, ReplyOrigin, Stop, Stream};
use crate::vm::Vm;
use crate::wire::Headers;

const CONTINUE: u32 = 0;
const STOP_AND_WATERMARK: u32 = 2;

impl Vm {
    /// Opens a call and delivers its request headers.
    pub fn open(&mut self, root: u32, mut stream: Stream, headers: Headers, end: bool) -> u32 {
        let id = self.state().allocate_context();
        stream.root = root;
        stream.received = headers.clone();
        stream.opened_at = self.state().world.borrow().clock.monotonic();
        self.state().streams.insert(id, stream);
        if let Some(root) = self.state().roots.get_mut(&root) {
            root.streams += 1;
        }
        let exports = self.exports.clone();
        self.call(id, &exports.context_create, (id, root));
        self.run_deferred();
        self.headers(id, Direction::Request, headers, end);
        id
    }

    /// A call by identifier.
    pub fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        self.state().streams.get_mut(&id)
    }

    fn half(&mut self, id: u32, direction: Direction) -> Option<&mut Half> {
        self.stream(id).map(|stream| stream.half(direction))
    }

    /// Whether data of this direction still reaches the filter.
    fn flows(&mut self, id: u32, direction: Direction) -> bool {
        self.stream(id).is_some_and(|stream| {
            !stream.done
                && !stream.response.sent.reset
                && (direction == Direction::Response || stream.replied_by.is_none())
        })
    }

    /// Runs one callback of a call and gives its action; a queued local reply counts as a stop.
    fn callback(&mut self, id: u32, run: impl FnOnce(&mut Self) -> Option<u32>) -> Option<u32> {
        if let Some(stream) = self.stream(id) {
            stream.in_callback = true;
        }
        let action = run(self);
        let stopped = self.state().stop_iteration;
        if let Some(stream) = self.stream(id) {
            stream.in_callback = false;
        }
        self.run_deferred();
        if self.failed {
            self.fail(id);
            return None;
        }
        if stopped { None } else { action }
    }

    /// Delivers headers.
    pub fn headers(&mut self, id: u32, direction: Direction, headers: Headers, end: bool) {
        if !self.flows(id, direction) {
            return;
        }
        let count = headers.len() as u32;
        let Some(half) = self.half(id, direction) else { return };
        half.headers = Some(headers);
        half.headers_readable = true;
        half.ended = end;
        let exports = self.exports.clone();
        let export = match direction {
            Direction::Request => &exports.request_headers,
            Direction::Response => &exports.response_headers,
        };
        let action = self.callback(id, |vm| vm.call(id, export, (id, count, u32::from(end))));
        let allow_stop = self.allow_stop;
        if !self.flows(id, direction) {
            return;
        }
        let Some(half) = self.half(id, direction) else { return };
        match action {
            Some(CONTINUE) => half.release_headers(),
            Some(_) if allow_stop => half.stop = Stop::Single,
            _ => half.stop = Stop::All,
        }
    }

    /// Delivers a part of the body.
    pub fn body(&mut self, id: u32, direction: Direction, bytes: &[u8], end: bool) {
        if !self.flows(id, direction) {
            return;
        }
        let Some(half) = self.half(id, direction) else { return };
        half.received.extend(bytes);
        half.ended = end;
        if half.stop == Stop::All {
            half.buffer.extend(bytes);
            return;
        }
        self.body_callback(id, direction, bytes.to_vec(), end);
    }

    fn body_callback(&mut self, id: u32, direction: Direction, bytes: Vec<u8>, end: bool) {
        let limit = self.buffer_limit;
        let Some(half) = self.half(id, direction) else { return };
        if half.buffering {
            half.buffer.extend(&bytes);
            if half.buffer.len() > limit {
                return self.over_limit(id, direction);
            }
        } else {
            half.chunk = Some(bytes);
        }
        let size = half.readable_body().map_or(0, |body| body.len()) as u32;
        let exports = self.exports.clone();
        let export = match direction {
            Direction::Request => &exports.request_body,
            Direction::Response => &exports.response_body,
        };
        let action = self.callback(id, |vm| vm.call(id, export, (id, size, u32::from(end))));
        let live = self.flows(id, direction);
        let Some(half) = self.half(id, direction) else { return };
        let chunk = half.chunk.take().unwrap_or_default();
        if !live {
            return;
        }
        half.buffer.extend(&chunk);
        if action == Some(CONTINUE) {
            half.release();
            return;
        }
        half.stop = Stop::Single;
        // Paused by watermark the host stops reading when its buffer is full, and shows only what is new.
        half.buffering = action != Some(STOP_AND_WATERMARK);
        if half.buffering && half.buffer.len() > limit {
            self.over_limit(id, direction);
        }
    }

    fn over_limit(&mut self, id: u32, direction: Direction) {
        match direction {
            Direction::Request => {
                let details = "request_payload_too_large".to_owned();
                self.local_reply(
                    id,
                    LocalReply { status: 413, details, ..LocalReply::default() },
                    ReplyOrigin::Other,
                );
            }
            Direction::Response => self.reset(id),
        }
    }

    /// Delivers trailers, which end the direction.
    pub fn trailers(&mut self, id: u32, direction: Direction, trailers: Headers) {
        if !self.flows(id, direction) {
            return;
        }
        let Some(half) = self.half(id, direction) else { return };
        half.trailers = Some(trailers);
        half.ended = true;
        if half.stop != Stop::All {
            self.trailers_callback(id, direction);
        }
    }

    fn trailers_callback(&mut self, id: u32, direction: Direction) {
        let Some(half) = self.half(id, direction) else { return };
        half.trailers_readable = true;
        let count = half.trailers.as_ref().map_or(0, Headers::len) as u32;
        let exports = self.exports.clone();
        let export = match direction {
            Direction::Request => &exports.request_trailers,
            Direction::Response => &exports.response_trailers,
        };
        let action = self.callback(id, |vm| vm.call(id, export, (id, count)));
        if !self.flows(id, direction) {
            return;
        }
        let Some(half) = self.half(id, direction) else { return };
        if action == Some(CONTINUE) { half.release() } else { half.stop = Stop::Single }
    }

    /// The filter asked to go on. From a full stop the held body is delivered to the filter first, in one piece.
    pub(crate) fn resume(&mut self, id: u32, response: bool) {
        let direction = if response { Direction::Response } else { Direction::Request };
        if !self.flows(id, direction) {
            return;
        }
        let Some(half) = self.half(id, direction) else { return };
        match std::mem::take(&mut half.stop) {
            Stop::None => {
                self.state().violation(format!("stream {id} is resumed without being held"));
            }
            Stop::Single => half.release(),
            Stop::All => {
                half.release_headers();
                let held = std::mem::take(&mut half.buffer);
                let (ended, trailers) = (half.ended, half.trailers.is_some());
                let headers_only = half.sent.ended;
                if !headers_only && (!held.is_empty() || (ended && !trailers)) {
                    self.body_callback(id, direction, held, ended && !trailers);
                }
                if trailers && self.flows(id, direction) {
                    self.trailers_callback(id, direction);
                }
            }
        }
    }

    /// Runs the filter's own local reply, unless the call was answered or ended meanwhile.
    pub(crate) fn filter_reply(&mut self, id: u32, reply: LocalReply) {
        let answered = self.stream(id).is_none_or(|s| s.replied_by.is_some() || s.done);
        if !answered {
            self.local_reply(id, reply, ReplyOrigin::Filter);
        }
    }

    /// Answers a call inside Envoy; the answer passes the filter's response callbacks.
    pub fn local_reply(&mut self, id: u32, reply: LocalReply, origin: ReplyOrigin) {
        let Some(stream) = self.stream(id) else { return };
        if stream.response.sent.headers.is_some() {
            return self.reset(id);
        }
        stream.replied_by = Some(origin);
        stream.details = reply.details;
        stream.flags |= reply.flags;
        let mut headers = Headers::default();
        headers.add(b":status", reply.status.to_string().as_bytes());
        headers.0.extend(reply.headers.0);
        if !reply.body.is_empty() {
            headers.replace(b"content-length", reply.body.len().to_string().as_bytes());
            if headers.count("content-type") == 0 {
                headers.add(b"content-type", b"text/plain");
            }
        }
        stream.response = Half::default();
        let end = reply.body.is_empty();
        self.headers(id, Direction::Response, headers, end);
        if !end {
            self.body(id, Direction::Response, &reply.body, true);
        }
    }

    /// Either peer resets the call.
    pub fn reset(&mut self, id: u32) {
        if let Some(stream) = self.stream(id) {
            stream.response.sent.reset = true;
        }
    }

    /// The machine is dead: the client gets 503, or a reset when an answer has begun.
    pub(crate) fn fail(&mut self, id: u32) {
        let Some(stream) = self.stream(id) else { return };
        if stream.response.sent.headers.is_some() || stream.replied_by.is_some() {
            stream.response.sent.reset = true;
            return;
        }
        stream.replied_by = Some(ReplyOrigin::Other);
        stream.details = "wasm_fail_stream".to_owned();
        stream.response.sent.headers = Some(Headers::from_text(&[(":status", "503")]));
        stream.response.sent.ended = true;
    }

    /// The log callback.
    pub fn log(&mut self, id: u32) {
        let Some(stream) = self.stream(id) else { return };
        stream.logged = true;
        self.state().log_phase = true;
        let exports = self.exports.clone();
        self.call(id, &exports.log, id);
        self.state().log_phase = false;
        self.run_deferred();
    }

    /// The done callback.
    pub fn done(&mut self, id: u32) {
        let Some(stream) = self.stream(id) else { return };
        stream.done = true;
        let exports = self.exports.clone();
        self.call(id, &exports.done, id);
        self.run_deferred();
    }

    /// The delete callback; the call's record is handed out.
    pub fn delete(&mut self, id: u32) -> Option<Stream> {
        self.stream(id)?.deleted = true;
        let exports = self.exports.clone();
        self.call(id, &exports.delete, id);
        self.run_deferred();
        let state: &mut VmState = self.state();
        let stream = state.streams.remove(&id)?;
        if let Some(root) = state.roots.get_mut(&stream.root) {
            root.streams = root.streams.saturating_sub(1);
        }
        self.drop_idle_root(stream.root);
        Some(stream)
    }
}

impl Half {
    fn release_headers(&mut self) {
        self.headers_readable = false;
        if self.sent.headers.is_none() {
            self.sent.headers = self.headers.clone();
        }
        if self.ended
            && self.trailers.is_none()
            && self.buffer.is_empty()
            && self.chunk.is_none()
            && !self.buffering
            && self.received.is_empty()
        {
            self.sent.ended = true;
        }
    }

    /// Everything held goes on.
    fn release(&mut self) {
        self.stop = Stop::None;
        self.buffering = false;
        self.headers_readable = false;
        if self.sent.headers.is_none() {
            self.sent.headers = self.headers.clone();
        }
        self.sent.body.append(&mut self.buffer);
        if self.trailers.is_some() && self.trailers_readable {
            self.trailers_readable = false;
            self.sent.trailers = self.trailers.clone();
        }
        self.sent.ended = self.ended;
    }
}
