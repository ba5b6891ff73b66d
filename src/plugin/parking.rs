//! Calls held back inside Envoy, per pool in the order of their turns.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::session::Session;
use crate::units::{Span, Timestamp};

/// How often the first waiting call of a pool is tried before its turn: capacity may come back early, by a
/// settlement that used less or by a call that ended.
const EARLY_TRY: Span = Span::from_millis(25);

/// A held call.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) context: u32,
    pub(super) session: Weak<RefCell<Session>>,
}

#[derive(Debug, Default)]
struct PoolLine {
    /// By turn, then by context id, which is unique in a worker.
    line: VecDeque<(Timestamp, Held)>,
    tried_early: Timestamp,
}

impl PoolLine {
    /// Where a call with this turn stands, or would.
    fn place(&self, due: Timestamp, context: u32) -> usize {
        self.line.partition_point(|(other, held)| (*other, held.context) < (due, context))
    }

    fn next(&mut self, now: Timestamp) -> Option<Held> {
        let due = self.line.front()?.0;
        if due > now {
            // A clock that stepped back makes the last early try look like the future.
            let rested = now < self.tried_early || now.since(self.tried_early) >= EARLY_TRY;
            if !rested {
                return None;
            }
            self.tried_early = now;
        }
        self.line.pop_front().map(|(_, held)| held)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Parking {
    pools: Vec<PoolLine>,
    /// The pool to be asked next.
    turn: usize,
}

impl Parking {
    pub(super) fn new(pools: usize) -> Self {
        Self { pools: (0..pools).map(|_| PoolLine::default()).collect(), turn: 0 }
    }

    /// Number of calls held in a pool's line.
    pub(super) fn len(&self, pool: usize) -> usize {
        self.pools.get(pool).map_or(0, |line| line.line.len())
    }

    /// True when nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.pools.iter().all(|line| line.line.is_empty())
    }

    /// Puts a call into its pool's line.
    pub(super) fn hold(&mut self, pool: usize, due: Timestamp, context: u32, session: &Rc<RefCell<Session>>) {
        if let Some(line) = self.pools.get_mut(pool) {
            // Turns come in about this order, so little is moved.
            let at = line.place(due, context);
            line.line.insert(at, (due, Held { context, session: Rc::downgrade(session) }));
        }
    }

    /// Takes a call out of its line, because it left.
    pub(super) fn release(&mut self, pool: usize, due: Timestamp, context: u32) {
        if let Some(line) = self.pools.get_mut(pool) {
            let at = line.place(due, context);
            if line.line.get(at).is_some_and(|(_, held)| held.context == context) {
                line.line.remove(at);
            }
        }
    }

    /// Takes the next call to be tried: one whose turn has come, else now and then the first in a line. The pools take
    /// turns, so that one of which hundreds are ready does not hold up the others.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<(usize, Held)> {
        for _ in 0..self.pools.len() {
            let pool = if self.turn < self.pools.len() { self.turn } else { 0 };
            self.turn = pool.saturating_add(1);
            if let Some(held) = self.pools.get_mut(pool)?.next(now) {
                return Some((pool, held));
            }
        }
        None
    }

    /// Lets the first call of a pool be tried at once: the one before it just passed before its turn.
    pub(super) fn try_next_soon(&mut self, pool: usize) {
        if let Some(line) = self.pools.get_mut(pool) {
            line.tried_early = Timestamp::EPOCH;
        }
    }
}
