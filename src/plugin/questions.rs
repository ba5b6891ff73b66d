//! Decisions asked of the fleet's store: each by itself while the store is quick, together while it is busy.
//!
//! A worker has two requests of one call on their way, or one of several. What is asked beyond that gathers and goes out as one
//! request as soon as there is room, so that a busy store reads and writes a pool's state once for many decisions. How many
//! go together follows how long answers take: every worker of the fleet adds to the line before the store, and what comes
//! after the timeout is no answer. Requests for several calls go out from the tick or behind an answer to such a request:
//! they are the root's, which outlives the calls.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::fleet::{Pending, send};
use super::host;
use super::root::BACKLOG_TICK_MILLIS;
use super::verdict::{Resume, carry_out};
use super::worker::Worker;
use crate::fleet::webdis::Reply;
use crate::fleet::wire::Answer;
use crate::observe::Anomaly;
use crate::session::Session;
use crate::session::fleet::{Question, Together};
use crate::units::{Span, Timestamp};

/// Requests for decisions of one pool on their way at once.
const MOST_ON_WAY: usize = 2;

/// A call that waits for its decision.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    /// Its stream.
    context: u32,
    /// Its state; gone when the call is.
    session: Weak<RefCell<Session>>,
}

/// A request for decisions.
#[derive(Debug)]
pub(super) struct Asked {
    askers: Vec<Asker>,
    questions: Vec<Question>,
    sent: Timestamp,
    /// The script went along.
    loaded: bool,
}

impl Asked {
    /// False when all who asked have left.
    fn is_awaited(&self) -> bool {
        self.askers.iter().any(|asker| asker.session.strong_count() > 0)
    }

    fn pool(&self) -> usize {
        self.questions.first().map_or(0, |question| question.pool)
    }

    fn is_group(&self) -> bool {
        self.askers.len() > 1
    }
}

#[derive(Debug)]
enum Told {
    Answer(Result<Answer, Anomaly>),
    /// The question was not sent.
    Unasked,
}

/// What has gathered of one pool.
#[derive(Debug, Default)]
struct Gathered {
    line: VecDeque<Asker>,
    together: Together,
}

/// Questions that were not sent yet, by pool, and answers that were not passed on yet.
#[derive(Debug, Default)]
pub(super) struct Questions {
    gathered: Vec<Gathered>,
    told: VecDeque<(Asker, Told)>,
}

impl Questions {
    /// True when a tick is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.gathered.iter().all(|gathered| gathered.line.is_empty())
    }
}

/// Asks the store for a decision, now or soon. False: that did not work.
pub(super) fn consult(
    worker: &Worker,
    session: &Rc<RefCell<Session>>,
    context: u32,
    question: Question,
    now: Timestamp,
) -> bool {
    let pool = question.pool;
    let asker = Asker { context, session: Rc::downgrade(session) };
    let Ok(mut questions) = worker.questions.try_borrow_mut() else { return false };
    if questions.gathered.len() <= pool {
        questions.gathered.resize_with(worker.plan.pools.len(), Gathered::default);
    }
    let Some(gathered) = questions.gathered.get_mut(pool) else { return false };
    if gathered.line.is_empty() && has_room(worker, pool, now) {
        drop(questions);
        let asked = Asked { askers: vec![asker], questions: vec![question], sent: now, loaded: false };
        return ask(worker, asked, now).is_ok();
    }
    gathered.line.push_back(asker);
    worker.hurry(BACKLOG_TICK_MILLIS);
    true
}

fn timeout(worker: &Worker) -> Span {
    worker.plan.config.fleet.as_ref().map_or(Span::ZERO, |fleet| fleet.timeout)
}

/// True when another request for decisions of this pool may go out. One of several calls goes by itself, unless it takes so long
/// that it may be lost.
fn has_room(worker: &Worker, pool: usize, now: Timestamp) -> bool {
    let late = timeout(worker).as_micros() >> 1_u32;
    worker.callouts.try_borrow_mut().is_ok_and(|mut callouts| {
        // The host drops what a stream had sent when the stream ends.
        callouts.retain(|(_, pending)| !matches!(pending, Pending::Asked(asked) if !asked.is_awaited()));
        let mut on_way = 0_usize;
        for (_, pending) in callouts.iter() {
            if let Pending::Asked(asked) = pending
                && asked.pool() == pool
            {
                let fills = asked.is_group() && now.since(asked.sent).as_micros() < late;
                on_way = on_way.saturating_add(if fills { MOST_ON_WAY } else { 1 });
            }
        }
        on_way < MOST_ON_WAY
    })
}

/// Sends a request; gives it back when that did not work.
fn ask(worker: &Worker, asked: Asked, now: Timestamp) -> Result<(), Asked> {
    let patience = |asker: &Asker| asker.session.upgrade()?.try_borrow().ok()?.patience(now);
    let timeout = asked.askers.iter().filter_map(patience).min();
    let command = worker
        .step(now, |env| {
            let policy = env.gate.policy(asked.pool())?;
            Some(env.gate.fleet.as_ref()?.asked(asked.loaded, policy, &asked.questions))
        })
        .flatten();
    let (Some(timeout), Some(command)) = (timeout, command) else { return Err(asked) };
    let (Some(number), Ok(mut callouts)) =
        (send(worker, &command, timeout), worker.callouts.try_borrow_mut())
    else {
        return Err(asked);
    };
    callouts.push((number, Pending::Asked(asked)));
    Ok(())
}

/// Sends what has gathered. Only where the root is the one who sends.
pub(super) fn ask_gathered(worker: &Worker, now: Timestamp) {
    for pool in 0..worker.plan.pools.len() {
        while let Some(asked) = next(worker, pool, now) {
            if let Err(asked) = ask(worker, asked, now) {
                hear(worker, asked, None, now);
            }
        }
    }
}

/// The next request that may go out for a pool.
fn next(worker: &Worker, pool: usize, now: Timestamp) -> Option<Asked> {
    let has_room = has_room(worker, pool, now);
    let mut questions = worker.questions.try_borrow_mut().ok()?;
    let Questions { gathered, told } = &mut *questions;
    let Gathered { line, together } = gathered.get_mut(pool)?;
    let mut asked = Asked { askers: Vec::new(), questions: Vec::new(), sent: now, loaded: false };
    while asked.askers.len() < together.count() {
        let Some(asker) = line.pop_front() else { break };
        let Some(session) = asker.session.upgrade() else { continue };
        let question = session
            .try_borrow_mut()
            .ok()
            .and_then(|mut call| worker.step(now, |env| call.restated(env)).flatten());
        match question {
            Some(question) if has_room => {
                asked.askers.push(asker);
                asked.questions.push(question);
            }
            Some(_) => {
                line.push_front(asker);
                break;
            }
            None => told.push_back((asker, Told::Unasked)),
        }
    }
    (!asked.askers.is_empty()).then_some(asked)
}

/// A request was answered, or not (`None`).
pub(super) fn answered(worker: &Rc<Worker>, mut asked: Asked, reply: Option<Reply>, now: Timestamp) {
    let is_group = asked.is_group();
    let mut reply = reply;
    if reply == Some(Reply::NoScript) && !asked.loaded {
        asked.loaded = true;
        match ask(worker, asked, now) {
            Ok(()) => return,
            Err(unsent) => (asked, reply) = (unsent, None),
        }
    }
    hear(worker, asked, reply, now);
    // Behind a single call's request this is that call's time, and no other's.
    pass_on(worker, now, if is_group { super::root::SLICE } else { 1 });
    if is_group {
        host::set_effective_context(worker.root);
        ask_gathered(worker, now);
    }
    if worker.questions.try_borrow().is_ok_and(|questions| !questions.is_empty()) {
        worker.hurry(BACKLOG_TICK_MILLIS);
    }
}

/// Notes what a request brought for each call, before what is to be passed on already.
fn hear(worker: &Worker, asked: Asked, reply: Option<Reply>, now: Timestamp) {
    let mut heard = worker
        .step(now, |env| {
            let markers: Vec<&str> =
                asked.questions.iter().map(|question| question.marker.as_str()).collect();
            let policy = env.gate.policy(asked.pool())?.clone();
            Some(env.gate.fleet.as_mut()?.hear(asked.pool(), &policy, &markers, reply, now))
        })
        .flatten()
        .unwrap_or(Err(Anomaly::FleetUnreachable));
    let Ok(mut questions) = worker.questions.try_borrow_mut() else { return };
    if let Some(gathered) = questions.gathered.get_mut(asked.pool()) {
        gathered.together.adapt(now.since(asked.sent), heard.is_err(), timeout(worker));
    }
    for asker in asked.askers.into_iter().rev() {
        let answer = match &mut heard {
            Ok(answers) => answers.pop().ok_or(Anomaly::FleetGarbled),
            Err(cause) => Err(*cause),
        };
        questions.told.push_front((asker, Told::Answer(answer)));
    }
}

/// Passes answers on to at most so many calls; says to how many.
pub(super) fn pass_on(worker: &Rc<Worker>, now: Timestamp, most: usize) -> usize {
    let mut done = 0_usize;
    while done < most {
        let next =
            worker.questions.try_borrow_mut().ok().and_then(|mut questions| questions.told.pop_front());
        let Some((asker, told)) = next else { break };
        tell(worker, &asker, told, now);
        done = done.saturating_add(1);
    }
    done
}

fn tell(worker: &Rc<Worker>, asker: &Asker, told: Told, now: Timestamp) {
    let Some(session) = asker.session.upgrade() else { return };
    let verdict = session.try_borrow_mut().ok().and_then(|mut call| {
        worker.step(now, |env| match told {
            Told::Answer(answer) => call.told(answer, env),
            Told::Unasked => call.unasked(env),
        })
    });
    if let (Some(verdict), true) = (verdict, host::set_effective_context(asker.context)) {
        carry_out(worker, &session, asker.context, verdict, now, Resume::Answered);
    }
}
