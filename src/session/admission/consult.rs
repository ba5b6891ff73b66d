//! The decision of a fleet: asked of its store, else made here.

use super::Verdict;
use crate::config::Mode;
use crate::fleet::webdis::Reply;
use crate::fleet::wire::Answer;
use crate::gate::{Ask, Booking, Reservation};
use crate::observe::Anomaly;
use crate::session::admission::Forward;
use crate::session::fleet::Question;
use crate::session::{Claim, Env, Phase, Session};
use crate::units::{Cost, Span, Timestamp};

/// Less is no time for an answer; and a timeout of 0 ms would be none to the host.
const LEAST_PATIENCE: Span = Span::from_millis(1);

impl Session {
    /// Asks the fleet's store, where there is one that is well.
    pub(super) fn consult(&mut self, env: &mut Env<'_>) -> Option<Verdict> {
        env.gate.fleet.as_ref().filter(|fleet| fleet.is_well())?;
        self.question(false, env).map(Verdict::Consult)
    }

    /// The question as it is now, when it was not sent so far; `None`: it is not to be sent any more, then [`Self::unasked`].
    pub fn restated(&mut self, env: &mut Env<'_>) -> Option<Question> {
        env.gate.fleet.as_ref().filter(|fleet| fleet.is_well())?;
        let timeout = self.plan.config.fleet.as_ref()?.timeout;
        (env.now.since(self.asked_at) < timeout).then(|| self.question(true, env)).flatten()
    }

    /// The store turned out to be unwell, or too busy, before it was asked: this Envoy decides alone.
    pub fn unasked(&mut self, env: &mut Env<'_>) -> Verdict {
        if env.gate.fleet.as_ref().is_some_and(|fleet| fleet.is_well()) {
            env.recorder.anomaly(Anomaly::FleetUnreachable);
        }
        if !self.asked_twice {
            self.marker = None;
        }
        self.ask_here(true, env)
    }

    /// How long an answer may be waited for from now on. No decision takes longer than two timeouts in all, however often it
    /// is asked for; `None`: that time is over.
    pub fn patience(&self, now: Timestamp) -> Option<Span> {
        let timeout = self.plan.config.fleet.as_ref()?.timeout;
        let left = self.asked_at.after(timeout).after(timeout).since(now).min(timeout);
        (left >= LEAST_PATIENCE).then_some(left)
    }

    /// The question. `again`: under the marker that it had.
    pub(super) fn question(&mut self, again: bool, env: &mut Env<'_>) -> Option<Question> {
        if !again {
            self.asked_at = env.now;
        }
        self.patience(env.now)?;
        let (pool, ask) = self.priced.as_ref().map(|priced| (priced.pool, priced.ask))?;
        let ask = self.as_asked(ask, env.now);
        let fleet = env.gate.fleet.as_mut()?;
        let marker = match &self.marker {
            Some(marker) if again => marker.clone(),
            _ => fleet.marker(),
        };
        self.marker = Some(marker.clone());
        self.phase = Phase::Asking { since: self.parked_since() };
        Some(Question::new(pool, marker, &ask))
    }

    /// Lets the call pass on what was lent to this worker. One that is parked has its turn from the store.
    pub(super) fn draw(&mut self, env: &mut Env<'_>) -> Option<Verdict> {
        if self.parked_since().is_some() {
            return None;
        }
        let (pool, ask) = self.priced.as_ref().map(|priced| (priced.pool, priced.ask))?;
        (self.standings, self.claim) = env.gate.draw(pool, &ask, env.now, env.recorder)?;
        Some(self.pass(env))
    }

    /// The call as it is asked for: one that is parked says so.
    pub(super) fn as_asked(&self, ask: Ask, now: Timestamp) -> Ask {
        match self.parked_since() {
            Some(since) => Ask { parked: true, max_park: since.after(ask.max_park).since(now), ..ask },
            None => ask,
        }
    }

    /// The fleet's store answered this question, or did not (`None`): then this Envoy decides alone.
    pub fn heard(&mut self, reply: Option<Reply>, env: &mut Env<'_>) -> Verdict {
        let pool = self.priced.as_ref().map_or(0, |priced| priced.pool);
        let policy = env.gate.policy(pool).cloned();
        let (Some(policy), Some(fleet)) = (policy, env.gate.fleet.as_mut()) else {
            return self.ask_here(true, env);
        };
        let marker = self.marker.as_deref().unwrap_or_default();
        let heard = fleet.hear(pool, &policy, &[marker], reply, env.now);
        let answer = heard.and_then(|answers| answers.into_iter().next().ok_or(Anomaly::FleetGarbled));
        self.told(answer, env)
    }

    /// What the store said to this question among others, or why it said nothing.
    pub fn told(&mut self, answer: Result<Answer, Anomaly>, env: &mut Env<'_>) -> Verdict {
        let Some((pool, ask)) = self.priced.as_ref().map(|priced| (priced.pool, priced.ask)) else {
            return Verdict::Forward(Forward::default());
        };
        let shadow = self.plan.config.mode == Mode::Shadow;
        let patient = self.patience(env.now).is_some();
        let Some(fleet) = env.gate.fleet.as_mut() else { return self.ask_here(true, env) };
        if let Some(glance) = fleet.glance(pool) {
            self.standings = glance.standings;
        }
        match answer {
            Ok(Answer::Taken(taken_at)) => {
                self.marker = None;
                let cost = Cost { concurrency: 1, ..ask.cost };
                self.claim = Claim::Fleet(Reservation { taken_at, flow: ask.flow, cost });
                self.pass(env)
            }
            Ok(Answer::Wait { wait, told, reason }) => {
                self.marker = None;
                let booking = Booking { fingerprint: ask.fingerprint, flow: ask.flow, wait, told };
                if shadow {
                    env.gate.cancel(env.store, pool, booking, env.now, env.recorder);
                }
                self.refuse(booking, reason, true, env)
            }
            Ok(_) => {
                env.recorder.anomaly(Anomaly::FleetGarbled);
                self.ask_here(true, env)
            }
            Err(cause) if fleet.is_well() && !core::mem::replace(&mut self.asked_twice, true) => {
                // The store answers others: asked again under its marker, it says what it decided.
                env.recorder.anomaly(cause);
                self.question(true, env).map_or_else(|| self.ask_here(true, env), Verdict::Consult)
            }
            Err(cause) => {
                // A refusal by this Envoy alone would be told a poor time and lose the place in the fleet's queue, so after
                // a single missed answer the same is asked once more; who may pass is not held for that.
                self.once_more = cause == Anomaly::FleetUnreachable
                    && fleet.missed_once()
                    && patient
                    && !core::mem::replace(&mut self.asked_twice, true);
                env.recorder.anomaly(cause);
                self.ask_here(true, env)
            }
        }
    }

    /// The call leaves while its decision is asked for.
    pub(crate) fn give_up_asking(&mut self, env: &mut Env<'_>) {
        let asked = self.priced.as_ref().map(|priced| (priced.pool, priced.ask));
        if let (Some((pool, ask)), Some(marker), Some(fleet)) =
            (asked, self.marker.take(), env.gate.fleet.as_mut())
        {
            fleet.undo(pool, marker, &ask, env.recorder);
        }
    }
}
