//! The fleet's ledgers as one worker sees them: what is to be asked and posted, what was answered. No host calls.
//!
//! A decision is asked for by the call that needs it. Everything else (settlements, charges, lessons) is *posted*: it
//! waits here for the next tick and goes out in batches, again and again until the store has taken it. Each operation
//! has a marker, so that one which arrives twice, or after its answer was given up, takes nothing twice.

use std::collections::VecDeque;

use super::gatekeeper::Lesson;
use crate::config::{Config, Learn, Pool};
use crate::fleet::webdis;
use crate::fleet::wire::{self, Glance, Operation, hex, unhex};
use crate::gate::{Policy, Standings};
use crate::observe::Recorder;
use crate::units::{Limits, Span, Timestamp};
use crate::upstream::{LimitHints, UpstreamState};

mod asking;
mod borrower;
mod leases;
mod posts;
mod together;

pub use asking::Question;
use borrower::Borrower;
pub use posts::Batch;
use posts::{After, Post};
pub use together::Together;

/// Least time for the answer to a batch.
const PATIENCE: Span = Span::from_secs(1);
/// Heartbeats in a row that must be answered in time after a decision was missed: the more, the sooner it follows another.
const MOST_DOUBT: u8 = 15;
/// Decisions in time after which a missed one is a single one again.
const CALM: u8 = 8;
/// Strain up to which the next missed decision is one that was lost on its way, where others are answered: each missed one adds
/// [`CALM`], each in time takes 1 away.
const MOST_STRAIN: u8 = 2 * CALM;
/// Strain of a store of which little is known.
const UNKNOWN_STRAIN: u8 = 3 * CALM;
/// Time between two warnings that the store never answered.
const WARNINGS: Span = Span::from_secs(60);
/// Time between two heartbeats of a worker whose store is well. An Envoy is forgotten after three of them.
const BEATS: Span = Span::from_millis(2_750);

#[derive(Debug, Default)]
struct View {
    key: String,
    glance: Glance,
    /// When `glance` was taken, on this host's clock.
    seen: Timestamp,
    upstream: UpstreamState,
    beat_due: bool,
    beaten: Timestamp,
    /// Taken over by the own ledger since the store became unwell.
    parted: bool,
    limits: Limits,
    borrower: Borrower,
}

/// See the module.
#[derive(Debug)]
pub struct Fleet {
    views: Vec<View>,
    posts: VecDeque<Post>,
    /// How long a lease lasts; zero: never borrow.
    lease: Span,
    worker: u64,
    envoy: u64,
    count: u64,
    timeout: Span,
    /// Decisions are asked for.
    well: bool,
    /// Posts are answered, be it too late for a decision.
    reached: bool,
    /// Heartbeats to be answered in time until the store is well, and what that begins at.
    wanted: u8,
    doubt: u8,
    /// The last answer of any kind.
    heard: Timestamp,
    /// When it was last said that there never was one.
    warned: Timestamp,
    /// Decisions in time since one was missed.
    calm: u8,
    /// See [`MOST_STRAIN`].
    strain: u8,
    envoys: u64,
}

impl Fleet {
    /// The fleet of a configuration; `None` when it has none.
    pub fn new(config: &Config) -> Option<Self> {
        let fleet = config.fleet.as_ref()?;
        let view = |pool: &Pool| View {
            key: webdis::key(&fleet.prefix, &pool.name),
            limits: pool.limits,
            ..View::default()
        };
        Some(Self {
            views: config.pools.iter().map(view).collect(),
            posts: VecDeque::new(),
            lease: fleet.lease,
            worker: 0,
            envoy: 0,
            count: 0,
            timeout: fleet.timeout,
            well: true,
            reached: true,
            wanted: 0,
            doubt: 0,
            heard: Timestamp::EPOCH,
            warned: Timestamp::EPOCH,
            calm: 0,
            strain: UNKNOWN_STRAIN,
            envoys: 1,
        })
    }

    /// Gives this worker and its Envoy numbers that nobody else has.
    pub const fn identify(&mut self, worker: u64, envoy: u64) {
        self.worker = worker;
        self.envoy = envoy;
    }

    /// True before [`Self::identify`].
    pub const fn is_unknown(&self) -> bool {
        self.envoy == 0
    }

    /// True when decisions are asked for; false while the store is known to be unwell.
    pub const fn is_well(&self) -> bool {
        self.well && self.envoy != 0
    }

    /// How long the answer to a batch is waited for: nobody is held for it, and late is better than never.
    pub fn patience(&self) -> Span {
        self.timeout.max(PATIENCE)
    }

    /// True after a missed answer that was the first for a while.
    pub const fn missed_once(&self) -> bool {
        self.doubt <= 1
    }

    /// Envoys that share the store, as far as is known.
    pub const fn envoys(&self) -> u64 {
        self.envoys
    }

    /// True once a minute while the store never answered: of other Envoys nothing is known, so this one uses the whole limits.
    pub fn should_warn(&mut self, now: Timestamp) -> bool {
        let due = self.warned == Timestamp::EPOCH || now.since(self.warned) >= WARNINGS;
        let warns = self.heard == Timestamp::EPOCH && due;
        if warns {
            self.warned = now;
        }
        warns
    }

    /// A marker that no other operation has.
    pub fn marker(&mut self) -> String {
        self.count = self.count.wrapping_add(1);
        format!("{:x}{:x}", self.worker, self.count)
    }

    /// A pool as last told.
    pub fn glance(&self, pool: usize) -> Option<&Glance> {
        self.views.get(pool).filter(|view| view.seen > Timestamp::EPOCH).map(|view| &view.glance)
    }

    fn command(
        &self,
        load: bool,
        pool: usize,
        policy: &Policy,
        nonce: u64,
        operations: &[(&str, &str)],
    ) -> String {
        let key = self.views.get(pool).map_or("", |view| view.key.as_str());
        webdis::command(load, key, &format!("{}{nonce}", wire::policy(policy)), operations)
    }

    /// What the store was last known to hold, among how many, and what is known of the provider at which time of the
    /// store; once in each outage.
    pub(super) fn left_at_parting(
        &mut self,
        pool: usize,
        now: Timestamp,
    ) -> Option<(Standings, u64, UpstreamState, Timestamp)> {
        let at = self.time(pool, now);
        let view = self.views.get_mut(pool).filter(|view| view.seen > Timestamp::EPOCH)?;
        (!core::mem::replace(&mut view.parted, true)).then_some((
            view.glance.standings,
            self.envoys,
            view.upstream,
            at,
        ))
    }

    /// Makes the next batches carry a heartbeat where one is due: seldom while the store is well.
    pub fn beat(&mut self, now: Timestamp) {
        let pause = if self.well { BEATS } else { Span::ZERO };
        for view in &mut self.views {
            view.beat_due |= now.since(view.beaten) >= pause;
        }
    }

    /// A batch was answered: did that come in time for a decision as well?
    fn answered_after(&mut self, pool: usize, took: Span) {
        self.reached = true;
        if self.well {
            return;
        }
        if took > self.timeout {
            self.wanted = self.doubt;
            return;
        }
        self.wanted = self.wanted.saturating_sub(1);
        self.well = self.wanted == 0;
        if let Some(view) = self.views.get_mut(pool).filter(|_| !self.well) {
            view.beat_due = true;
        }
    }

    /// The store's time at `now`, as far as is known.
    fn time(&self, pool: usize, now: Timestamp) -> Timestamp {
        self.views.get(pool).map_or(now, |view| view.glance.now.after(now.since(view.seen)))
    }

    /// Learns what the end of a call teaches.
    pub fn learn(&mut self, pool: usize, lesson: Lesson, now: Timestamp, recorder: &mut dyn Recorder) {
        let at = self.time(pool, now);
        let Some(view) = self.views.get(pool) else { return };
        let mut state = view.upstream;
        if lesson.teach(&mut state, at) {
            self.replace(pool, state, After::Learned(lesson, now), recorder);
        }
    }

    /// Learns what the provider's headers say: lower remainders than the store's, and pauses.
    pub fn adopt(
        &mut self,
        pool: usize,
        hints: &LimitHints,
        learn: &Learn,
        ceiling: Span,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) {
        let at = self.time(pool, now);
        let Some(view) = self.views.get(pool) else { return };
        let mut state = view.upstream;
        let standings = view.glance.standings;
        // Amounts are of their moment: a store that is out of reach is not told of them later.
        let well = self.is_well();
        for resource in crate::units::Resource::PER_MINUTE {
            let lower = |remaining: &u64| {
                well && standings.get(resource).is_some_and(|standing| *remaining < standing.remaining)
            };
            if let Some(remaining) = hints.remaining.get(resource).filter(lower) {
                self.tell(pool, &Operation::Adopt(resource, remaining, *hints.reset.get(resource)), recorder);
            }
        }
        if state.on_hints(hints, learn, ceiling, at) {
            self.replace(pool, state, After::Nothing, recorder);
        }
    }

    fn replace(&mut self, pool: usize, state: UpstreamState, after: After, recorder: &mut dyn Recorder) {
        let Some(view) = self.views.get_mut(pool) else { return };
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        let new = hex(&bytes);
        let old = core::mem::replace(&mut view.glance.upstream, new.clone());
        view.upstream = state;
        let marker = self.marker();
        self.post(pool, marker, &Operation::Learn(&old, &new), after, recorder);
    }
}

fn known(upstream: &str) -> UpstreamState {
    unhex(upstream).and_then(|bytes| UpstreamState::decode(&bytes)).unwrap_or_default()
}
