//! What is posted: told to the store behind the calls, in batches, until it was taken.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Fleet, known};
use crate::fleet::webdis::Reply;
use crate::fleet::wire::{Answer, Operation};
use crate::gate::{Ask, Lease, Policy, Reservation, Settlement};
use crate::observe::{Anomaly, Recorder};
use crate::session::gatekeeper::{Lesson, OwedCharge};
use crate::units::{Cost, Span, Timestamp};

/// Most posts that may wait.
const MOST_POSTS: usize = 4_096;
/// Tries of one post: one that the store never takes must not hold up the others for ever.
const MOST_TRIES: u8 = 8;
/// Operations in one request.
const BATCH: usize = 24;
/// A charge that could not be posted for so long has left every window.
const STALE: Span = Span::from_secs(60);
/// A charge that is younger counts as one of now.
const LATE: Span = Span::from_millis(500);
/// Marker of the heartbeats.
const BEAT: &str = "n";

/// Something for the store that nobody waits for.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pool: usize,
    marker: String,
    operation: String,
    after: After,
    /// How often it was sent in vain, each time to a store that had just been well.
    tries: u8,
}

/// What is to be done when the store has taken a post.
#[derive(Clone, Debug)]
pub(super) enum After {
    Nothing,
    /// The reservation of this charge is known.
    Charged(Rc<RefCell<OwedCharge>>, Instead),
    /// This was learned at that moment; when somebody else taught the store meanwhile, it is learned again on top.
    Learned(Lesson, Timestamp),
    /// Something may have been lent, counting from this moment.
    Lent(Timestamp),
}

/// What is told in place of a charge that is not needed any more, because the call never reached its provider.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instead {
    Nothing,
    /// The decision of which nobody heard is taken back.
    Undo,
    /// Its part of the lease that ends then is given back.
    GiveBack(u64),
}

/// A request on its way: what was asked, and how to ask it again.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Index of the pool.
    pub pool: usize,
    posts: Vec<Post>,
    sent: Timestamp,
}

impl Fleet {
    /// The command of a batch.
    pub fn batch_command(&self, load: bool, batch: &Batch, policy: &Policy) -> String {
        let operations: Vec<(&str, &str)> =
            batch.posts.iter().map(|post| (post.marker.as_str(), post.operation.as_str())).collect();
        self.command(load, batch.pool, policy, self.nonce_of(batch), &operations)
    }

    fn nonce_of(&self, batch: &Batch) -> u64 {
        let markers: Vec<&str> = batch.posts.iter().map(|post| post.marker.as_str()).collect();
        self.nonce(batch.pool, &markers, batch.sent)
    }

    /// Number of posts that wait and may go out, with the heartbeats.
    pub fn waiting(&self) -> usize {
        let beats = self.views.iter().filter(|view| view.beat_due).count();
        if self.reached { self.posts.len().saturating_add(beats) } else { beats }
    }

    /// What is to go out next. While the store does not answer nothing but heartbeats does.
    pub fn next_batch(&mut self, now: Timestamp) -> Option<Batch> {
        if self.envoy == 0 {
            return None;
        }
        if self.well {
            self.tend(now);
        }
        // The one that was told last longest ago: none is forgotten behind another that is due again and again.
        let due = self.views.iter().enumerate().filter(|(_, view)| view.beat_due);
        let due = due.min_by_key(|(_, view)| view.beaten).map(|(pool, _)| pool);
        let first = if self.reached { self.posts.front().map(|post| post.pool) } else { None };
        let pool = due.or(first)?;
        let mut posts = Vec::new();
        if let Some(view) = self.views.get_mut(pool).filter(|view| view.beat_due) {
            (view.beat_due, view.beaten) = (false, now);
            let operation = Operation::Beat(self.envoy).encode();
            posts.push(Post { pool, marker: BEAT.to_owned(), operation, after: After::Nothing, tries: 0 });
        }
        while self.reached && posts.len() < BATCH && self.posts.front().is_some_and(|post| post.pool == pool)
        {
            posts.extend(self.posts.pop_front().and_then(|post| post.refreshed(now)));
        }
        (!posts.is_empty()).then_some(Batch { pool, posts, sent: now })
    }

    /// A batch was answered, or not.
    pub fn posted(
        &mut self,
        batch: Batch,
        policy: &Policy,
        reply: Option<Reply>,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) {
        let pool = batch.pool;
        let understood = self.understand(pool, policy, self.nonce_of(&batch), reply, now);
        // One line for each, or it was not the script that answered.
        let complete = |answers: &Vec<Answer>| answers.len() == batch.posts.len();
        match understood
            .and_then(|answers| complete(&answers).then_some(answers).ok_or(Anomaly::FleetGarbled))
        {
            Ok(answers) => {
                self.answered_after(pool, now.since(batch.sent));
                for (post, answer) in batch.posts.into_iter().zip(answers) {
                    self.done(post, answer, now, recorder);
                }
            }
            Err(cause) => {
                recorder.anomaly(cause);
                // Answers that came since then say more.
                if self.heard <= batch.sent {
                    self.part(pool);
                }
                for mut post in batch.posts.into_iter().rev().filter(|post| post.marker != BEAT) {
                    post.tries = post.tries.saturating_add(1);
                    if matches!(post.after, After::Lent(_)) {
                        // A lease that begins later than it is told of is of no use.
                        post.operation = Operation::Unlend.encode();
                        post.after = After::Nothing;
                        if let Some(view) = self.views.get_mut(pool) {
                            view.borrower.unheard(self.lease, now);
                        }
                    }
                    if post.tries < MOST_TRIES {
                        self.posts.push_front(post);
                    } else {
                        recorder.anomaly(Anomaly::OwedDropped);
                    }
                }
            }
        }
    }

    fn done(&mut self, post: Post, answer: Answer, now: Timestamp, recorder: &mut dyn Recorder) {
        match (post.after, answer) {
            (_, Answer::Envoys(count)) => self.envoys = count.max(1),
            (After::Charged(charge, _), Answer::Taken(at)) => {
                let ended = charge.borrow_mut().written_at(at);
                if let Some((reservation, how)) = ended {
                    self.settle(post.pool, &reservation, how, recorder);
                }
            }
            (After::Lent(from), Answer::Lent(lease)) => self.lent(post.pool, lease, from, now),
            (After::Learned(lesson, at), Answer::Learned(false, present)) => {
                if let Some(view) = self.views.get_mut(post.pool) {
                    view.upstream = known(&present);
                    view.glance.upstream = present;
                }
                self.learn(post.pool, lesson.aged(now.since(at)), now, recorder);
            }
            (_, Answer::Settled(settled)) if settled.late => recorder.anomaly(Anomaly::SettleLate),
            _ => {}
        }
    }

    pub(super) fn post(
        &mut self,
        pool: usize,
        marker: String,
        operation: &Operation<'_>,
        after: After,
        recorder: &mut dyn Recorder,
    ) {
        if self.posts.len() >= MOST_POSTS {
            self.posts.pop_front();
            recorder.anomaly(Anomaly::OwedDropped);
        }
        self.push(pool, marker, operation, after);
    }

    pub(super) fn push(&mut self, pool: usize, marker: String, operation: &Operation<'_>, after: After) {
        self.posts.push_back(Post { pool, marker, operation: operation.encode(), after, tries: 0 });
    }

    /// Posts a settlement.
    pub fn settle(
        &mut self,
        pool: usize,
        reservation: &Reservation,
        how: Settlement,
        recorder: &mut dyn Recorder,
    ) {
        let marker = self.marker();
        self.post(pool, marker, &Operation::Settle(reservation, how), After::Nothing, recorder);
    }

    /// Posts a charge, under the marker of the decision that was not heard.
    pub fn charge(
        &mut self,
        pool: usize,
        marker: Option<String>,
        charge: &Rc<RefCell<OwedCharge>>,
        recorder: &mut dyn Recorder,
    ) {
        let instead = if marker.is_some() { Instead::Undo } else { Instead::Nothing };
        let marker = marker.unwrap_or_else(|| self.marker());
        let ask = charge.borrow().ask();
        let after = After::Charged(Rc::clone(charge), instead);
        self.post(pool, marker, &Operation::Charge(&ask), after, recorder);
    }

    /// Posts a call that passed on a lease.
    pub(super) fn drawn(
        &mut self,
        pool: usize,
        ends: u64,
        charge: &Rc<RefCell<OwedCharge>>,
        recorder: &mut dyn Recorder,
    ) {
        let marker = self.marker();
        let ask = charge.borrow().ask();
        let after = After::Charged(Rc::clone(charge), Instead::GiveBack(ends));
        self.post(pool, marker, &Operation::Draw(&ask, ends), after, recorder);
    }

    /// Posts that nobody waits for this decision any more.
    pub fn undo(&mut self, pool: usize, marker: String, ask: &Ask, recorder: &mut dyn Recorder) {
        self.post(pool, marker, &Operation::Undo(ask), After::Nothing, recorder);
    }

    /// Posts any other operation.
    pub fn tell(&mut self, pool: usize, operation: &Operation<'_>, recorder: &mut dyn Recorder) {
        let marker = self.marker();
        self.post(pool, marker, operation, After::Nothing, recorder);
    }
}

impl Post {
    /// As it is to be sent now; `None`: not at all.
    fn refreshed(self, now: Timestamp) -> Option<Self> {
        let After::Charged(charge, instead) = &self.after else { return Some(self) };
        let (ask, unused) = (charge.borrow().ask(), charge.borrow().is_unused());
        if charge.borrow().is_old(now, STALE) {
            return None;
        }
        // One that was sent already may have been taken; then its answer is needed, to settle it.
        if !unused || self.tries > 0 {
            let age = charge.borrow().age(now);
            let late = age >= LATE && !matches!(instead, Instead::GiveBack(_));
            let operation = late.then(|| Operation::ChargeLate(&ask, age).encode());
            return Some(Self { operation: operation.unwrap_or(self.operation), ..self });
        }
        let operation = match instead {
            Instead::Nothing => return None,
            Instead::Undo => Operation::Undo(&ask).encode(),
            Instead::GiveBack(ends) => {
                let slots = ask.cost.concurrency.min(1);
                let amounts = Cost { concurrency: slots, ..ask.cost };
                Operation::GiveBack(&Lease { ends: *ends, amounts }).encode()
            }
        };
        Some(Self { operation, after: After::Nothing, ..self })
    }
}
