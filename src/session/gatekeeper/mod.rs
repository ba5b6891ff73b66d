//! The gate of one worker: transactions on the pools' shared ledgers, and what could not be written yet.
//!
//! A write that loses every race, or that meets a failing host, is *owed*: it waits here and is tried again at the
//! tick. The queue is bounded; a worker that dies loses it, which leaves reservations at their estimates.

use std::collections::VecDeque;
use std::rc::Rc;

use super::admission::shadow::WouldHold;
use super::fleet::Fleet;
use super::plan::Plan;
use crate::config::Learn;
use crate::fleet::Operation;
use crate::gate::{
    Ask, Booking, Decision, Ledger, Policy, Scratch, SharedStore, Standings, Summary, TransactError, admit,
    adopt_remaining, cancel, inspect, standings, summary, transact,
};
use crate::observe::{Anomaly, Recorder};
use crate::units::{Resource, Span, Timestamp};
use crate::upstream::LimitHints;

mod alone;
mod claim;
mod lesson;
mod owed;

pub use claim::Claim;
pub use lesson::Lesson;
use lesson::teach;
use owed::Owed;
pub use owed::OwedCharge;

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
    /// What shadow mode counts as held back.
    pub would_hold: WouldHold,
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
        let fleet = Fleet::new(&plan.config);
        let would_hold = WouldHold::new(plan.pools.len());
        Self { plan, policies, scratch: Scratch::default(), owed: VecDeque::new(), fleet, would_hold }
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
        // A balancer takes who is refused here to any of them.
        let strangers = self.fleet.as_ref().is_some_and(|fleet| fleet.envoys() > 1);
        transact(store, &mut self.scratch, &target.ledger_key, self.plan.config.cas_attempts, now, |ledger| {
            ledger.count_on_nobody(strangers);
            change(ledger, policy)
        })
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
            if fleet.is_well() {
                return Ok(());
            }
            self.start_alone(store, pool, now);
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
        if self.try_cancel(store, pool, &booking, now).is_err_and(|error| owed::may_pass(&error)) {
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
}
