//! The gate of one worker: transactions on the pools' shared ledgers, and what could not be written yet.
//!
//! A write that loses every race, or that meets a failing host, is *owed*: it waits here and is tried again at the
//! tick. The queue is bounded; a worker that dies loses it, which leaves reservations at their estimates.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::plan::Plan;
use crate::config::Learn;
use crate::gate::{
    Ask, Booking, Decision, Ledger, Policy, Reservation, Scratch, Settlement, SharedStore, Standings,
    Summary, TransactError, admit, cancel, charge, inspect, settle, standings, summary, transact,
};
use crate::observe::{Anomaly, Recorder};
use crate::units::{Span, Timestamp};
use crate::upstream::Throttle;

/// Most writes that may wait; a call holds one at most two times.
const MAX_OWED: usize = 4_096;
/// What passed longer ago than this is not charged any more: it has left every window and every bucket has refilled.
/// Charging it now would punish callers for a fault of the store that is over.
const STALE: Span = Span::from_secs(60);
/// Owed writes tried per tick, so that a tick stays short.
const OWED_PER_TICK: usize = 32;

/// What the store holds for a call.
#[derive(Clone, Debug)]
pub enum Claim {
    /// Nothing was taken.
    None,
    /// Taken and written.
    Held(Reservation),
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
    fn teach(&self, ledger: &mut Ledger, now: Timestamp) {
        match self {
            Self::None => {}
            Self::Success(learn, age) => {
                let at = ledger.time(now);
                ledger.upstream.on_success(learn, at.before(*age), at);
            }
            Self::Refusal(throttle, learn, ceiling) => {
                let at = ledger.time(now);
                ledger.upstream.on_throttle(throttle, learn, *ceiling, at);
            }
        }
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

impl Gatekeeper {
    /// A gate with nothing owed.
    pub fn new(plan: Rc<Plan>) -> Self {
        let policies = plan.pools.iter().map(|pool| pool.policy.clone()).collect();
        Self { plan, policies, scratch: Scratch::default(), owed: VecDeque::new() }
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

    /// What is left of a pool's limits, without changing anything.
    pub fn standings(&mut self, store: &mut dyn SharedStore, pool: usize, now: Timestamp) -> Standings {
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
        let (key, policy) = self.target(pool)?;
        inspect(store, &mut self.scratch, &key, now, |ledger| {
            (summary(ledger, &policy, now, most), standings(ledger, &policy, now))
        })
        .ok()
    }

    fn target(&self, pool: usize) -> Option<(String, Policy)> {
        Some((self.plan.pools.get(pool)?.ledger_key.clone(), self.policies.get(pool)?.clone()))
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
        let charge = Rc::new(RefCell::new(OwedCharge { ask: *ask, at: now, written: None, ended: None }));
        self.owe(Owed::Charge { pool, charge: Rc::clone(&charge) }, recorder);
        Claim::Owed(charge)
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
        let reservation = match claim {
            Claim::None => return self.learn(store, pool, lesson, now, recorder),
            Claim::Held(reservation) => reservation,
            Claim::Owed(charge) => {
                let mut charge = charge.borrow_mut();
                match charge.written {
                    Some(reservation) => reservation,
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
        if let Err(error) = self.with_ledger(store, pool, now, |ledger, _| lesson.teach(ledger, now)) {
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
            lesson.teach(ledger, now);
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
