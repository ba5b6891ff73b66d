//! What a verdict makes the host do.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::types::Action;

use super::host::{self, Buffer, Map};
use super::root::FAST_TICK_MILLIS;
use super::worker::Worker;
use crate::session::admission::Forward;
use crate::session::{Session, Verdict};
use crate::units::Timestamp;

/// Sets the access-log field from what is known now.
pub(super) fn write_log_field(session: &Rc<RefCell<Session>>) {
    let field = session.try_borrow().ok().and_then(|session| session.log_field());
    if let Some(field) = field {
        host::set_filter_state("backpressure", field.as_bytes());
    }
}

/// Where a verdict comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// The call's own body callback.
    Inline,
    /// The tick: the call was parked, and is resumed by hand.
    Held,
    /// An answer of the fleet's store: the call was held for it, and is resumed by hand.
    Answered,
}

/// Does what a verdict says.
pub(super) fn carry_out(
    worker: &Rc<Worker>,
    session: &Rc<RefCell<Session>>,
    context: u32,
    verdict: Verdict,
    now: Timestamp,
    resume: Resume,
) -> Action {
    let by_hand = resume != Resume::Inline;
    match verdict {
        Verdict::Forward(forward) => {
            prepare(&forward);
            write_log_field(session);
            worker.hurry_if_owing();
            if by_hand {
                host::continue_request();
            }
            Action::Continue
        }
        Verdict::Park { due } => {
            let Some(pool) = session.try_borrow().ok().and_then(|session| session.pool()) else {
                return Action::Continue;
            };
            let Ok(mut parking) = worker.parking.try_borrow_mut() else { return Action::Continue };
            let full = worker.plan.config.pools.get(pool).is_none_or(|config| {
                parking.len(pool) >= usize::try_from(config.max_parked).unwrap_or(usize::MAX)
            });
            if full && resume != Resume::Held {
                drop(parking);
                let denial = session
                    .try_borrow_mut()
                    .ok()
                    .and_then(|mut session| worker.step(now, |env| session.deny_instead_of_park(env)));
                return denial.map_or(Action::Continue, |verdict| {
                    carry_out(worker, session, context, verdict, now, resume)
                });
            }
            parking.hold(pool, due, context, session);
            worker.hurry(FAST_TICK_MILLIS);
            Action::Pause
        }
        Verdict::Consult(question) => {
            if super::questions::consult(worker, session, context, question, now) {
                return Action::Pause;
            }
            let alone = session
                .try_borrow_mut()
                .ok()
                .and_then(|mut session| worker.step(now, |env| session.heard(None, env)));
            alone
                .map_or(Action::Continue, |verdict| carry_out(worker, session, context, verdict, now, resume))
        }
        Verdict::Answer(answer) => {
            write_log_field(session);
            let details = format!("backpressure_{}", answer.reason);
            if host::send_response(answer.status, &details, &answer.headers, &answer.body) {
                return Action::Pause;
            }
            if let Ok(mut session) = session.try_borrow_mut()
                && let Some(Verdict::Forward(forward)) = worker.step(now, |env| session.reply_failed(env))
            {
                prepare(&forward);
            }
            write_log_field(session);
            if by_hand {
                host::continue_request();
            }
            Action::Continue
        }
    }
}

/// Changes to the request before it goes on; only what the configuration asks for.
fn prepare(forward: &Forward) {
    if forward.force_identity {
        host::set_header(Map::Request, "accept-encoding", "identity");
    }
    if let Some(body) = &forward.body {
        // Envoy does not correct the length of a changed body.
        if host::set_header(Map::Request, "content-length", &body.len().to_string()) {
            host::replace_buffer(Buffer::RequestBody, usize::MAX, body);
        }
    }
}
