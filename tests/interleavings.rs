//! Every schedule of two and three workers over a store with Envoy's compare-and-swap.
//!
//! A worker's step is one host call, a read or a write. All orders of the steps are played, with the very functions
//! that the filter runs; between two steps of one worker any number of steps of the others may fall.

mod gate_support;

use envoy_backpressure::gate::{
    Cas, Decision, Expected, Ledger, Policy, PutError, Reservation, Settlement, SharedStore, admit, settle,
    standings,
};
use envoy_backpressure::testing::shared_data::SharedData;
use envoy_backpressure::units::Timestamp;
use gate_support::*;

const KEY: &str = "bp.pool";

/// What a worker does, one after the other.
#[derive(Clone, Copy, Debug)]
enum Job {
    Admit {
        print: u64,
        llm_tokens: u64,
    },
    /// Settles the oldest reservation that this worker still holds.
    Settle {
        used: u64,
    },
    /// Goes on with other limits from here.
    Reload {
        requests: u64,
    },
}

#[derive(Clone)]
struct Worker {
    jobs: &'static [Job],
    policy: Policy,
    now: Timestamp,
    /// What the last read found, while its write is still to come.
    read: Option<(Ledger, Expected)>,
    held: Vec<Reservation>,
    admitted: u64,
    settled: u64,
    overrun: u64,
}

impl Worker {
    fn new(jobs: &'static [Job], policy: &Policy, now: u64) -> Self {
        let policy = policy.clone();
        Self { jobs, policy, now: at(now), read: None, held: vec![], admitted: 0, settled: 0, overrun: 0 }
    }

    /// One host call. False when there is nothing left to do.
    fn step(&mut self, store: &mut SharedData) -> bool {
        while let [Job::Reload { requests }, rest @ ..] = self.jobs {
            self.policy.limits.requests = Some(*requests);
            self.jobs = rest;
        }
        let [job, rest @ ..] = self.jobs else { return false };
        if let (Job::Settle { .. }, true) = (job, self.held.is_empty()) {
            self.jobs = rest;
            return self.step(store);
        }
        match self.read.take() {
            None => {
                let mut bytes = Vec::new();
                self.read = Some(match store.get(KEY, &mut bytes).unwrap() {
                    Some(Cas(number)) => (Ledger::decode(&bytes).unwrap(), Expected::Is(Cas(number))),
                    None => (Ledger::new(self.now), Expected::Absent),
                });
            }
            Some((mut ledger, expected)) => {
                let (mut admitted, mut settled) = (None, None);
                match *job {
                    Job::Admit { print, llm_tokens } => {
                        if let Decision::Admit(reservation) =
                            admit(&mut ledger, &self.policy, &ask(print, llm_tokens, 1), self.now)
                        {
                            admitted = Some(reservation);
                        }
                    }
                    Job::Settle { used } => {
                        let how = Settlement::Actual(cost(used));
                        settled = Some(settle(&mut ledger, &self.policy, &self.held[0], how, self.now));
                    }
                    Job::Reload { .. } => {}
                }
                let mut bytes = Vec::new();
                ledger.encode(&mut bytes);
                match store.put(KEY, &bytes, expected) {
                    Ok(()) => {
                        self.jobs = rest;
                        if let Some(reservation) = admitted {
                            self.admitted += reservation.cost.llm_tokens;
                            self.held.push(reservation);
                        }
                        if let Some(settled) = settled {
                            self.held.remove(0);
                            self.settled += settled.refunded.llm_tokens;
                            self.overrun += settled.overrun.llm_tokens;
                        }
                    }
                    Err(PutError::Mismatch) => {}
                    Err(PutError::Failed) => panic!("the fake does not fail"),
                }
            }
        }
        true
    }
}

/// Plays every schedule; `check` sees the end of each. Gives the number of schedules.
fn explore(workers: &[Worker], store: &Snapshot, check: &mut dyn FnMut(&[Worker], &Snapshot)) -> u64 {
    let mut schedules = 0;
    let mut any = false;
    for index in 0..workers.len() {
        let mut workers = workers.to_vec();
        let mut next = store.restore();
        if workers[index].step(&mut next) {
            any = true;
            schedules += explore(&workers, &Snapshot::of(&next), check);
        }
    }
    if !any {
        check(workers, store);
        return 1;
    }
    schedules
}

#[derive(Clone, Default)]
struct Snapshot {
    value: Option<(Vec<u8>, u32)>,
}

impl Snapshot {
    fn of(store: &SharedData) -> Self {
        Self { value: store.value(KEY).map(|value| (value.to_vec(), store.last_number)) }
    }

    fn restore(&self) -> SharedData {
        let mut store = SharedData::new();
        if let Some((value, number)) = &self.value {
            store.last_number = number.wrapping_sub(1);
            store.set_raw(KEY, value, 0).unwrap();
        }
        store
    }

    fn ledger(&self) -> Ledger {
        Ledger::decode(&self.value.as_ref().unwrap().0).unwrap()
    }
}

fn used(end: &Snapshot, policy: &Policy, limit: u64) -> u64 {
    limit - standings(&end.ledger(), policy, at(50)).llm_tokens.unwrap().remaining
}

#[test]
fn two_workers_admit_no_more_than_the_limit_and_lose_no_update() {
    const JOBS: &[Job] =
        &[Job::Admit { print: 1, llm_tokens: 400 }, Job::Admit { print: 2, llm_tokens: 400 }];
    const OTHER: &[Job] =
        &[Job::Admit { print: 3, llm_tokens: 400 }, Job::Admit { print: 4, llm_tokens: 400 }];
    let policy = policy(None, Some(1_000), 60, true);
    let workers = [Worker::new(JOBS, &policy, 10), Worker::new(OTHER, &policy, 12)];
    let schedules = explore(&workers, &Snapshot::default(), &mut |workers, end| {
        let admitted: u64 = workers.iter().map(|worker| worker.admitted).sum();
        assert_eq!(admitted, 800, "two of four fit");
        assert_eq!(used(end, &policy, 1_000), 800);
    });
    assert!(schedules > 60, "{schedules} schedules");
}

#[test]
fn a_refund_and_an_admission_at_once_lose_neither() {
    const JOBS: &[Job] = &[Job::Admit { print: 1, llm_tokens: 500 }, Job::Settle { used: 100 }];
    const OTHER: &[Job] = &[Job::Admit { print: 2, llm_tokens: 500 }, Job::Settle { used: 900 }];
    let policy = policy(None, Some(2_000), 60, true);
    let workers = [Worker::new(JOBS, &policy, 10), Worker::new(OTHER, &policy, 11)];
    let schedules = explore(&workers, &Snapshot::default(), &mut |workers, end| {
        let [one, other] = workers else { panic!() };
        assert_eq!((one.settled, other.overrun), (400, 400));
        assert_eq!(used(end, &policy, 2_000), 1_000);
    });
    assert!(schedules > 60, "{schedules} schedules");
}

#[test]
fn three_workers_share_a_limit_of_one() {
    const JOBS: [&[Job]; 3] = [
        &[Job::Admit { print: 1, llm_tokens: 700 }],
        &[Job::Admit { print: 2, llm_tokens: 700 }],
        &[Job::Admit { print: 3, llm_tokens: 700 }],
    ];
    let policy = policy(None, Some(1_000), 60, true);
    let workers = JOBS.map(|jobs| Worker::new(jobs, &policy, 10));
    let schedules = explore(&workers, &Snapshot::default(), &mut |workers, end| {
        assert_eq!(workers.iter().filter(|worker| worker.admitted > 0).count(), 1);
        assert_eq!(used(end, &policy, 1_000), 700);
    });
    assert!(schedules > 90, "{schedules} schedules");
}

#[test]
fn an_expired_reservation_is_not_given_back_again() {
    const JOBS: &[Job] = &[Job::Settle { used: 0 }, Job::Admit { print: 8, llm_tokens: 1 }];
    const OTHER: &[Job] = &[Job::Admit { print: 9, llm_tokens: 1 }];
    let mut policy = policy(None, Some(1_000), 60, true);
    policy.limits.concurrency = Some(1);
    let mut ledger = Ledger::new(at(0));
    let Decision::Admit(lost) = admit(&mut ledger, &policy, &ask(1, 600, 1), at(0)) else { panic!() };
    let mut store = SharedData::new();
    let mut bytes = Vec::new();
    ledger.encode(&mut bytes);
    store.put(KEY, &bytes, Expected::Absent).unwrap();
    // Long after, one worker sees the end of the lost call while both admit.
    let mut workers = [Worker::new(JOBS, &policy, 700_000), Worker::new(OTHER, &policy, 700_001)];
    workers[0].held.push(lost);
    explore(&workers, &Snapshot::of(&store), &mut |workers, _| {
        assert_eq!(workers[0].settled, 0);
        assert_eq!(workers.iter().map(|worker| worker.admitted).sum::<u64>(), 1, "one slot");
    });
}

#[test]
fn a_reload_in_between_keeps_what_is_counted() {
    const JOBS: &[Job] = &[
        Job::Admit { print: 1, llm_tokens: 1 },
        Job::Reload { requests: 1 },
        Job::Admit { print: 2, llm_tokens: 1 },
    ];
    const OTHER: &[Job] = &[Job::Admit { print: 3, llm_tokens: 1 }, Job::Admit { print: 4, llm_tokens: 1 }];
    let policy = policy(Some(2), None, 60, true);
    let workers = [Worker::new(JOBS, &policy, 10), Worker::new(OTHER, &policy, 11)];
    explore(&workers, &Snapshot::default(), &mut |workers, end| {
        let admitted: u64 = workers.iter().map(|worker| worker.admitted).sum();
        assert!((1..=2).contains(&admitted), "never a fresh pool");
        let left = standings(&end.ledger(), &policy, at(50)).requests.unwrap().remaining;
        assert_eq!(left, 2 - admitted);
    });
}
