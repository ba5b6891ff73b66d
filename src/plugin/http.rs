//! One call: host callbacks to session steps, verdicts to host calls.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use super::generations;
use super::host::{self, Buffer, Map};
use super::pause;
use super::verdict::{Resume, carry_out, write_log_field};
use super::worker::{self, Worker};
use crate::cost::usage::published;
use crate::observe::Anomaly;
use crate::reply;
use crate::session::admission::{BEGINNING_BYTES, Seen};
use crate::session::head::{Headers, first};
use crate::session::{Env, Phase, Session};
use crate::units::Timestamp;

/// See the module.
#[derive(Debug)]
pub(super) struct Call {
    context: u32,
    worker: Rc<Worker>,
    session: Rc<RefCell<Session>>,
    /// Body bytes that came before the present callback and that the host does not show again.
    held: Vec<u8>,
}

impl Call {
    pub(super) fn new(context: u32, worker: Rc<Worker>) -> Self {
        let session = Rc::new(RefCell::new(Session::passed(Rc::clone(&worker.plan))));
        Self { context, worker, session, held: Vec::new() }
    }

    fn step<T>(&self, step: impl FnOnce(&mut Session, &mut Env<'_>) -> T) -> Option<T> {
        self.step_at(self.worker.now_or_last(), step)
    }

    fn step_at<T>(&self, now: Timestamp, step: impl FnOnce(&mut Session, &mut Env<'_>) -> T) -> Option<T> {
        let mut session = self.session.try_borrow_mut().ok()?;
        self.worker.step(now, |env| step(&mut session, env))
    }

    fn phase(&self) -> Phase {
        self.session.try_borrow().map_or(Phase::Passed, |session| session.phase())
    }

    /// Decides with the body bytes at hand and carries the verdict out.
    fn decide(&self, body: &[u8], arrived: usize, seen: Seen) -> Action {
        let now = worker::now().unwrap_or_else(|| {
            if let Ok(mut session) = self.session.try_borrow_mut() {
                session.fail_open(Anomaly::ClockMissing);
            }
            self.worker.now_or_last()
        });
        match self.step_at(now, |session, env| session.decide(body, arrived, seen, env)) {
            Some(verdict) => {
                carry_out(&self.worker, &self.session, self.context, verdict, now, Resume::Inline)
            }
            None => Action::Continue,
        }
    }

    fn body_in_hand(&self, size: usize) -> Vec<u8> {
        let limit = self.worker.plan.config.body_limit_bytes.saturating_sub(self.held.len());
        host::buffer(Buffer::RequestBody, 0, size.min(limit)).unwrap_or_default()
    }

    /// Decides with what was held and the `size` bytes that just came.
    fn decide_on(&mut self, size: usize, seen: Seen) -> Action {
        let arrived = self.held.len().saturating_add(size);
        let new = self.body_in_hand(size);
        let action = if self.held.is_empty() {
            self.decide(&new, arrived, seen)
        } else {
            let mut body = core::mem::take(&mut self.held);
            body.extend_from_slice(&new);
            self.decide(&body, arrived, if seen == Seen::Whole { Seen::Pieces } else { seen })
        };
        // A body that will be replaced has to stay in the buffer that the host lets a filter change.
        let replaced = self.session.try_borrow().is_ok_and(|session| session.replaces_body());
        if action == Action::Pause && !replaced { pause::gently() } else { action }
    }

    fn end(&self) {
        let before = self.phase();
        if matches!(before, Phase::Passed | Phase::Answered | Phase::Settled) {
            return;
        }
        if let (Phase::Parked { due, .. }, Ok(session)) = (before, self.session.try_borrow())
            && let Some(pool) = session.pool()
            && let Ok(mut parking) = self.worker.parking.try_borrow_mut()
        {
            parking.release(pool, due, self.context);
        }
        self.step(Session::end);
        self.worker.hurry_if_owing();
        if matches!(before, Phase::Forwarded | Phase::Parked { .. }) {
            self.write_log_field();
        }
    }

    fn write_log_field(&self) {
        write_log_field(&self.session);
    }
}

/// Lets the headers of an undecided call go on before its body.
pub(super) fn headers_leave(worker: &Worker, session: &RefCell<Session>) {
    let Ok(mut session) = session.try_borrow_mut() else { return };
    session.note_headers_left();
    if session.is_surely_metered() && worker.plan.config.force_identity_encoding {
        // This cannot wait for the decision, and what no pool takes is left as it is.
        host::set_header(Map::Request, "accept-encoding", "identity");
    }
}

impl Context for Call {
    fn on_http_call_response(&mut self, number: u32, headers: usize, _: usize, _: usize) {
        super::fleet::answered(&self.worker, number, headers);
    }

    fn on_done(&mut self) -> bool {
        self.end();
        true
    }
}

impl HttpContext for Call {
    fn on_http_request_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        let encoded = host::header_map(Map::Request);
        let headers = host::pairs(&encoded);
        #[cfg(feature = "trap-test")]
        if first(&headers, "x-backpressure-test-trap").is_some() {
            #[allow(clippy::panic)]
            {
                panic!("trap asked for by a test");
            }
        }
        if self.worker.contested.get() {
            generations::meet(&self.worker, self.worker.now_or_last());
        }
        let method = first(&headers, ":method").unwrap_or_default();
        if super::status::is_asked_for(&self.worker, &headers) {
            return super::status::answer(&self.worker, method, &headers);
        }
        if method != b"POST" {
            return Action::Continue;
        }
        let session = self.worker.meters.try_borrow_mut().ok().map(|mut meters| {
            Session::begin(&self.worker.plan, &headers, &mut |path| host::property(path), &mut *meters)
        });
        let Some(session) = session else { return Action::Continue };
        self.session = Rc::new(RefCell::new(session));
        if self.phase() != Phase::Undecided {
            return Action::Continue;
        }
        if end_of_stream {
            return self.decide(&[], 0, Seen::Whole);
        }
        if self.worker.plan.config.hold_headers && self.worker.watch.hold(self.context, &self.session) {
            // With `allow_on_headers_stop_iteration` this holds the headers while the body is delivered.
            return Action::Pause;
        }
        headers_leave(&self.worker, &self.session);
        Action::Continue
    }

    fn on_http_request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        let phase = self.phase();
        if phase == Phase::Undecided && self.worker.plan.config.hold_headers && self.worker.watch.is_open() {
            let resumed = self.session.try_borrow().is_ok_and(|session| session.headers_left());
            self.worker.watch.learn(resumed, self.worker.now_or_last());
        }
        match phase {
            Phase::Undecided if end_of_stream => self.decide_on(size, Seen::Whole),
            Phase::Undecided => {
                let hold = self.session.try_borrow().is_ok_and(|session| session.may_hold_body());
                if hold && size <= self.worker.plan.config.body_limit_bytes {
                    return Action::Pause;
                }
                let most = self.worker.plan.config.body_limit_bytes.min(BEGINNING_BYTES);
                if pause::is_gentle() && self.held.len().saturating_add(size) < most {
                    self.held.extend_from_slice(&self.body_in_hand(size));
                    return pause::gently();
                }
                self.decide_on(size, Seen::Beginning)
            }
            Phase::Parked { .. } | Phase::Asking { .. } | Phase::Answered => pause::gently(),
            Phase::Forwarded => {
                if let Ok(mut session) = self.session.try_borrow_mut() {
                    session.body_passed(u64::try_from(size).unwrap_or(u64::MAX));
                }
                if end_of_stream {
                    self.step(Session::charge_excess);
                }
                Action::Continue
            }
            Phase::Passed | Phase::Settled => Action::Continue,
        }
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        match self.phase() {
            Phase::Undecided if self.held.is_empty() => {
                self.decide(&self.body_in_hand(usize::MAX), 0, Seen::Whole)
            }
            Phase::Undecided => self.decide_on(0, Seen::Whole),
            Phase::Parked { .. } | Phase::Asking { .. } | Phase::Answered => Action::Pause,
            Phase::Forwarded => {
                self.step(Session::charge_excess);
                Action::Continue
            }
            Phase::Passed | Phase::Settled => Action::Continue,
        }
    }

    fn on_http_response_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        if self.phase() != Phase::Forwarded {
            return Action::Continue;
        }
        let encoded = host::header_map(Map::Response);
        let headers = host::pairs(&encoded);
        // The router puts this header on what an upstream answered, and on nothing that Envoy answers itself. Where it
        // is suppressed, a property tells, at the price of the dearest kind of host call.
        let details = if first(&headers, "x-envoy-upstream-service-time").is_some() {
            Vec::new()
        } else {
            host::property(&["response", "code_details"]).unwrap_or_default()
        };
        self.step(|session, env| session.response_head(&headers, &details, end_of_stream, env));
        self.add_headers(&headers);
        if end_of_stream {
            self.response_ended();
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        if self.phase() != Phase::Forwarded {
            return Action::Continue;
        }
        if size > 0 {
            let chunk = host::buffer(Buffer::ResponseBody, 0, size).unwrap_or_default();
            if let Ok(mut session) = self.session.try_borrow_mut() {
                session.response_body(&chunk);
            }
        }
        if end_of_stream {
            self.response_ended();
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        if self.phase() == Phase::Forwarded {
            self.response_ended();
        }
        Action::Continue
    }

    fn on_log(&mut self) {
        self.end();
    }
}

impl Call {
    fn response_ended(&self) {
        if let Ok(mut session) = self.session.try_borrow_mut() {
            // Properties are the dearest kind of host call, and what the provider itself states needs no second opinion.
            let stated = session.states_usage();
            let published =
                if stated { None } else { published::published(&mut |path| host::property(path)) };
            session.response_complete(published);
        }
        self.end();
    }

    /// Adds the limit headers that the upstream did not send itself.
    fn add_headers(&self, upstream: &Headers<'_>) {
        let Ok(session) = self.session.try_borrow() else { return };
        if session.shadow_denied() {
            host::set_header(Map::Response, "x-backpressure-shadow", "denied");
        }
        if !self.worker.plan.config.response_headers {
            return;
        }
        let sent = |group: &str| {
            upstream
                .iter()
                .any(|(name, _)| name.starts_with(b"x-ratelimit-") && name.ends_with(group.as_bytes()))
        };
        let (requests_sent, llm_tokens_sent) = (sent("-requests"), sent("-tokens"));
        for (name, value) in reply::limit_headers(session.standings()) {
            if if name.ends_with("-requests") { requests_sent } else { llm_tokens_sent } {
                continue;
            }
            host::set_header(Map::Response, name, &value);
        }
    }
}
