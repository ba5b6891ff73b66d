//! One configuration in one worker: what its calls share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::fleet::Callouts;
use super::host;
use super::meters::{Gauge, Meters};
use super::parking::Parking;
use super::questions::Questions;
use super::shared::HostStore;
use super::watch::Watch;
use crate::gate::{Expected, SharedStore as _, Summary};
use crate::hash::hash64;
use crate::observe::mood::Mood;
use crate::observe::parked::Tally;
use crate::session::suggestions::Suggestions;
use crate::session::{Env, Gatekeeper, Plan};
use crate::units::{Span, Timestamp};

const INFO: u32 = 2;
/// How often a changed number of held calls is told at most, between the slow ticks.
const REPORT: Span = Span::from_millis(50);
const PARKED_KEY: &str = "bp.parked";

/// See the module.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) plan: Rc<Plan>,
    pub(super) root: u32,
    /// Hash of the configuration's text.
    pub(super) digest: u64,
    /// Another living configuration allows something else in a pool of this one.
    pub(super) contested: Cell<bool>,
    pub(super) parking: RefCell<Parking>,
    pub(super) watch: Watch,
    pub(super) callouts: Callouts,
    pub(super) questions: RefCell<Questions>,
    /// `authorization` for the fleet's store.
    pub(super) basic: Option<String>,
    pub(super) tick_millis: Cell<u32>,
    last_now: Cell<Timestamp>,
    gate: RefCell<Gatekeeper>,
    suggestions: RefCell<Suggestions>,
    pub(super) meters: RefCell<Meters>,
    /// Pools that a newer configuration speaks for.
    superseded: RefCell<Vec<bool>>,
    /// State of each pool as last seen here.
    moods: RefCell<Vec<Mood>>,
    reported: RefCell<Reported>,
}

/// What this worker last told the others of its held calls.
#[derive(Debug, Default)]
struct Reported {
    /// Its number among them, while it holds any.
    id: u32,
    held: Vec<u32>,
    at: Timestamp,
}

/// Writes a line unless some worker already did so for this value of `key`. Best effort: when the host fails, silence.
pub(super) fn log_change(key: &str, value: &[u8], line: &str) {
    let mut known = Vec::new();
    let Ok(cas) = HostStore.get(key, &mut known) else { return };
    if cas.is_some() && known == value {
        return;
    }
    if HostStore.put(key, value, cas.map_or(Expected::Absent, Expected::Is)).is_ok() {
        host::log(INFO, line);
    }
}

/// A pool's name as workers tell it to each other.
fn low32(name: &str) -> u32 {
    u32::try_from(hash64(0, name.as_bytes()) >> 32).unwrap_or(0)
}

/// The host's clock as a moment.
pub(super) fn now() -> Option<Timestamp> {
    host::now_nanos().map(|nanos| Timestamp::from_micros(nanos.checked_div(1_000).unwrap_or(0)))
}

impl Worker {
    pub(super) fn new(plan: Rc<Plan>, root: u32, digest: u64) -> Self {
        Self {
            root,
            digest,
            contested: Cell::new(false),
            parking: RefCell::new(Parking::new(plan.pools.len())),
            watch: Watch::default(),
            callouts: Callouts::default(),
            questions: RefCell::default(),
            basic: super::fleet::basic(&plan.config),
            tick_millis: Cell::new(0),
            last_now: Cell::new(Timestamp::EPOCH),
            gate: RefCell::new(Gatekeeper::new(Rc::clone(&plan))),
            suggestions: RefCell::new(Suggestions::new(&plan)),
            meters: RefCell::new(Meters::new(Rc::clone(&plan))),
            superseded: RefCell::new(vec![false; plan.pools.len()]),
            moods: RefCell::new(vec![Mood::Whole; plan.pools.len()]),
            reported: RefCell::new(Reported { held: vec![0; plan.pools.len()], ..Reported::default() }),
            plan,
        }
    }

    /// Goes by its own plan.
    pub(super) fn lead(&self) {
        if let (Ok(mut gate), Ok(mut superseded)) =
            (self.gate.try_borrow_mut(), self.superseded.try_borrow_mut())
        {
            gate.follow(&self.plan);
            superseded.fill(false);
        }
    }

    /// True when another plan allows something else in a pool of this one.
    pub(super) fn disagrees_with(&self, other: &Plan) -> bool {
        let mut pools = self.plan.config.pools.iter().zip(&self.plan.pools);
        pools.any(|(pool, mine)| {
            let mut others = other.config.pools.iter().zip(&other.pools);
            others.any(|(its, theirs)| its.name == pool.name && theirs.policy != mine.policy)
        })
    }

    /// Goes by a newer plan for pools that it still names.
    pub(super) fn follow(&self, newer: &Plan) {
        if let (Ok(mut gate), Ok(mut superseded)) =
            (self.gate.try_borrow_mut(), self.superseded.try_borrow_mut())
        {
            gate.follow(newer);
            for (pool, flag) in self.plan.config.pools.iter().zip(superseded.iter_mut()) {
                *flag |= newer.config.pools.iter().any(|other| other.name == pool.name);
            }
        }
    }

    /// Logs when a pool was paused, lowered or made whole since it was last looked at; once for all workers.
    pub(super) fn note_mood(&self, pool: usize, summary: &Summary) {
        let mood = Mood::of(summary);
        let Ok(mut moods) = self.moods.try_borrow_mut() else { return };
        let (Some(last), Some(config)) = (moods.get_mut(pool), self.plan.config.pools.get(pool)) else {
            return;
        };
        if core::mem::replace(last, mood) != mood {
            let key = format!("bp.log.pool.{}", config.name);
            log_change(&key, &[mood.code()], &mood.line(&config.name, summary));
        }
    }

    /// Tells the other workers how many calls are held here, and sets the gauges to what all hold. Best effort. True while
    /// there is something left to tell.
    pub(super) fn report_parked(&self, now: Timestamp, slow: bool) -> bool {
        let (Ok(parking), Ok(mut reported)) = (self.parking.try_borrow(), self.reported.try_borrow_mut())
        else {
            return false;
        };
        let count = |pool| u32::try_from(parking.len(pool)).unwrap_or(u32::MAX);
        let held: Vec<u32> = (0..self.plan.pools.len()).map(count).collect();
        let rested = now < reported.at || now.since(reported.at) >= REPORT;
        if !slow && (held == reported.held || !rested) {
            return held != reported.held;
        }
        reported.at = now;
        let mut value = Vec::new();
        let Ok(cas) = HostStore.get(PARKED_KEY, &mut value) else { return false };
        let mut tally = Tally::decode(&value, now);
        let any = |held: &[u32]| held.iter().any(|held| *held > 0);
        let names: Vec<u32> = self.plan.config.pools.iter().map(|pool| low32(&pool.name)).collect();
        if any(&held) || any(&reported.held) {
            if !any(&reported.held) {
                reported.id = tally.unused();
            }
            for (held, name) in held.iter().zip(&names) {
                tally.set(reported.id, *name, *held, now);
            }
            if HostStore.put(PARKED_KEY, &tally.encode(), cas.map_or(Expected::Absent, Expected::Is)).is_err()
            {
                return true;
            }
            reported.held = held;
        }
        let Ok(mut meters) = self.meters.try_borrow_mut() else { return false };
        for (pool, name) in names.iter().enumerate().filter(|(pool, _)| !self.is_superseded(*pool)) {
            meters.gauge(pool, Gauge::Parked, tally.total(*name));
        }
        false
    }

    /// True when a newer configuration reports this pool's gauges.
    pub(super) fn is_superseded(&self, pool: usize) -> bool {
        self.superseded.try_borrow().is_ok_and(|flags| flags.get(pool).copied().unwrap_or(false))
    }

    /// Runs one step of a call with everything it may use. `None` when the worker is in the middle of a step, which
    /// the host does not let happen.
    pub(super) fn step<T>(&self, now: Timestamp, step: impl FnOnce(&mut Env<'_>) -> T) -> Option<T> {
        self.last_now.set(now);
        let mut store = HostStore;
        let mut gate = self.gate.try_borrow_mut().ok()?;
        let mut suggestions = self.suggestions.try_borrow_mut().ok()?;
        let mut meters = self.meters.try_borrow_mut().ok()?;
        meters.at(now);
        Some(step(&mut Env {
            now,
            store: &mut store,
            gate: &mut gate,
            suggestions: &mut suggestions,
            recorder: &mut *meters,
        }))
    }

    /// The present moment; the last one known where the host gives none, so that an ending is never put into the past.
    pub(super) fn now_or_last(&self) -> Timestamp {
        let now = now().unwrap_or_else(|| self.last_now.get());
        self.last_now.set(now);
        now
    }

    /// Makes the next tick come after at most `millis` ms. The host restarts its timer at each call, so the period is
    /// only ever shortened from outside the tick; otherwise steady traffic would put the tick off for ever.
    pub(super) fn hurry(&self, millis: u32) {
        if self.tick_millis.get() == 0 || millis < self.tick_millis.get() {
            self.set_tick(millis);
        }
    }

    /// Posts to the fleet's store go out at the next tick, which is then soon.
    pub(super) fn hurry_if_owing(&self) {
        let now = self.last_now.get();
        let owing = self.gate.try_borrow().is_ok_and(|gate| {
            gate.fleet
                .as_ref()
                .is_some_and(|fleet| fleet.waiting() > 0 || fleet.tends_at(now).is_some_and(|at| at <= now))
        });
        if owing {
            self.hurry(super::root::FAST_TICK_MILLIS);
        }
    }

    /// Milliseconds until the leases want a tick; `None`: they want none.
    pub(super) fn tends_in(&self, now: Timestamp) -> Option<u32> {
        let at = self.gate.try_borrow().ok()?.fleet.as_ref()?.tends_at(now)?;
        u32::try_from(at.since(now).as_millis_ceil()).ok()
    }

    pub(super) fn set_tick(&self, millis: u32) {
        if self.tick_millis.replace(millis) != millis {
            host::set_tick_period(millis);
        }
    }
}
