//! Writes that could not be made yet: tried again at the tick.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Gatekeeper, Lesson};
use crate::gate::{Ask, Booking, Reservation, Settlement, SharedStore, TransactError, charge, settle};
use crate::observe::{Anomaly, Recorder};
use crate::session::fleet::Fleet;
use crate::units::{Cost, Span, Timestamp};

/// Most writes that may wait; a call holds one at most two times.
const MAX_OWED: usize = 4_096;
/// What passed longer ago than this is not charged any more: it has left every window and every bucket has refilled.
/// Charging it now would punish callers for a fault of the store that is over.
const STALE: Span = Span::from_secs(60);
/// Owed writes tried per tick, so that a tick stays short.
const OWED_PER_TICK: usize = 32;

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
    pub(crate) fn new(ask: &Ask, at: Timestamp) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { ask: *ask, at, written: None, ended: None }))
    }

    /// What is to be charged.
    pub(crate) const fn ask(&self) -> Ask {
        self.ask
    }

    /// How long ago the call passed; zero when the host had no time then.
    pub(crate) fn age(&self, now: Timestamp) -> Span {
        if self.at == Timestamp::EPOCH { Span::ZERO } else { now.since(self.at) }
    }

    /// True when the call passed so long ago that it counts no more.
    pub(crate) fn is_old(&self, now: Timestamp, age: Span) -> bool {
        now.since(self.at) >= age
    }

    /// True when the call never reached its provider.
    pub(crate) fn is_unused(&self) -> bool {
        self.ended == Some(Settlement::Unused)
    }

    /// The call ended like this: what was written for it, when something was; else the charge is told of it.
    pub(super) const fn end(&mut self, how: Settlement) -> Option<Reservation> {
        if self.written.is_none() {
            self.ended = Some(how);
        }
        self.written
    }

    /// The charge was written at that moment. Says how the call ended when it has.
    pub(crate) fn written_at(&mut self, taken_at: Timestamp) -> Option<(Reservation, Settlement)> {
        let slots = self.ask.cost.concurrency.min(1);
        let cost = Cost { concurrency: slots, ..self.ask.cost };
        let reservation = Reservation { taken_at, flow: self.ask.flow, cost };
        self.written = Some(reservation);
        self.ended.map(|how| (reservation, how))
    }
}

#[derive(Debug)]
pub(super) enum Owed {
    Charge { pool: usize, charge: Rc<RefCell<OwedCharge>> },
    Settle { pool: usize, reservation: Reservation, how: Settlement, lesson: Lesson },
    Cancel { pool: usize, booking: Booking },
}

/// False where trying again is in vain: a newer version has taken the ledger over since.
pub(super) fn may_pass(error: &TransactError) -> bool {
    *error != TransactError::Newer
}

impl Gatekeeper {
    pub(super) fn owe(&mut self, owed: Owed, recorder: &mut dyn Recorder) {
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
        self.fleet.as_ref().map_or(0, Fleet::waiting)
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
                .filter(may_pass)
                .map(|_| Owed::Settle { pool, reservation, how, lesson }),
            Owed::Cancel { pool, booking } => self
                .try_cancel(store, pool, &booking, now)
                .err()
                .filter(may_pass)
                .map(|_| Owed::Cancel { pool, booking }),
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
            Err(error) => may_pass(&error).then_some(Owed::Charge { pool, charge: owed }),
        }
    }
}
