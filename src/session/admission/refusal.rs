//! Who may not pass now: parked, or told when to come back.

use std::rc::Rc;

use super::{Forward, Verdict};
use crate::config::Mode;
use crate::cost::dialect::Dialect;
use crate::cost::price;
use crate::gate::{Booking, WaitReason};
use crate::observe::{Anomaly, Decided};
use crate::reply::{self, Answer};
use crate::session::{Env, Phase, Session};
use crate::units::Span;

/// A wait shorter than the clock's and the tick's grain is not worth telling.
pub(super) const SHORTEST_WAIT: Span = Span::from_millis(1);

impl Session {
    pub(super) fn refuse(
        &mut self,
        booking: Booking,
        reason: WaitReason,
        may_park: bool,
        env: &mut Env<'_>,
    ) -> Verdict {
        if self.plan.config.mode == Mode::Shadow {
            return self.pass_in_shadow(booking, reason, may_park, env);
        }
        self.wait_for(booking, reason, may_park, env)
    }

    /// Parks the call when its turn is near enough, else denies it with its booking.
    fn wait_for(
        &mut self,
        booking: Booking,
        reason: WaitReason,
        may_park: bool,
        env: &mut Env<'_>,
    ) -> Verdict {
        let since = self.parked_since().unwrap_or(env.now);
        let due = env.now.after(booking.wait.max(SHORTEST_WAIT));
        let was_parked = self.parked_since().is_some();
        let deadline = since.after(self.priced.as_ref().map_or(Span::ZERO, |priced| priced.ask.max_park));
        self.reason = Some(reply::reason_name(reason));
        self.waits_for = Some(reason);
        // One that waits here already stays until its time is up: its turn may come sooner than the ledger foresees,
        // when a call ends or uses less than was reserved.
        let due = if was_parked { due.min(deadline) } else { due };
        let stays = if was_parked { env.now < deadline } else { due <= deadline };
        if may_park && stays {
            self.booking = Some(booking);
            self.phase = Phase::Parked { since, due };
            return Verdict::Park { due };
        }
        self.deny(booking, reason, env)
    }

    /// Denies a call that would have been parked, for example because too many are.
    pub fn deny_instead_of_park(&mut self, env: &mut Env<'_>) -> Verdict {
        let Some(mut booking) = self.booking else { return Verdict::Forward(Forward::default()) };
        let longest = self.plan.config.max_retry_after;
        if let (true, Some(priced)) = (booking.wait > longest, &mut self.priced) {
            // Its turn is later than may be told: it is booked anew, as one that comes before it.
            priced.ask.max_park = Span::ZERO;
            return self.decide_parked(env);
        }
        if let Phase::Parked { due, .. } = self.phase {
            booking.wait = due.since(env.now);
            booking.told = booking.wait;
        }
        self.deny(booking, self.waits_for.unwrap_or(WaitReason::Exhausted), env)
    }

    fn deny(&mut self, booking: Booking, reason: WaitReason, env: &mut Env<'_>) -> Verdict {
        self.booking = None;
        self.phase = Phase::Answered;
        self.wait = booking.told;
        self.reason = Some(reply::reason_name(reason));
        self.decide_as(Decided::Denied, env);
        env.recorder.refused(self.labels(), reply::reason_name(reason), Some(booking.told));
        let plan = Rc::clone(&self.plan);
        let (Some(pool), Some(priced)) = (self.pool_config(), self.priced.as_ref()) else {
            return Verdict::Forward(Forward::default());
        };
        let max_told = plan.config.max_retry_after;
        let told = booking.told.clamp(SHORTEST_WAIT, max_told);
        self.answer(reply::denied(pool, priced.endpoint.dialect, reason, told, max_told, &self.standings))
    }

    pub(super) fn too_large(&mut self, exceeds: &price::ExceedsLimit, env: &mut Env<'_>) -> Verdict {
        let Some(pool) = self.pool() else { return Verdict::Forward(Forward::default()) };
        self.reason = Some("exceeds_limit");
        self.reserved = exceeds.need;
        env.recorder.refused(self.labels(), "exceeds_limit", None);
        if self.plan.config.mode == Mode::Shadow {
            return self.forward(Decided::ShadowDenied, env);
        }
        self.standings = env.gate.standings(env.store, pool, env.now);
        self.decide_as(Decided::TooLarge, env);
        self.phase = Phase::Answered;
        let (Some(pool), Some(priced)) = (self.pool_config(), self.priced.as_ref()) else {
            return Verdict::Forward(Forward::default());
        };
        self.answer(reply::too_large(pool, priced.endpoint.dialect, exceeds, &self.standings))
    }

    /// Streams of Gemini that are not asked for as events are arrays, and so are the errors in their place.
    fn answer(&self, mut answer: Answer) -> Verdict {
        let streams = self.priced.as_ref().is_some_and(|priced| {
            let endpoint = &priced.endpoint;
            (endpoint.dialect, endpoint.shape, endpoint.path_streams)
                == (Dialect::Gemini, Dialect::Gemini, Some(true))
        });
        let has_events = self.head.as_ref().is_some_and(|head| {
            head.path.split(|byte| matches!(byte, b'?' | b'&')).skip(1).any(|part| part == b"alt=sse")
        });
        if streams && !has_events {
            answer.body.insert(0, b'[');
            answer.body.push(b']');
        }
        Verdict::Answer(answer)
    }

    /// The host would not send the refusal: the call passes as one that was not decided.
    pub fn reply_failed(&mut self, env: &mut Env<'_>) -> Verdict {
        self.pass_undecided(Anomaly::ReplyFailed, env)
    }
}
