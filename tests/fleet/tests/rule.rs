//! The rule of the gate against the script, on a real Redis: the same operations, the same answers.
//!
//! `make test-fleet` runs it; `FLEET_OPERATIONS` says how many.

mod support;

use envoy_backpressure::config::{ClassId, Learn};
use envoy_backpressure::fleet::wire::{self, Answer, Glance, Operation};
use envoy_backpressure::fleet::{SCRIPT_HASH, script};
use envoy_backpressure::gate::{Ask, Booking, Flow, Lease, Policy, Reservation, Settlement, TenantKey};
use envoy_backpressure::testing::fleet_store::{FleetStore, encoded};
use envoy_backpressure::units::{Cost, Limits, Resource, Span, Timestamp};
use envoy_backpressure::upstream::{Throttle, ThrottleKind, UpstreamState};
use support::{Dice, Redis};

const BATCH: usize = 500;

/// One pool in both worlds.
struct World {
    dice: Dice,
    name: String,
    policy: Policy,
    twin: FleetStore,
    now: u64,
    upstream: UpstreamState,
    /// What was sent of it last.
    known: String,
    taken: Vec<Reservation>,
    booked: Vec<(Ask, Booking, u64)>,
    leases: Vec<Lease>,
    /// Leases that were granted.
    lent: u64,
    /// Remainders of the provider that come back within a minute.
    adopted: u64,
    /// One operation in so many is about leases.
    lending: u64,
    /// One operation in so many finds another configuration, if any.
    reloads: Option<u64>,
    flows: u64,
    /// Operations that go to the store together, at most.
    together: u64,
    /// The next operation goes with the one before it, so no time passes between them.
    joins: bool,
    /// Milliseconds that pass between two operations, at most.
    pace: u64,
    largest: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            dice.next();
        }
        let some =
            |dice: &mut Dice, least: u64, most: u64| dice.one_in(3).then(|| least + dice.below(most - least));
        let tokens = dice.of(&[8_000, 120_000, 2_000_000, 10_000_000]);
        let mut limits = Limits {
            requests: Some(dice.of(&[7, 60, 600, 6_000])),
            llm_tokens: Some(tokens),
            input: some(&mut dice, tokens / 2, tokens),
            output: some(&mut dice, tokens / 4, tokens),
            concurrency: None,
        };
        match dice.below(7) {
            0 => limits.concurrency = Some(1 + dice.below(30)),
            1 => limits.requests = None,
            3 => limits = Limits { concurrency: Some(1 + dice.below(30)), ..Limits::default() },
            2 => limits = Limits { requests: limits.requests, ..Limits::default() },
            _ => {}
        }
        let policy = Policy {
            limits,
            burst: Span::from_secs(dice.of(&[1, 5, 10, 10, 30, 60])),
            strict_window: !dice.one_in(3),
            reservation_ttl: Span::from_secs(dice.of(&[20, 100, 600])),
        };
        let now = 1_792_567_680_000_000 + dice.below(1_000_000);
        Self {
            name: format!("bp:{{w{seed}}}"),
            policy,
            twin: FleetStore::new(),
            now,
            upstream: UpstreamState::default(),
            known: String::new(),
            taken: Vec::new(),
            booked: Vec::new(),
            leases: Vec::new(),
            lent: 0,
            adopted: 0,
            lending: dice.of(&[2, 3, 20, 50]),
            reloads: [Some(100), None, Some(500), None][(seed % 4) as usize],
            flows: dice.of(&[1, 3, 3, 5, 12, 60, 300]),
            together: dice.of(&[1, 1, 3, 24]),
            joins: false,
            pace: dice.of(&[2, 20, 200, 3_000]),
            largest: (tokens / dice.of(&[1, 10, 100, 1_000])).max(2),
            dice,
        }
    }

    fn cost(&mut self) -> Cost {
        let input = 1 + self.dice.below(self.largest / 2);
        let output = self.dice.below(self.largest / 2);
        let within = |amount: u64, limit: Option<u64>| limit.map_or(amount, |limit| amount.min(limit));
        let limits = self.policy.limits;
        Cost {
            requests: 1,
            llm_tokens: within(input + output, limits.llm_tokens),
            input: within(input, limits.input),
            output: within(output, limits.output),
            concurrency: 1,
        }
    }

    fn ask(&mut self) -> Ask {
        let flow = self.dice.below(self.flows);
        let weight = [4, 2, 1, 1_000, 7][(flow % 5) as usize];
        let cost = self.cost();
        Ask {
            flow: Flow {
                class: ClassId((flow % 3) as u8),
                tenant: TenantKey((flow * 977_777_777 % 4_000_000_000) as u32),
                class_weight: weight,
                tenant_weight: 1 + (flow % 9) as u32,
            },
            cost,
            fingerprint: self.dice.of(&[3, 50, 1 << 40]).min(self.dice.next()),
            max_told: Span::from_secs(self.dice.of(&[5, 59, 59, 3_600])),
            max_park: Span::from_millis(self.dice.of(&[0, 0, 1_000, 90_000])),
            parked: self.dice.one_in(9),
        }
    }

    fn pass(&mut self) {
        let millis = match self.dice.below(4_000) {
            0 => 70_000,
            1 => 700_000,
            2..20 => 5_000,
            _ => self.dice.below(self.pace),
        };
        self.now += millis * 1_000 + self.dice.below(1_000);
        if self.dice.one_in(3_000) {
            self.now -= self.dice.of(&[1_000_000, 60_000_000]);
        }
    }

    /// Does an operation here and says its answer.
    fn apply(&mut self, sent: &str) -> (Option<Answer>, String) {
        let now = Timestamp::from_micros(self.now);
        let line = self.twin.operate(&self.name, &self.policy, None, sent, now);
        let answer = Answer::read(&line);
        let said = answer.as_ref().map_or(line, |answer| format!("{answer:?}"));
        (answer, said)
    }

    fn decide(&mut self, ask: Ask) -> (String, String) {
        let sent = Operation::Admit(&ask).encode();
        let (answer, said) = self.apply(&sent);
        match answer {
            Some(Answer::Taken(taken_at)) => {
                self.taken.push(Reservation {
                    taken_at,
                    flow: ask.flow,
                    cost: Cost { concurrency: 1, ..ask.cost },
                });
            }
            Some(Answer::Wait { wait, told, .. }) => {
                let due = self.now + told.as_micros();
                if told.as_micros() < 1 << 40 && self.booked.len() < 3_000 {
                    let booking = Booking { fingerprint: ask.fingerprint, flow: ask.flow, wait, told };
                    self.booked.push((ask, booking, due));
                }
            }
            _ => {}
        }
        (sent, said)
    }

    fn told_done(&mut self, operation: &Operation<'_>) -> (String, String) {
        let sent = operation.encode();
        let said = self.apply(&sent).1;
        (sent, said)
    }

    /// Borrows, draws on what was lent, or gives it back.
    fn borrow(&mut self) -> (String, String) {
        if self.leases.is_empty() || self.dice.one_in(3) {
            let part = self.dice.of(&[1, 3, 20, 200]);
            let cost = self.cost();
            let want = Cost {
                requests: self.dice.below(9),
                llm_tokens: cost.llm_tokens / part,
                input: cost.input / part,
                output: cost.output / part,
                concurrency: self.dice.below(4),
            };
            let life = Span::from_millis(self.dice.of(&[0, 1, 250, 250, 900, 4_000, 9_000]));
            let sent = Operation::Lend(&want, life).encode();
            let (answer, said) = self.apply(&sent);
            if let Some(Answer::Lent(lease)) =
                answer.filter(|answer| *answer != Answer::Lent(Lease::default()))
            {
                self.lent += 1;
                self.leases.push(lease);
            }
            return (sent, said);
        }
        let at = self.dice.below(self.leases.len() as u64) as usize;
        if self.dice.one_in(4) {
            let lease = self.leases.swap_remove(at);
            return self.told_done(&Operation::GiveBack(&lease));
        }
        let mut ask = self.ask();
        let due = self.booked.iter().position(|(_, _, due)| *due <= self.now);
        if let (Some(due), true) = (due, self.dice.one_in(2)) {
            ask = self.booked.swap_remove(due).0;
        }
        let lease = &mut self.leases[at];
        if !self.dice.one_in(30) {
            // Else it may be more than what is left.
            let part = 1 + self.dice.below(3);
            ask.cost = Cost {
                requests: lease.amounts.requests.min(1),
                llm_tokens: lease.amounts.llm_tokens / part,
                input: lease.amounts.input / part,
                output: lease.amounts.output / part,
                concurrency: 1,
            };
        }
        let ends = lease.ends;
        for resource in Resource::ALL {
            let left = lease.amounts.get_mut(resource);
            *left = left.saturating_sub(*ask.cost.get(resource));
        }
        if lease.amounts == Cost::default() || self.dice.one_in(8) {
            self.leases.swap_remove(at);
        }
        let sent = Operation::Draw(&ask, ends).encode();
        let (answer, said) = self.apply(&sent);
        if let Some(Answer::Taken(taken_at)) = answer {
            self.taken.push(Reservation { taken_at, flow: ask.flow, cost: ask.cost });
        }
        (sent, said)
    }

    /// The configuration is loaded anew with other limits: they count from the next decision on.
    fn reload(&mut self) {
        let Policy { limits, burst, strict_window, reservation_ttl } = &mut self.policy;
        let other = |dice: &mut Dice, limit: &mut Option<u64>, least: u64| match dice.below(6) {
            0 => *limit = limit.is_none().then_some(least),
            1 | 2 => *limit = limit.map(|limit| (limit / (1 + dice.below(4))).max(1)),
            3 => *limit = limit.map(|limit| (limit * (1 + dice.below(4))).min(10_000_000)),
            _ => {}
        };
        for resource in Resource::ALL {
            let least =
                if matches!(resource, Resource::Requests | Resource::Concurrency) { 12 } else { 50_000 };
            other(&mut self.dice, limits.get_mut(resource), least);
        }
        if *limits == Limits::default() {
            limits.requests = Some(60);
        }
        if self.dice.one_in(3) {
            *strict_window = !*strict_window;
        }
        if self.dice.one_in(3) {
            *burst = Span::from_secs(self.dice.of(&[1, 10, 60]));
        }
        if self.dice.one_in(3) {
            *reservation_ttl = Span::from_secs(self.dice.of(&[20, 100, 600]));
        }
    }

    /// Chooses an operation, does it here, and says what is to be sent and answered.
    fn operate(&mut self) -> (String, String) {
        if !self.joins {
            self.pass();
            if self.reloads.is_some_and(|reloads| self.dice.one_in(reloads)) {
                self.reload();
            }
        }
        if self.dice.one_in(self.lending) {
            return self.borrow();
        }
        let kind = self.dice.below(100);
        match kind {
            // Whoever was told to come back and may.
            0..35 if !self.booked.is_empty() => {
                let due = self.booked.iter().position(|(_, _, due)| *due <= self.now);
                let at = due.unwrap_or_else(|| self.dice.below(self.booked.len() as u64) as usize);
                if due.is_some() || self.dice.one_in(20) {
                    let (ask, _, _) = self.booked.swap_remove(at);
                    if self.dice.one_in(9) {
                        return self.operate();
                    }
                    return self.decide(ask);
                }
                let ask = self.ask();
                self.decide(ask)
            }
            65..90 if !self.taken.is_empty() => {
                let at = self.dice.below(self.taken.len() as u64) as usize;
                let reservation = self.taken.swap_remove(at);
                let how = match self.dice.below(5) {
                    0 => Settlement::Unused,
                    1 => Settlement::Actual(self.cost()),
                    _ => {
                        let part = 1 + self.dice.below(6);
                        let reserved = reservation.cost;
                        Settlement::Actual(Cost {
                            llm_tokens: reserved.llm_tokens * part / 5,
                            input: reserved.input * part / 5,
                            output: reserved.output * part / 5,
                            ..reserved
                        })
                    }
                };
                self.told_done(&Operation::Settle(&reservation, how))
            }
            90..92 => {
                let ask = self.ask();
                let age = Span::from_millis(self.dice.of(&[20, 3_000, 90_000]));
                let age = Span::from_micros(self.dice.below(age.as_micros()));
                let late = self.dice.one_in(2);
                let charge = if late { Operation::ChargeLate(&ask, age) } else { Operation::Charge(&ask) };
                let sent = charge.encode();
                let (answer, said) = self.apply(&sent);
                if let Some(Answer::Taken(taken_at)) = answer {
                    let cost = Cost { concurrency: ask.cost.concurrency.min(1), ..ask.cost };
                    self.taken.push(Reservation { taken_at, flow: ask.flow, cost });
                }
                (sent, said)
            }
            92..94 if !self.booked.is_empty() => {
                let at = self.dice.below(self.booked.len() as u64) as usize;
                let (_, booking, _) = self.booked.swap_remove(at);
                self.told_done(&Operation::Cancel(&booking))
            }
            94 if self.dice.one_in(2) => {
                let resource = self.dice.of(&Resource::PER_MINUTE);
                let remaining = self.dice.of(&[0, 1, u64::MAX]).min(self.dice.below(self.largest));
                let within = Span::from_micros(self.dice.below(60_000_001));
                let reset = self.dice.of(&[
                    None,
                    Some(Span::from_millis(1_234)),
                    Some(within),
                    Some(within),
                    Some(Span::from_secs(60)),
                    Some(Span::from_secs(90)),
                ]);
                self.adopted += u64::from(reset.is_some_and(|reset| reset <= Span::from_secs(60)));
                self.told_done(&Operation::Adopt(resource, remaining, reset))
            }
            95 if self.dice.one_in(20) => {
                let at = self.twin.time(&self.name, &self.policy, Timestamp::from_micros(self.now));
                let learn =
                    Learn { headers: true, pause_on_429: !self.dice.one_in(3), adapt: self.dice.one_in(2) };
                if self.dice.one_in(2) {
                    self.upstream.on_success(&learn, at.before(Span::from_millis(300)), at);
                } else {
                    let throttle = Throttle {
                        retry_after: self.dice.of(&[
                            None,
                            Some(Span::from_millis(1_500)),
                            Some(Span::from_secs(20)),
                        ]),
                        kind: self.dice.of(&[
                            ThrottleKind::RateLimited,
                            ThrottleKind::RateLimited,
                            ThrottleKind::QuotaExhausted,
                        ]),
                    };
                    self.upstream.on_throttle(&throttle, &learn, Span::from_secs(59), at);
                }
                let new = encoded(&self.upstream);
                let old = core::mem::replace(&mut self.known, new.clone());
                self.told_done(&Operation::Learn(&old, &new))
            }
            _ => {
                let ask = self.ask();
                self.decide(ask)
            }
        }
    }

    /// Some operations of one moment: what is to be sent, and answered to each.
    fn operate_together(&mut self) -> (Vec<String>, Vec<String>) {
        let count = 1 + self.dice.below(self.together);
        let done = (0..count)
            .map(|index| {
                self.joins = index > 0;
                self.operate()
            })
            .unzip();
        self.joins = false;
        done
    }

    /// What is told of the pool, in the script's order.
    fn told(&mut self) -> String {
        let line = self.twin.glance(&self.name, &self.policy, Timestamp::from_micros(self.now));
        format!("{:?}", Glance::read(&self.policy.limits, &line).unwrap_or_default())
    }
}

#[test]
fn the_script_decides_as_the_gate_does() {
    let most: u64 =
        std::env::var("FLEET_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(40_000);
    let first: u64 = std::env::var("FLEET_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut redis = Redis::start("rule").expect("redis-server");
    assert_eq!(redis.command(&["SCRIPT", "LOAD", &script()]).as_deref(), Ok(SCRIPT_HASH));
    let (mut done, mut waits, mut deepest, mut lent, mut adopted) = (0_u64, 0_u64, 0, 0, 0);
    let mut joined = 0;
    for seed in first.. {
        let mut world = World::new(seed);
        let keys = ["s", "f", "b"].map(|part| format!("{}:{part}", world.name));
        for _ in 0..4 {
            let mut commands = Vec::new();
            let mut expected = Vec::new();
            let mut operations = 0;
            while operations < BATCH {
                let (sent, answers) = world.operate_together();
                operations += sent.len();
                joined += sent.len() as u64 - 1;
                let mut command = vec!["EVALSHA".to_owned(), SCRIPT_HASH.to_owned(), "3".to_owned()];
                command.extend(keys.iter().cloned());
                command.extend([world.now.to_string(), wire::policy(&world.policy)]);
                command.extend(sent);
                commands.push(command);
                waits += answers.iter().filter(|answer| answer.starts_with("Wait")).count() as u64;
                expected.push((format!("{} {}", answers.join(" "), world.told()), world.policy.limits));
            }
            let now = Timestamp::from_micros(world.now);
            deepest = deepest.max(world.twin.booked(&world.name, &world.policy, now));
            for (index, (got, (wanted, limits))) in
                redis.pipeline(&commands).into_iter().zip(expected).enumerate()
            {
                let got = got
                    .unwrap_or_else(|error| panic!("seed {seed}, {index}: {error}\n{:?}", commands[index]));
                let read = got.rsplit_once(';').and_then(|(answers, told)| {
                    let glance = Glance::read(&limits, told)?;
                    let answers: Option<Vec<String>> = answers
                        .split(';')
                        .map(|answer| Answer::read(answer).map(|answer| format!("{answer:?}")))
                        .collect();
                    Some(format!("{} {glance:?}", answers?.join(" ")))
                });
                let read = read.unwrap_or_default();
                assert!(
                    read == wanted,
                    "\n{read}\n{wanted}\nseed {seed}, operation {index} of a batch: {:?}\n{got}\n{:?}",
                    commands[index],
                    world.policy
                );
            }
            done += operations as u64;
        }
        lent += world.lent;
        adopted += world.adopted;
        let _ = redis.command(&["DEL", &keys[0], &keys[1], &keys[2]]);
        if done >= most {
            break;
        }
    }
    println!(
        "{done} operations, {waits} of them told to wait, up to {deepest} waiting at a time, {lent} leases, {adopted} remainders, {joined} together with the one before: all the same"
    );
    assert!(joined * 5 > done, "too few operations together to say anything: {joined} of {done}");
    assert!(adopted * 1_000 > done, "too few remainders to say anything: {adopted} of {done}");
    assert!(lent * 200 > done, "too few leases to say anything: {lent} of {done}");
    assert!(waits * 10 > done, "too few waits to say anything: {waits} of {done}");
}

#[test]
fn every_key_of_a_pool_expires_from_its_first_operation_on() {
    let mut redis = Redis::start("expiry").expect("redis-server");
    assert_eq!(redis.command(&["SCRIPT", "LOAD", &script()]).as_deref(), Ok(SCRIPT_HASH));
    let mut world = World::new(1);
    world.policy.limits = Limits { requests: Some(1), ..Limits::default() };
    world.policy.reservation_ttl = Span::from_secs(600);
    let policy = wire::policy(&world.policy);
    let keys = ["s", "f", "b"].map(|part| format!("{}:{part}", world.name));
    let beat = Operation::Beat(7).encode();
    let asks: Vec<String> = (0..3).map(|_| Operation::Admit(&world.ask()).encode()).collect();
    for (index, operation) in [&beat].into_iter().chain(&asks).enumerate() {
        let marker = format!("{}:c:{index:x}", world.name);
        let marker = if operation == &beat { format!("{}:c:n", world.name) } else { marker };
        let answer = redis.command(&[
            "EVALSHA",
            SCRIPT_HASH,
            "4",
            &keys[0],
            &keys[1],
            &keys[2],
            &marker,
            "-",
            &policy,
            operation,
        ]);
        assert!(answer.is_ok(), "{answer:?}");
        let present = redis.command(&["KEYS", "*"]).expect("keys");
        for key in present.lines() {
            let millis: i64 = redis.command(&["PTTL", key]).expect("time").parse().expect("number");
            assert!((1..=720_000).contains(&millis), "{key} after {index}: {millis}");
            assert!(key.starts_with(&world.name), "{key}");
        }
    }
    assert_eq!(
        redis.command(&["KEYS", "*"]).expect("keys").lines().count(),
        3 + 1 + 3,
        "state, beats, markers"
    );
}

/// Callers that want far more than there is: turns of hours and of days, whose sums leave what a double holds.
#[test]
fn turns_of_hours_and_days_are_the_same() {
    let mut redis = Redis::start("turns").expect("redis-server");
    assert_eq!(redis.command(&["SCRIPT", "LOAD", &script()]).as_deref(), Ok(SCRIPT_HASH));
    let (mut hours, mut days) = (0, 0);
    for seed in 1..=12 {
        let mut world = World::new(seed);
        let limit = [10_000_000, 3_333_333, 100_000_000][(seed % 3) as usize];
        world.policy.limits = Limits { llm_tokens: Some(limit), ..Limits::default() };
        world.policy.strict_window = seed % 2 == 0;
        (world.largest, world.flows, world.pace, world.lending, world.reloads) =
            (limit / 8, 60, 20, 1_000, None);
        let keys = ["s", "f", "b"].map(|part| format!("{}:{part}", world.name));
        for _ in 0..2 {
            let (mut commands, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..BATCH {
                world.pass();
                let mut ask = world.ask();
                (ask.fingerprint, ask.parked) = (world.dice.next(), false);
                let (sent, answer) = world.decide(ask);
                let mut command = vec!["EVALSHA".to_owned(), SCRIPT_HASH.to_owned(), "3".to_owned()];
                command.extend(keys.iter().cloned());
                command.extend([world.now.to_string(), wire::policy(&world.policy), sent]);
                commands.push(command);
                expected.push(answer);
            }
            for (index, (got, wanted)) in redis.pipeline(&commands).into_iter().zip(expected).enumerate() {
                let got = got.unwrap_or_else(|error| panic!("seed {seed}, {index}: {error}"));
                let answer = got.split_once(';').and_then(|(answer, _)| Answer::read(answer));
                if let Some(Answer::Wait { wait, .. }) = answer {
                    hours += u64::from(wait >= Span::from_secs(3_600));
                    days += u64::from(wait >= Span::from_secs(86_400));
                }
                let read = answer.map(|answer| format!("{answer:?}")).unwrap_or_default();
                assert!(read == wanted, "\n{read}\n{wanted}\nseed {seed}, {index}: {:?}", commands[index]);
            }
            // A tenth of it from then on, for those who wait as well.
            world.policy.limits.llm_tokens = Some(limit / 10);
            world.largest = limit / 80;
        }
        let _ = redis.command(&["DEL", &keys[0], &keys[1], &keys[2]]);
    }
    println!("{hours} turns more than an hour away, {days} of them more than a day");
    assert!(hours > 1_000 && days > 0, "{hours} hours, {days} days");
}

/// More flows than are kept, and then more calls: who stands with whom, and who gives way.
#[test]
fn the_script_keeps_a_crowd_as_the_gate_does() {
    let mut redis = Redis::start("crowd").expect("redis-server");
    assert_eq!(redis.command(&["SCRIPT", "LOAD", &script()]).as_deref(), Ok(SCRIPT_HASH));
    let kinds = if std::env::var_os("FLEET_LONG").is_some() { 2 } else { 1 };
    for (seed, flows, tenants_from) in [(2, 3_000, 0), (1, 3_000, 0x8000_0000)].into_iter().take(kinds) {
        let mut world = World::new(seed);
        world.policy.limits.requests = Some(60);
        (world.pace, world.lending, world.reloads) = (2, 1_000, None);
        let keys = ["s", "f", "b"].map(|part| format!("{}:{part}", world.name));
        let (mut most, mut crowded) = (0, false);
        for batch in 0..7_u64 {
            let (mut commands, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..BATCH {
                world.flows = 3;
                let (sent, answer) = if world.dice.one_in(3) {
                    world.operate()
                } else {
                    world.pass();
                    let number = world.dice.below(flows);
                    let mut ask = world.ask();
                    ask.flow.class = ClassId((number % 2) as u8);
                    ask.flow.class_weight = 1 + (number % 2) as u32 * 3;
                    ask.flow.tenant = TenantKey(tenants_from + number as u32);
                    (ask.fingerprint, ask.parked) = (world.dice.next(), false);
                    world.decide(ask)
                };
                let mut command = vec!["EVALSHA".to_owned(), SCRIPT_HASH.to_owned(), "3".to_owned()];
                command.extend(keys.iter().cloned());
                command.extend([world.now.to_string(), wire::policy(&world.policy), sent]);
                commands.push(command);
                expected.push(format!("{answer} {}", world.told()));
            }
            for (index, (got, wanted)) in redis.pipeline(&commands).into_iter().zip(expected).enumerate() {
                let got = got.unwrap_or_else(|error| panic!("seed {seed}, {batch}/{index}: {error}"));
                let read = got.split_once(';').and_then(|(answer, told)| {
                    let glance = Glance::read(&world.policy.limits, told)?;
                    Some(format!("{:?} {glance:?}", Answer::read(answer)?))
                });
                let read = read.unwrap_or_default();
                assert!(
                    read == wanted,
                    "\n{read}\n{wanted}\nseed {seed}, {batch}/{index}: {:?}\n{got}",
                    commands[index]
                );
            }
            let now = Timestamp::from_micros(world.now);
            most = most.max(world.twin.booked(&world.name, &world.policy, now));
            let stored = redis.command(&["HKEYS", &keys[1]]).expect("flows");
            crowded |= stored.lines().any(|key| key[3..].parse::<u64>().expect("tenant") >= 0xffff_fff8);
            assert!(stored.lines().count() <= 1_024);
        }
        println!("{flows} flows: up to {most} waiting at a time, crowds: {crowded}");
        assert!(crowded && most > 1_100, "{most}");
        let _ = redis.command(&["DEL", &keys[0], &keys[1], &keys[2]]);
    }
}
