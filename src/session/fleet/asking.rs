//! Decisions that are asked of the store, and what it answers: one in a request, or several of a pool together.

use super::{CALM, Fleet, MOST_DOUBT, MOST_STRAIN, UNKNOWN_STRAIN, known};
use crate::fleet::webdis::Reply;
use crate::fleet::wire::{Answer, Glance, Operation};
use crate::gate::{Ask, Policy};
use crate::hash::{combine, hash64};
use crate::observe::Anomaly;
use crate::units::Timestamp;

/// A decision to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Number of its pool.
    pub pool: usize,
    /// Tells it from all other operations.
    pub marker: String,
    /// As an argument of the script.
    pub operation: String,
}

impl Question {
    /// Asks to admit or book a call.
    pub fn new(pool: usize, marker: String, ask: &Ask) -> Self {
        Self { pool, marker, operation: Operation::Admit(ask).encode() }
    }
}

impl Fleet {
    /// The command that asks for decisions, all of one pool; with `load`, the script goes along.
    pub fn asked(&self, load: bool, policy: &Policy, questions: &[Question]) -> String {
        let pool = questions.first().map_or(0, |question| question.pool);
        let markers: Vec<&str> = questions.iter().map(|question| question.marker.as_str()).collect();
        let operations: Vec<(&str, &str)> = questions
            .iter()
            .map(|question| (question.marker.as_str(), question.operation.as_str()))
            .collect();
        self.command(load, pool, policy, self.nonce(pool, &markers, Timestamp::EPOCH), &operations)
    }

    /// The number that an answer to these markers, sent at that moment, bears. Webdis may write an answer whose asker has left to
    /// whoever has its connection now.
    pub(super) fn nonce(&self, pool: usize, markers: &[&str], sent: Timestamp) -> u64 {
        let key = self.views.get(pool).map_or("", |view| view.key.as_str());
        let seed = combine(combine(self.worker, hash64(0, key.as_bytes())), sent.as_micros());
        let hash = markers.iter().fold(seed, |hash, marker| combine(hash, hash64(0, marker.as_bytes())));
        // Whole in a double, and never 0.
        (hash >> 13) | 1
    }

    /// Takes in the answer to decisions of one pool: a line for each, and one that says how the pool is.
    ///
    /// # Errors
    /// Why it is no answer; the store is then taken to be unwell until heartbeats are answered in time, the first of which
    /// goes out at the next tick: a single answer that was lost costs next to nothing. One that was lost among many in time
    /// says nothing of the store, which then stays well.
    pub fn hear(
        &mut self,
        pool: usize,
        policy: &Policy,
        markers: &[&str],
        reply: Option<Reply>,
        now: Timestamp,
    ) -> Result<Vec<Answer>, Anomaly> {
        let nonce = self.nonce(pool, markers, Timestamp::EPOCH);
        let heard = self.understand(pool, policy, nonce, reply, now).and_then(|answers| {
            (answers.len() == markers.len()).then_some(answers).ok_or(Anomaly::FleetGarbled)
        });
        if heard.is_ok() {
            (self.calm, self.strain) = (self.calm.saturating_add(1), self.strain.saturating_sub(1));
        } else {
            self.miss(pool, now);
        }
        heard
    }

    /// A decision was missed: is that the store, or its way?
    fn miss(&mut self, pool: usize, now: Timestamp) {
        let lost = self.strain <= MOST_STRAIN && self.answers_others(now);
        self.strain = self.strain.saturating_add(CALM);
        if !self.well {
            return;
        }
        if !lost {
            self.doubt = if self.calm < CALM { self.doubt.saturating_mul(2).saturating_add(1) } else { 1 };
            self.doubt = self.doubt.min(MOST_DOUBT);
            self.part(pool);
        }
        self.calm = 0;
    }

    /// True when what was asked after a question that is given up at `now` was answered meanwhile.
    fn answers_others(&self, now: Timestamp) -> bool {
        let half = self.timeout.as_micros().checked_div(2).unwrap_or(0);
        now.since(self.heard).as_micros() < half
    }

    /// The store is not well any more; whether it still is not is asked at once.
    pub(super) fn part(&mut self, pool: usize) {
        let was_reached = core::mem::replace(&mut self.reached, false);
        if core::mem::replace(&mut self.well, false) {
            self.views.iter_mut().for_each(|view| view.parted = false);
        }
        self.wanted = self.doubt.max(1);
        self.strain = UNKNOWN_STRAIN;
        if let Some(view) = self.views.get_mut(pool).filter(|_| was_reached) {
            view.beat_due = true;
        }
    }

    pub(super) fn understand(
        &mut self,
        pool: usize,
        policy: &Policy,
        nonce: u64,
        reply: Option<Reply>,
        now: Timestamp,
    ) -> Result<Vec<Answer>, Anomaly> {
        match reply {
            None => Err(Anomaly::FleetUnreachable),
            Some(Reply::Foreign) => Err(Anomaly::FleetForeign),
            Some(Reply::Refused | Reply::NoScript) => Err(Anomaly::FleetRefused),
            Some(Reply::Garbled) => Err(Anomaly::FleetGarbled),
            Some(Reply::Lines(lines)) => {
                self.read(pool, policy, nonce, &lines, now).ok_or(Anomaly::FleetGarbled)
            }
        }
    }

    fn read(
        &mut self,
        pool: usize,
        policy: &Policy,
        nonce: u64,
        lines: &[String],
        now: Timestamp,
    ) -> Option<Vec<Answer>> {
        let (last, lines) = lines.split_last()?;
        let answers: Option<Vec<Answer>> = lines.iter().map(|line| Answer::read(line)).collect();
        let glance = Glance::read(&policy.limits, last)?;
        // The script gives back what was sent; an answer without can be that of no other request.
        if glance.nonce != 0 && glance.nonce != nonce {
            return None;
        }
        let view = self.views.get_mut(pool)?;
        if glance.upstream != view.glance.upstream {
            view.upstream = known(&glance.upstream);
        }
        (view.glance, view.seen) = (glance, now);
        self.heard = now;
        answers
    }
}
