//! The gate of one worker: transactions on the pools' shared ledgers, and what could not be written yet.
//!
//! A write that loses every race, or that meets a failing host, is *owed*: it waits here and is tried again at the
//! tick. The queue is bounded; a worker that dies loses it, which leaves reservations at their estimates.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::fleet::Fleet;
use super::plan::Plan;
use crate::config::Learn;
use crate::fleet::Operation;
use crate::gate::{
    Ask, Booking, Decision, Ledger, Policy, Reservation, Scratch, Settlement, SharedStore, Standings,
    Summary, TransactError, admit, adopt_remaining, cancel, charge, inspect, settle, standings, summary,
    transact,
};
use crate::observe::{Anomaly, Recorder};
use crate::units::{Cost, PerResource, Resource, Span, Timestamp};
use crate::upstream::{LimitHints, Throttle, UpstreamState};

/// Most writes that may wait; a call holds one at most two times.
const MAX_OWED: usize = 4_096;
/// What passed longer ago than this is not charged any more: it has left every window and every bucket has refilled.
/// Charging it now would punish callers for a fault of the store that is over.
const STALE: Span = Span::from_secs(60);
/// An own ledger that was out of use for this long is left from an earlier outage of the fleet's store.
const REUNITED: Span = Span::from_secs(5);
/// Just less than a minute.
const SOON: Span = Span::from_millis(59_999);
/// Owed writes tried per tick, so that a tick stays short.
const OWED_PER_TICK: usize = 32;

/// What the store holds for a call.
#[derive(Clone, Debug)]
pub enum Claim {
    /// Nothing was taken.
    None,
    /// Taken and written.
    Held(Reservation),
    /// Taken from the fleet's ledger.
    Fleet(Reservation),
    /// Taken from this Envoy's own ledger because the fleet's was out of reach, where the charge waits to be posted.
    Alone(Reservation, Rc<RefCell<OwedCharge>>),
    /// Taken from nobody yet: the charge waits to be written.
    Owed(Rc<RefCell<OwedCharge>>),
}

/// What the end of a call teaches about the provider.
#[derive(Clone, Copy, Debug)]
pub enum Lesson {
    /// Nothing.
    None,
    /// It answered, and the answer began so long ago.
    Success(Learn, Span),
    /// It refused for load; no pause may be longer than the span.
    Refusal(Throttle, Learn, Span),
}

impl Lesson {
    /// Teaches what is known of a provider, at ledger time `at`. True when there is something new.
    pub(super) fn teach(&self, upstream: &mut UpstreamState, at: Timestamp) -> bool {
        let before = *upstream;
        match self {
            Self::None => {}
            Self::Success(learn, age) => {
                upstream.on_success(learn, at.before(*age), at);
            }
            Self::Refusal(throttle, learn, ceiling) => {
                upstream.on_throttle(throttle, learn, *ceiling, at);
            }
        }
        *upstream != before
    }
}

/// A charge on its way into the ledger.
#[derive(Clone, Debug)]
pub struct OwedCharge {
    ask: Ask,
    /// When the call passed.
    at: Timestamp,
    /// Set once it was written.
    written: Option<Reservation>,
    /// How the call ended, when that came first.
    ended: Option<Settlement>,
}

impl OwedCharge {
    /// A charge that nobody has written yet, for a call that passed at `at`.
    fn new(ask: &Ask, at: Timestamp) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { ask: *ask, at, written: None, ended: None }))
    }

    /// What is to be charged.
    pub(super) const fn ask(&self) -> Ask {
        self.ask
    }

    /// True when the call passed so long ago that it counts no more.
    pub(super) fn is_stale(&self, now: Timestamp, age: Span) -> bool {
        self.ended == Some(Settlement::Unused) || now.since(self.at) >= age
    }

    /// The charge was written at that moment. Says how the call ended when it has.
    pub(super) fn written_at(&mut self, taken_at: Timestamp) -> Option<(Reservation, Settlement)> {
        let slots = self.ask.cost.concurrency.min(1);
        let cost = Cost { concurrency: slots, ..self.ask.cost };
        let reservation = Reservation { taken_at, flow: self.ask.flow, cost };
        self.written = Some(reservation);
        self.ended.map(|how| (reservation, how))
    }
}

#[derive(Debug)]
enum Owed {
    Charge { pool: usize, charge: Rc<RefCell<OwedCharge>> },
    Settle { pool: usize, reservation: Reservation, how: Settlement, lesson: Lesson },
    Cancel { pool: usize, booking: Booking },
}

/// See the module.
#[derive(Debug)]
pub struct Gatekeeper {
    plan: Rc<Plan>,
    /// In the order of the pools; begins as the plan's, follows a reload.
    policies: Vec<Policy>,
    scratch: Scratch,
    owed: VecDeque<Owed>,
    /// The ledgers that are shared with other Envoys, when they are.
    pub fleet: Option<Fleet>,
}

/// Which anomaly a failed transaction is.
pub const fn anomaly_of(error: &TransactError) -> Anomaly {
    match error {
        TransactError::Contended => Anomaly::CasExhausted,
        TransactError::Corrupt => Anomaly::LedgerCorrupt,
        TransactError::Newer => Anomaly::LedgerNewer,
        TransactError::Host => Anomaly::HostCallFailed,
    }
}

fn teach(lesson: &Lesson, ledger: &mut Ledger, now: Timestamp) {
    let at = ledger.time(now);
    lesson.teach(&mut ledger.upstream, at);
}

impl Gatekeeper {
    /// A gate with nothing owed.
    pub fn new(plan: Rc<Plan>) -> Self {
        let policies = plan.pools.iter().map(|pool| pool.policy.clone()).collect();
        let fleet = Fleet::new(&plan.config);
        Self { plan, policies, scratch: Scratch::default(), owed: VecDeque::new(), fleet }
    }

    /// Goes by a newer plan for the pools that it still names: changed limits apply from the next decision, also to
    /// calls that began under the old configuration.
    pub fn follow(&mut self, newer: &Plan) {
        for (pool, policy) in self.plan.config.pools.iter().zip(&mut self.policies) {
            let named =
                newer.config.pools.iter().zip(&newer.pools).find(|(other, _)| other.name == pool.name);
            if let Some((_, replacement)) = named {
                policy.clone_from(&replacement.policy);
            }
        }
    }

    /// Decides one call. In shadow mode a call that would wait leaves no trace.
    ///
    /// # Errors
    /// Why no decision could be made; the call then passes and its cost is owed.
    pub fn admit(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        ask: &Ask,
        shadow: bool,
        now: Timestamp,
    ) -> Result<(Decision, Standings), TransactError> {
        self.with_ledger(store, pool, now, |ledger, policy| {
            let decision = admit(ledger, policy, ask, now);
            if let (true, Decision::Wait(booking, _)) = (shadow, &decision) {
                cancel(ledger, policy, booking, now);
            }
            (decision, standings(ledger, policy, now))
        })
    }

    /// What the pool allows to everybody together.
    pub fn policy(&self, pool: usize) -> Option<&Policy> {
        self.policies.get(pool)
    }

    /// What is left of a pool's limits, without changing anything.
    pub fn standings(&mut self, store: &mut dyn SharedStore, pool: usize, now: Timestamp) -> Standings {
        if let Some(glance) =
            self.fleet.as_ref().filter(|fleet| fleet.is_well()).and_then(|fleet| fleet.glance(pool))
        {
            return glance.standings;
        }
        let Some((key, policy)) = self.target(pool) else { return Standings::default() };
        inspect(store, &mut self.scratch, &key, now, |ledger| standings(ledger, &policy, now))
            .unwrap_or_default()
    }

    /// A pool at a glance, with at most `most` flows and upcoming returns, without changing anything.
    pub fn summary(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        most: usize,
        now: Timestamp,
    ) -> Option<(Summary, Standings)> {
        if let Some(glance) =
            self.fleet.as_ref().filter(|fleet| fleet.is_well()).and_then(|fleet| fleet.glance(pool))
        {
            let summary = Summary {
                in_flight: glance.in_flight,
                booked: glance.booked,
                paused: (glance.paused > Span::ZERO).then_some(glance.paused),
                scale_permille: glance.scale_permille,
                jain_permille: glance.jain_permille,
                ..Summary::default()
            };
            return Some((summary, glance.standings));
        }
        let (key, policy) = self.target(pool)?;
        inspect(store, &mut self.scratch, &key, now, |ledger| {
            (summary(ledger, &policy, now, most), standings(ledger, &policy, now))
        })
        .ok()
    }

    fn target(&self, pool: usize) -> Option<(String, Policy)> {
        let policy = self.policies.get(pool)?;
        Some((
            self.plan.pools.get(pool)?.ledger_key.clone(),
            self.alone(policy).unwrap_or_else(|| policy.clone()),
        ))
    }

    /// What this Envoy allows by itself while the fleet's ledger is out of reach: its part of the limits.
    fn alone(&self, policy: &Policy) -> Option<Policy> {
        let envoys = self.fleet.as_ref()?.envoys();
        let part = |limit: &Option<u64>| limit.map(|limit| limit.checked_div(envoys).unwrap_or(1).max(1));
        Some(Policy {
            limits: PerResource::from_fn(|resource| part(policy.limits.get(resource))),
            ..policy.clone()
        })
    }

    /// Runs any other change on a pool's ledger, once, best effort.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn with_ledger<T>(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        now: Timestamp,
        mut change: impl FnMut(&mut Ledger, &Policy) -> T,
    ) -> Result<T, TransactError> {
        let target = self.plan.pools.get(pool).ok_or(TransactError::Host)?;
        let policy = self.policies.get(pool).unwrap_or(&target.policy);
        let alone = self.alone(policy);
        let policy = alone.as_ref().unwrap_or(policy);
        transact(store, &mut self.scratch, &target.ledger_key, self.plan.config.cas_attempts, now, |ledger| {
            change(ledger, policy)
        })
    }

    /// Charges a call without asking: it passed while the gate was unwell, or more of it came than was seen.
    pub fn charge(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        ask: &Ask,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Claim {
        if self.fleet.is_some() {
            return self.owe_charge(pool, ask, now, recorder);
        }
        match self.with_ledger(store, pool, now, |ledger, policy| charge(ledger, policy, ask, now)) {
            Ok(reservation) => Claim::Held(reservation),
            Err(_) => self.owe_charge(pool, ask, now, recorder),
        }
    }

    /// Puts a charge off until the tick.
    pub fn owe_charge(
        &mut self,
        pool: usize,
        ask: &Ask,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Claim {
        let charge = OwedCharge::new(ask, now);
        if let Some(fleet) = &mut self.fleet {
            fleet.charge(pool, None, &charge, recorder);
            return Claim::Owed(charge);
        }
        self.owe(Owed::Charge { pool, charge: Rc::clone(&charge) }, recorder);
        Claim::Owed(charge)
    }

    /// Decides a call of a fleet by this Envoy's own ledger. `marker`: of the decision that was asked for and not heard.
    ///
    /// # Errors
    /// Why no decision could be made; the call then passes and its cost is owed.
    #[allow(clippy::too_many_arguments)]
    pub fn admit_alone(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        ask: &Ask,
        marker: Option<String>,
        shadow: bool,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Result<(Decision, Standings, Claim), TransactError> {
        recorder.anomaly(Anomaly::FleetAlone);
        self.start_alone(store, pool, now);
        let decided = self.admit(store, pool, ask, shadow, now);
        let taken = match &decided {
            Ok((Decision::Admit(reservation), _)) => Some(*reservation),
            _ => None,
        };
        let mut claim = Claim::None;
        if let Some(fleet) = &mut self.fleet {
            if let Some(reservation) = taken {
                let charge = OwedCharge::new(ask, now);
                fleet.charge(pool, marker, &charge, recorder);
                claim = Claim::Alone(reservation, charge);
            } else if let Some(marker) = marker {
                fleet.undo(pool, marker, ask, recorder);
            }
        }
        decided.map(|(decision, standings)| (decision, standings, claim))
    }

    /// Lets the own ledger begin with this Envoy's part of what the fleet's was last known to hold.
    fn start_alone(&mut self, store: &mut dyn SharedStore, pool: usize, now: Timestamp) {
        let Some((standings, envoys)) = self.fleet.as_mut().and_then(|fleet| fleet.left_at_parting(pool))
        else {
            return;
        };
        let _ = self.with_ledger(store, pool, now, |ledger, policy| {
            // What it admitted in an earlier outage was posted since, so the fleet's figures hold it.
            ledger.leave_behind(now, REUNITED);
            for resource in Resource::PER_MINUTE {
                if let Some(standing) = standings.get(resource) {
                    let remaining = standing.remaining.checked_div(envoys).unwrap_or(0);
                    // As what is free again within a minute: else a bucket that paces would begin in debt.
                    let reset = standing.reset.min(SOON);
                    adopt_remaining(ledger, policy, resource, remaining, Some(reset), now);
                }
            }
        });
    }

    /// Learns what the provider's headers say.
    ///
    /// # Errors
    /// Why it could not be written.
    #[allow(clippy::too_many_arguments)]
    pub fn adopt(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        hints: &LimitHints,
        learn: &Learn,
        ceiling: Span,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Result<(), TransactError> {
        if let Some(fleet) = &mut self.fleet {
            fleet.adopt(pool, hints, learn, ceiling, now, recorder);
            return Ok(());
        }
        self.with_ledger(store, pool, now, |ledger, policy| {
            for resource in Resource::PER_MINUTE {
                if let Some(remaining) = hints.remaining.get(resource) {
                    let reset = *hints.reset.get(resource);
                    adopt_remaining(ledger, policy, resource, *remaining, reset, now);
                }
            }
            let at = ledger.time(now);
            ledger.upstream.on_hints(hints, learn, ceiling, at);
        })
    }

    /// Settles a claim, and in the same write learns `lesson`. What cannot be written now is tried again at the tick. Consumes the claim, so that a call
    /// can be settled only once.
    pub fn settle(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        claim: Claim,
        (how, lesson): (Settlement, Lesson),
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) {
        if let Some(fleet) = &mut self.fleet {
            fleet.learn(pool, lesson, now, recorder);
        }
        let reservation = match claim {
            Claim::Fleet(reservation) => {
                if let Some(fleet) = &mut self.fleet {
                    fleet.settle(pool, &reservation, how, recorder);
                }
                return;
            }
            Claim::Alone(reservation, charge) => {
                let mut charge = charge.borrow_mut();
                charge.ended = Some(how);
                if let (Some(written), Some(fleet)) = (charge.written, &mut self.fleet) {
                    fleet.settle(pool, &written, how, recorder);
                }
                reservation
            }
            Claim::None if self.fleet.is_some() => return,
            Claim::None => return self.learn(store, pool, lesson, now, recorder),
            Claim::Held(reservation) => reservation,
            Claim::Owed(charge) => {
                let mut charge = charge.borrow_mut();
                match charge.written {
                    Some(reservation) => {
                        if let Some(fleet) = &mut self.fleet {
                            fleet.settle(pool, &reservation, how, recorder);
                            return;
                        }
                        reservation
                    }
                    None => {
                        charge.ended = Some(how);
                        return;
                    }
                }
            }
        };
        match self.try_settle(store, pool, &reservation, how, lesson, now) {
            Ok(true) => recorder.anomaly(Anomaly::SettleLate),
            Ok(false) => {}
            Err(_) => {
                recorder.anomaly(Anomaly::SettleDeferred);
                self.owe(Owed::Settle { pool, reservation, how, lesson }, recorder);
            }
        }
    }

    /// Learns without settling anything.
    fn learn(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        lesson: Lesson,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) {
        if matches!(lesson, Lesson::None) {
            return;
        }
        if let Err(error) = self.with_ledger(store, pool, now, |ledger, _| teach(&lesson, ledger, now)) {
            recorder.anomaly(anomaly_of(&error));
        }
    }

    fn try_settle(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        reservation: &Reservation,
        how: Settlement,
        lesson: Lesson,
        now: Timestamp,
    ) -> Result<bool, TransactError> {
        self.with_ledger(store, pool, now, |ledger, policy| {
            teach(&lesson, ledger, now);
            settle(ledger, policy, reservation, how, now).late
        })
    }

    /// Forgets the booking of a caller that went away while parked.
    pub fn cancel(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        booking: Booking,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) {
        if let Some(fleet) = self.fleet.as_mut().filter(|fleet| fleet.is_well()) {
            fleet.tell(pool, &Operation::Cancel(&booking), recorder);
            return;
        }
        if self.try_cancel(store, pool, &booking, now).is_err() {
            self.owe(Owed::Cancel { pool, booking }, recorder);
        }
    }

    fn try_cancel(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        booking: &Booking,
        now: Timestamp,
    ) -> Result<(), TransactError> {
        self.with_ledger(store, pool, now, |ledger, policy| cancel(ledger, policy, booking, now))
    }

    fn owe(&mut self, owed: Owed, recorder: &mut dyn Recorder) {
        if self.owed.len() >= MAX_OWED {
            self.owed.pop_front();
            recorder.anomaly(Anomaly::OwedDropped);
        }
        self.owed.push_back(owed);
    }

    /// Number of writes that wait.
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Number of posts that wait for the fleet's store and may go out.
    pub fn posts(&self) -> usize {
        self.fleet.as_ref().filter(|fleet| fleet.is_well()).map_or(0, Fleet::waiting)
    }

    /// Tries some of the owed writes again, oldest first. One that fails once more goes to the
    /// end of the line and stops the round, so that a pool that stays unwell cannot block the others.
    pub fn pay_owed(&mut self, store: &mut dyn SharedStore, now: Timestamp) {
        for _ in 0..OWED_PER_TICK {
            let Some(owed) = self.owed.pop_front() else { return };
            if let Some(still_owed) = self.pay(store, owed, now) {
                self.owed.push_back(still_owed);
                return;
            }
        }
    }

    fn pay(&mut self, store: &mut dyn SharedStore, owed: Owed, now: Timestamp) -> Option<Owed> {
        match owed {
            Owed::Charge { pool, charge } => self.pay_charge(store, pool, charge, now),
            Owed::Settle { pool, reservation, how, lesson } => self
                .try_settle(store, pool, &reservation, how, lesson, now)
                .err()
                .map(|_| Owed::Settle { pool, reservation, how, lesson }),
            Owed::Cancel { pool, booking } => {
                self.try_cancel(store, pool, &booking, now).err().map(|_| Owed::Cancel { pool, booking })
            }
        }
    }

    fn pay_charge(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        owed: Rc<RefCell<OwedCharge>>,
        now: Timestamp,
    ) -> Option<Owed> {
        let (ask, at, ended) = {
            let owed = owed.borrow();
            (owed.ask, owed.at, owed.ended)
        };
        // A call that passed when the host had no time yet is charged as one of now.
        let stale = at != Timestamp::EPOCH && now.since(at) >= STALE;
        if ended == Some(Settlement::Unused) || stale {
            return None;
        }
        // One transaction for both: a charge whose call has ended must not stay at its estimate.
        let written = self.with_ledger(store, pool, now, |ledger, policy| {
            let reservation = charge(ledger, policy, &ask, now);
            if let Some(how) = ended {
                settle(ledger, policy, &reservation, how, now);
            }
            reservation
        });
        match written {
            Ok(reservation) => {
                owed.borrow_mut().written = Some(reservation);
                None
            }
            Err(_) => Some(Owed::Charge { pool, charge: owed }),
        }
    }
}
