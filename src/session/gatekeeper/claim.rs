//! What a call took, and what becomes of it when the call ends.

use std::cell::RefCell;
use std::rc::Rc;

use super::owed::{Owed, OwedCharge};
use super::{Gatekeeper, Lesson, anomaly_of, teach};
use crate::gate::{Ask, Reservation, Settlement, SharedStore, Standings, TransactError, charge, settle};
use crate::observe::{Anomaly, Recorder};
use crate::units::Timestamp;

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

impl Gatekeeper {
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

    /// Lets a call of a fleet pass on what was lent to this worker, if that covers it.
    pub fn draw(
        &mut self,
        pool: usize,
        ask: &Ask,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Option<(Standings, Claim)> {
        let fleet = self.fleet.as_mut()?;
        let charge = fleet.draw(pool, ask, now, recorder)?;
        Some((fleet.glance(pool)?.standings, Claim::Owed(charge)))
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
            // Out of the store's reach the own ledger decides, so it has to know too; its own calls teach it below.
            if !fleet.is_well() && !matches!(claim, Claim::Alone(..)) {
                self.start_alone(store, pool, now);
                self.learn(store, pool, lesson, now, recorder);
            }
        }
        let reservation = match claim {
            Claim::Fleet(reservation) => {
                if let Some(fleet) = &mut self.fleet {
                    fleet.settle(pool, &reservation, how, recorder);
                }
                return;
            }
            Claim::Alone(reservation, charge) => {
                if let (Some(written), Some(fleet)) = (charge.borrow_mut().end(how), &mut self.fleet) {
                    fleet.settle(pool, &written, how, recorder);
                }
                reservation
            }
            Claim::None if self.fleet.is_some() => return,
            Claim::None => return self.learn(store, pool, lesson, now, recorder),
            Claim::Held(reservation) => reservation,
            Claim::Owed(charge) => {
                let Some(written) = charge.borrow_mut().end(how) else { return };
                if let Some(fleet) = &mut self.fleet {
                    fleet.settle(pool, &written, how, recorder);
                    return;
                }
                written
            }
        };
        match self.try_settle(store, pool, &reservation, how, lesson, now) {
            Ok(true) => recorder.anomaly(Anomaly::SettleLate),
            Ok(false) => {}
            // In a ledger of a newer version stands nothing that this one could settle.
            Err(TransactError::Newer) => recorder.anomaly(Anomaly::LedgerNewer),
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

    pub(super) fn try_settle(
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
}
