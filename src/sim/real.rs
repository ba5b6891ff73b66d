//! The gate itself as a gatekeeper: each decision reads, decodes, decides, encodes and writes the shared value, as in
//! the filter, and some writes of one worker collide with another's.

use crate::config::Learn;
use crate::gate::{
    Decision, Policy, Reservation, Scratch, Settlement, TransactError, admit, charge, settle, transact,
};
use crate::sim::gatekeeper::{Answer, Gatekeeper, Knock, Turn};
use crate::testing::shared_data::{Fate, Operation, SharedData};
use crate::units::{Cost, Span, Timestamp};
use crate::upstream::{Throttle, ThrottleKind};

const KEY: &str = "bp.pool";
const ATTEMPTS: u32 = 8;
/// What a pool learns from a provider by default. The simulated one tells no limit headers.
const LEARN: Learn = Learn { headers: true, pause_on_429: true, adapt: false };
const LONGEST_PAUSE: Span = Span::from_secs(59);

/// The gate, as several workers of one proxy share it.
#[derive(Debug)]
pub struct RealGate {
    policy: Policy,
    store: SharedData,
    /// Buffers of each worker.
    workers: Vec<Scratch>,
    /// Calls that passed because the state could not be used.
    pub failed_open: u64,
    /// Largest value stored so far, in bytes.
    pub largest_value: usize,
}

impl RealGate {
    /// An idle pool shared by this many workers; every `collision`-th write (0: none) finds that another worker was
    /// faster.
    pub fn new(policy: Policy, workers: usize, collision: u64) -> Self {
        let mut store = SharedData::new();
        let mut writes = 0_u64;
        if collision > 0 {
            store.set_hook(move |operation, _| {
                writes += u64::from(operation == Operation::Set);
                let collides = operation == Operation::Set && writes.is_multiple_of(collision);
                if collides { Fate::Mismatch } else { Fate::Pass }
            });
        }
        let workers = (0..workers).map(|_| Scratch::default()).collect();
        Self { policy, store, workers, failed_open: 0, largest_value: 0 }
    }

    fn transact<T>(
        &mut self,
        worker: usize,
        now: Timestamp,
        change: impl Fn(&mut crate::gate::Ledger, &Policy) -> T,
    ) -> Result<T, TransactError> {
        let (policy, scratch) = (&self.policy, &mut self.workers[worker]);
        let outcome = transact(&mut self.store, scratch, KEY, ATTEMPTS, now, |ledger| change(ledger, policy));
        self.largest_value = self.largest_value.max(self.store.value(KEY).map_or(0, <[u8]>::len));
        outcome
    }
}

impl Gatekeeper for RealGate {
    fn name(&self) -> &'static str {
        if self.policy.strict_window { "this gate, strict window" } else { "this gate" }
    }

    fn call(&mut self, knock: &Knock, now: Timestamp) -> Answer {
        let ask = &knock.ask;
        match self.transact(knock.worker, now, |ledger, policy| admit(ledger, policy, ask, now)) {
            Ok(Decision::Admit(reservation)) => Answer::Pass(Some(reservation)),
            Ok(Decision::Wait(booking, _)) => {
                Answer::Later(Some(Turn { wait: booking.wait, told: booking.told }))
            }
            Err(_) => {
                self.failed_open += 1;
                let charged =
                    self.transact(knock.worker, now, |ledger, policy| charge(ledger, policy, ask, now));
                Answer::Pass(charged.ok())
            }
        }
    }

    fn end(&mut self, worker: usize, reservation: &Reservation, settlement: Settlement, now: Timestamp) {
        let settled = self.transact(worker, now, |ledger, policy| {
            let at = ledger.time(now);
            ledger.upstream.on_success(&LEARN, reservation.taken_at, at);
            settle(ledger, policy, reservation, settlement, now)
        });
        self.failed_open += u64::from(settled.is_err());
    }

    fn refused(&mut self, worker: usize, reservation: &Reservation, now: Timestamp) {
        let throttle = Throttle { retry_after: None, kind: ThrottleKind::RateLimited };
        let counted = Settlement::Actual(Cost { requests: 1, ..Cost::default() });
        let settled = self.transact(worker, now, |ledger, policy| {
            let at = ledger.time(now);
            ledger.upstream.on_throttle(&throttle, &LEARN, LONGEST_PAUSE, at);
            settle(ledger, policy, reservation, counted, now)
        });
        self.failed_open += u64::from(settled.is_err());
    }

    fn reload(&mut self, policy: &Policy, _: Timestamp) {
        self.policy = policy.clone();
    }
}
