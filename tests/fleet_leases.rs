//! Leases: calls that pass on what was lent to their worker, and what the store knows of it afterwards.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod session_support;

use envoy_backpressure::fleet::webdis::{self, Reply};
use envoy_backpressure::observe::{Anomaly, Decided};
use envoy_backpressure::session::fleet::Batch;
use envoy_backpressure::session::{Session, Verdict};
use envoy_backpressure::testing::fleet_store::FleetStore;
use envoy_backpressure::units::Timestamp;
use session_support::*;

const LIMITS: (u64, u64) = (600, 120_000);

fn config(more: &str) -> String {
    let (requests, llm_tokens) = LIMITS;
    format!(
        r#"{{"fleet": {{"cluster": "store"{more}}}, "pools": [{{"name": "chat", "output_reserve": "max_tokens",
           "limits": {{"requests_per_minute": {requests}, "tokens_per_minute": {llm_tokens}}},
           "burst_seconds": 60, "max_wait_ms": 0}}]}}"#
    )
}

/// Workers of several Envoys over one store, all on one clock.
struct World {
    store: FleetStore,
    workers: Vec<Worker>,
    millis: u64,
    /// Commands that calls waited for.
    asked: u64,
}

impl World {
    fn new(workers: u64, more: &str) -> Self {
        let worker = |number| {
            let mut worker = Worker::with(&config(more));
            worker.gate.fleet.as_mut().unwrap().identify(number + 7, number + 11);
            worker
        };
        let workers = (0..workers).map(worker).collect();
        Self { store: FleetStore::new(), workers, millis: START, asked: 0 }
    }

    fn pass(&mut self, millis: u64) {
        self.millis += millis;
        for worker in &mut self.workers {
            worker.millis = self.millis;
        }
    }

    fn run(&mut self, command: &str) -> Reply {
        let answer = self.store.run(command, Timestamp::from_millis(self.millis));
        webdis::reply(b"200", answer.as_bytes())
    }

    /// A call, decided here or by the store.
    fn call(&mut self, worker: usize, max_output: u32) -> (Session, Verdict) {
        let (mut session, verdict) = self.workers[worker].send(&chat(max_output));
        let Verdict::Consult(question) = verdict else { return (session, verdict) };
        self.asked += 1;
        let mut reply = self.run(&self.workers[worker].written(false, &question));
        if reply == Reply::NoScript {
            reply = self.run(&self.workers[worker].written(true, &question));
        }
        let verdict = self.workers[worker].step(|env| session.heard(Some(reply), env));
        (session, verdict)
    }

    fn batch(&mut self, worker: usize) -> Option<(Batch, String)> {
        let worker = &mut self.workers[worker];
        let batch = worker.step(|env| env.gate.fleet.as_mut().unwrap().next_batch(env.now))?;
        let policy = worker.gate.policy(0).unwrap().clone();
        let command = worker.gate.fleet.as_ref().unwrap().batch_command(false, &batch, &policy);
        Some((batch, command))
    }

    fn posted(&mut self, worker: usize, batch: Batch, reply: Option<Reply>) {
        let worker = &mut self.workers[worker];
        let policy = worker.gate.policy(0).unwrap().clone();
        worker.step(|env| {
            env.gate.fleet.as_mut().unwrap().posted(batch, &policy, reply, env.now, env.recorder);
        });
    }

    /// What waits goes to the store.
    fn tick(&mut self, worker: usize) {
        while let Some((batch, command)) = self.batch(worker) {
            let reply = self.run(&command);
            self.posted(worker, batch, Some(reply));
        }
    }

    fn beat(&mut self, worker: usize) {
        let now = Timestamp::from_millis(self.millis);
        self.workers[worker].gate.fleet.as_mut().unwrap().beat(now);
    }

    /// Nobody calls, until no lease is held any more.
    fn rest(&mut self) {
        for _ in 0..60 {
            self.pass(50);
            for worker in 0..self.workers.len() {
                self.tick(worker);
            }
        }
    }

    fn operations(&self, kind: char) -> u64 {
        self.store.operations.get(&kind).copied().unwrap_or(0)
    }

    /// Requests and LLM tokens that the store would let pass now.
    fn left(&mut self) -> (u64, u64) {
        let policy = self.workers[0].gate.policy(0).unwrap().clone();
        let line = self.store.glance("bp:{chat}", &policy, Timestamp::from_millis(self.millis));
        let numbers: Vec<u64> = line.split(',').skip(1).map_while(|part| part.parse().ok()).collect();
        (numbers[1], numbers[3])
    }

    /// A call that asks the store, and a lease because of it.
    fn borrow(&mut self, worker: usize) -> Session {
        let (session, verdict) = self.call(worker, 50);
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        self.tick(worker);
        self.asked = 0;
        session
    }
}

#[test]
fn calls_pass_on_a_lease_without_the_store_and_its_figures_are_right_afterwards() {
    let mut world = World::new(1, "");
    let mut first = world.borrow(0);
    assert_eq!(world.operations('l'), 1);
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let (session, verdict) = world.call(0, 50);
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        sessions.push(session);
        world.pass(50);
        world.tick(0);
    }
    assert_eq!(world.asked, 0, "a second of steady calls, and none waited for the store");
    assert!((4..=12).contains(&world.operations('l')), "{:?}", world.store.operations);
    assert_eq!(world.operations('d'), 20);
    for session in sessions.iter_mut().chain([&mut first]) {
        world.workers[0].answer(session, "200", &usage(5, 20));
    }
    world.rest();
    assert_eq!(world.left(), (LIMITS.0 - 21, LIMITS.1 - 21 * 25));
    assert!(world.workers[0].counts.anomalies.is_empty());
}

#[test]
fn without_use_there_is_no_lease_and_nothing_is_idle() {
    let mut world = World::new(1, "");
    world.borrow(0);
    for _ in 0..100 {
        world.pass(50);
        world.tick(0);
    }
    let asked = world.operations('l');
    for _ in 0..100 {
        world.pass(50);
        world.tick(0);
    }
    assert_eq!(world.operations('l'), asked);
    assert_eq!(world.left().0, LIMITS.0 - 1);
    let fleet = world.workers[0].gate.fleet.as_ref().unwrap();
    assert_eq!(fleet.tends_at(Timestamp::from_millis(world.millis)), None);
}

#[test]
fn leases_can_be_switched_off() {
    let mut world = World::new(1, r#", "lease_ms": 0"#);
    for _ in 0..5 {
        world.call(0, 50);
        world.tick(0);
    }
    assert_eq!((world.asked, world.operations('l')), (5, 0));
}

#[test]
fn a_lease_is_given_back_when_somebody_waits() {
    let mut world = World::new(2, "");
    world.borrow(0);
    let mut refused = 0;
    for caller in 0..700 {
        refused += u32::from(matches!(world.call(1, 100 + caller % 9).1, Verdict::Answer(_)));
    }
    assert!(refused > 0);
    // The first one has not heard of it yet; what it holds is withdrawn already.
    assert!(matches!(world.call(0, 50).1, Verdict::Forward(_)));
    world.tick(0);
    world.tick(0);
    assert_eq!(world.operations('g'), 1);
    assert_eq!(world.asked, 700);
    assert!(matches!(world.call(0, 51).1, Verdict::Answer(_)));
    assert_eq!(world.asked, 701);
}

#[test]
fn a_caller_that_returns_to_a_worker_with_a_lease_leaves_no_booking() {
    let mut world = World::new(2, "");
    for _ in 0..600 {
        world.call(1, 50);
    }
    let (_, verdict) = world.call(1, 77);
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    let told = answer.headers.iter().find(|(name, _)| *name == "retry-after-ms").unwrap();
    let command = world.workers[1].send(&chat(77)).1;
    let Verdict::Consult(question) = command else { panic!("{command:?}") };
    let command = world.workers[1].written(false, &question);
    // Its charge, when it comes back to a worker that does not know of anybody waiting.
    let drawn = format!("d{}0,", &command.rsplit('/').next().unwrap()[1..]);
    let policy = world.workers[0].gate.policy(0).unwrap().clone();
    world.pass(told.1.parse().unwrap());
    let now = Timestamp::from_millis(world.millis);
    assert_eq!(world.store.booked("bp:{chat}", &policy, now), 1);
    world.store.operate("bp:{chat}", &policy, None, &drawn, now);
    assert_eq!(world.store.booked("bp:{chat}", &policy, now), 0);
}

#[test]
fn a_call_that_the_lease_does_not_cover_asks_the_store() {
    let mut world = World::new(1, "");
    world.borrow(0);
    assert!(matches!(world.call(0, 20_000).1, Verdict::Forward(_)));
    assert_eq!(world.asked, 1);
}

#[test]
fn a_pool_whose_calls_are_large_for_its_limits_is_not_lent_from() {
    let mut world = World::new(1, "");
    for _ in 0..4 {
        world.call(0, 6_000);
        world.pass(100);
        world.tick(0);
    }
    assert_eq!((world.asked, world.operations('l')), (4, 0));
}

#[test]
fn a_lease_is_used_to_its_end_when_the_store_is_lost_and_then_the_envoy_decides_alone() {
    let mut world = World::new(1, "");
    world.borrow(0);
    assert!(matches!(world.call(0, 50).1, Verdict::Forward(_)));
    let (batch, _) = world.batch(0).unwrap();
    world.posted(0, batch, None);
    let counted = [Anomaly::FleetUnreachable];
    assert_eq!(world.workers[0].counts.anomalies, counted);
    assert!(matches!(world.workers[0].send(&chat(50)).1, Verdict::Forward(_)));
    assert_eq!(world.workers[0].counts.anomalies, counted, "passed on the lease");
    world.pass(300);
    assert!(matches!(world.workers[0].send(&chat(50)).1, Verdict::Forward(_)));
    assert_eq!(world.workers[0].counts.anomalies.last(), Some(&Anomaly::FleetAlone));
    // Nothing is lost: the store hears of all four calls once.
    world.beat(0);
    world.rest();
    assert_eq!(world.left().0, LIMITS.0 - 4);
}

#[test]
fn a_lease_of_which_nobody_heard_is_taken_back() {
    let mut world = World::new(1, "");
    world.call(0, 50);
    let (batch, command) = world.batch(0).unwrap();
    assert!(command.contains("/l"), "{command}");
    world.run(&command);
    assert!(world.left().0 < LIMITS.0 - 1);
    world.posted(0, batch, None);
    world.beat(0);
    world.tick(0);
    assert_eq!(world.left().0, LIMITS.0 - 1);
    assert_eq!(world.operations('z'), 1);
}

#[test]
fn a_lease_whose_borrower_died_counts_as_used_and_leaves_the_window() {
    let mut world = World::new(2, "");
    world.borrow(0);
    let lent = LIMITS.0 - 1 - world.left().0;
    assert!((1..=LIMITS.0 / 25).contains(&lent), "{lent}");
    world.pass(1_000);
    assert_eq!(world.left().0, LIMITS.0 - 1 - lent);
    world.pass(61_000);
    assert_eq!(world.left().0, LIMITS.0);
}

#[test]
fn a_call_that_never_reached_its_provider_gives_its_part_back() {
    let mut world = World::new(1, "");
    world.borrow(0);
    let (mut session, verdict) = world.call(0, 50);
    assert!(matches!(verdict, Verdict::Forward(_)));
    let headers: [(&[u8], &[u8]); 1] = [(b":status", b"503")];
    world.workers[0].step(|env| session.response_head(&headers, b"upstream_reset_before", true, env));
    world.workers[0].step(|env| session.end(env));
    world.rest();
    assert_eq!(world.operations('d'), 0);
    assert_eq!(world.left().0, LIMITS.0 - 1);
}

#[test]
fn a_provider_that_refuses_ends_the_lease_at_once() {
    let mut world = World::new(1, "");
    let mut session = world.borrow(0);
    world.workers[0].answer(&mut session, "429", "");
    assert!(!matches!(world.workers[0].send(&chat(50)).1, Verdict::Forward(_)));
    world.tick(0);
    assert_eq!(world.operations('g'), 1);
}

#[test]
fn a_call_that_ends_before_its_charge_was_written_is_settled_afterwards() {
    let mut world = World::new(1, "");
    world.borrow(0);
    let (mut session, _) = world.call(0, 500);
    world.workers[0].answer(&mut session, "200", &usage(5, 20));
    world.rest();
    assert_eq!(world.workers[0].counts.decided, [Decided::Admitted; 2]);
    // The first one is still on its way, at its estimate.
    let estimate = LIMITS.1 - 25 - world.left().1;
    assert!((50..100).contains(&estimate), "{estimate}");
}

/// Random calls at workers that now and then die with what they had to tell.
#[test]
fn a_minute_never_holds_more_than_the_limit_whoever_dies_with_a_lease() {
    for seed in 1..4_u64 {
        let mut random = seed;
        let mut dice = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut world = World::new(4, "");
        let mut passed: Vec<u64> = Vec::new();
        let mut borrowed = 0;
        for step in 0..60_000_u64 {
            world.pass(1 + dice(8));
            let worker = dice(4) as usize;
            // Quiet times, so that there are leases, and busy ones, so that they matter.
            let quiet = step % 20_000 < 15_000;
            if dice(if quiet { 60 } else { 5 }) == 0 {
                let before = world.asked;
                if let (_, Verdict::Forward(_)) = world.call(worker, 10 + dice(40) as u32) {
                    passed.push(world.millis);
                    borrowed += u64::from(world.asked == before);
                }
            }
            if dice(3) > 0 {
                world.tick(worker);
            }
            if dice(400) == 0 {
                let millis = world.millis;
                world.workers[worker] = Worker::with(&config(""));
                world.workers[worker].millis = millis;
                world.workers[worker].gate.fleet.as_mut().unwrap().identify(1_000 + step, 1_000 + step);
            }
            if dice(50) == 0 {
                world.beat(worker);
            }
        }
        let mut most = 0;
        let mut first = 0;
        for (index, at) in passed.iter().enumerate() {
            while passed[first] + 60_000 <= *at {
                first += 1;
            }
            most = most.max(index + 1 - first);
        }
        assert!(most as u64 <= LIMITS.0, "seed {seed}: {most} in a minute");
        assert!(most as u64 > LIMITS.0 * 9 / 10, "seed {seed}: {most} says nothing");
        assert!(borrowed > 200, "seed {seed}: {borrowed} on leases say nothing");
    }
}
