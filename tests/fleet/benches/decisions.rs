//! Decisions a second of one Redis while calls wait, by the server's own account of the processor time it used.
//!
//! Three mixes: 1 000 calls wait and are asked for again before their time, so nearly all are told to wait; the same, but no
//! caller is known to be the one that waits, so that look-alikes are booked beside them; and a saturated pool whose callers
//! come back when they were told, in the time of the calls. Each is asked one by one, as while the store is quick,
//! and 24 together, as workers ask a store that has no time for more requests.
//!
//! `make bench-fleet` runs it.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

#[path = "../tests/support/mod.rs"]
mod support;

use envoy_backpressure::config::ClassId;
use envoy_backpressure::fleet::wire::{self, Answer, Glance, Operation};
use envoy_backpressure::fleet::{SCRIPT_HASH, script};
use envoy_backpressure::gate::{Ask, Flow, Policy, TenantKey};
use envoy_backpressure::units::{Cost, Limits, Span};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use support::{Dice, Redis};

const WAITING: u64 = 1_000;
const DECISIONS: u64 = 1_000;
const ROUNDS: u64 = 5;
/// Decisions sent in a row without waiting for answers.
const BATCH: u64 = 48;
/// Decisions in one request: at an idle store, and at most (`Together` of the filter).
const TOGETHER: [u64; 2] = [1, 24];
const TENANTS: u64 = 10;
const KEYS: [&str; 3] = ["bp:{bench}:s", "bp:{bench}:f", "bp:{bench}:b"];
/// When the callers of a saturated pool begin, in microseconds.
const BEGIN: u64 = 1_792_567_680_000_000;

fn ask(number: u64) -> Ask {
    let class = number % 3;
    Ask {
        flow: Flow {
            class: ClassId(class as u8),
            tenant: TenantKey((number / 3 % TENANTS) as u32),
            class_weight: 1 << (2 - class),
            tenant_weight: 1,
        },
        cost: Cost { requests: 1, llm_tokens: 150 + number % 100, input: 50, output: 100, concurrency: 1 },
        fingerprint: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        max_told: Span::from_secs(59),
        max_park: Span::ZERO,
        parked: false,
    }
}

/// Seconds of a processor that the server has used.
fn cpu_seconds(redis: &mut Redis) -> f64 {
    let told = redis.command(&["INFO", "cpu"]).expect("statistics");
    let of = |name: &str| {
        told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).expect("seconds")
    };
    of("used_cpu_user_main_thread:") + of("used_cpu_sys_main_thread:")
}

/// What decisions took: microseconds of the server's processor for each, how many were told to wait, and how many calls waited
/// at the end.
#[derive(Default)]
struct Played {
    micros: f64,
    waits: u64,
    waiting: u32,
}

struct Pool {
    redis: Redis,
    limits: Limits,
    policy: String,
    /// Markers handed out.
    marked: u64,
}

impl Pool {
    /// Begins anew with limits of so many requests a minute, and 200 LLM tokens for each.
    fn begin(&mut self, requests: u64, strict_window: bool) {
        self.limits =
            Limits { requests: Some(requests), llm_tokens: Some(200 * requests), ..Limits::default() };
        self.policy = wire::policy(&Policy {
            limits: self.limits,
            burst: Span::from_secs(10),
            strict_window,
            reservation_ttl: Span::from_secs(600),
        });
        self.redis.command(&["DEL", KEYS[0], KEYS[1], KEYS[2]]).expect("a clean pool");
    }

    /// One request, each decision with a marker of its own.
    fn command(&mut self, moment: &str, asks: &[Ask]) -> Vec<String> {
        let mut command =
            vec!["EVALSHA".to_owned(), SCRIPT_HASH.to_owned(), (KEYS.len() + asks.len()).to_string()];
        command.extend(KEYS.map(str::to_owned));
        for _ in asks {
            self.marked += 1;
            command.push(format!("bp:{{bench}}:c:{:x}", self.marked));
        }
        command.extend([moment.to_owned(), self.policy.clone()]);
        command.extend(asks.iter().map(|ask| Operation::Admit(ask).encode()));
        command
    }

    /// Sends requests, and gives the decisions and the pool as the last of them saw it.
    fn decide(&mut self, commands: &[Vec<String>]) -> (Vec<Answer>, Glance) {
        let (mut seen, mut answers) = (Glance::default(), Vec::new());
        for answer in self.redis.pipeline(commands) {
            let answer = answer.expect("an answer");
            let (decided, told) = answer.rsplit_once(';').expect("decisions and the pool");
            seen = Glance::read(&self.limits, told).expect("a glance");
            answers.extend(decided.split(';').map(|line| Answer::read(line).expect("a decision")));
        }
        (answers, seen)
    }

    /// Plays decisions one behind the other at the store's own time, so many in a request.
    fn play(&mut self, decisions: u64, together: u64, mut next: impl FnMut() -> Ask) -> Played {
        let before = cpu_seconds(&mut self.redis);
        let mut played = Played::default();
        let batches = decisions.div_ceil(BATCH);
        for _ in 0..batches {
            let requests = (0..BATCH / together).map(|_| {
                let asks: Vec<Ask> = (0..together).map(|_| next()).collect();
                self.command("-", &asks)
            });
            let commands: Vec<_> = requests.collect();
            let (answers, seen) = self.decide(&commands);
            played.waits +=
                answers.iter().filter(|answer| matches!(answer, Answer::Wait { .. })).count() as u64;
            played.waiting = seen.booked;
        }
        played.micros = 1e6 * (cpu_seconds(&mut self.redis) - before) / (batches * BATCH) as f64;
        played
    }

    /// Callers that come back when they were told, and with another call soon after one that passed.
    /// Those that come together are heard when the last of them is there.
    fn play_callers(&mut self, callers: &mut Callers, decisions: u64, together: u64) -> Played {
        let before = cpu_seconds(&mut self.redis);
        let mut played = Played::default();
        let requests = decisions.div_ceil(together);
        for _ in 0..requests {
            let come: Vec<(u64, usize)> =
                (0..together).map(|_| callers.due.pop().expect("a caller").0).collect();
            let at = come[come.len() - 1].0;
            let asks: Vec<Ask> = come.iter().map(|&(_, caller)| callers.asks[caller]).collect();
            let command = self.command(&(BEGIN + at).to_string(), &asks);
            let (answers, seen) = self.decide(&[command]);
            assert_eq!(answers.len(), come.len());
            played.waiting = seen.booked;
            for (&(_, caller), answer) in come.iter().zip(&answers) {
                let next = match answer {
                    Answer::Wait { told, .. } => {
                        played.waits += 1;
                        told.as_micros() + callers.dice.below(20_000)
                    }
                    _ => {
                        callers.asks[caller].fingerprint = callers.dice.next();
                        callers.dice.below(500_000)
                    }
                };
                callers.due.push(Reverse((at + next, caller)));
            }
        }
        played.micros = 1e6 * (cpu_seconds(&mut self.redis) - before) / (requests * together) as f64;
        played
    }
}

/// Callers of a saturated pool, and when each of them asks next.
struct Callers {
    asks: Vec<Ask>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    dice: Dice,
}

fn report(what: &str, rounds: u64, mut round: impl FnMut() -> Played) {
    let (mut spent, mut waits, mut least, mut most) = (Vec::new(), 0, u32::MAX, 0);
    for _ in 0..rounds {
        let played = round();
        spent.push(played.micros);
        waits += played.waits;
        (least, most) = (least.min(played.waiting), most.max(played.waiting));
    }
    spent.sort_by(f64::total_cmp);
    let (best, median) = (spent[0], spent[spent.len() / 2]);
    println!(
        "{what}: {least} to {most} calls waiting, {waits} of some {} told to wait: {best:.0} us of a processor for a decision at best, \
         {median:.0} at the median of {rounds} rounds, so {:.0} and {:.0} decisions a second",
        rounds * DECISIONS,
        1e6 / best,
        1e6 / median,
    );
}

fn main() {
    let mut redis = Redis::start("decisions").expect("redis-server");
    assert_eq!(redis.command(&["SCRIPT", "LOAD", &script()]).as_deref(), Ok(SCRIPT_HASH));
    let mut pool = Pool { redis, limits: Limits::default(), policy: String::new(), marked: 0 };
    for (name, strict_window) in [("bucket", false), ("strict window", true)] {
        for (mix, parked) in [("asked for again too early", true), ("look-alikes too early", false)] {
            pool.begin(60, strict_window);
            let mut number = 0;
            pool.play(WAITING + 2 * BATCH, 1, || {
                number += 1;
                ask(number)
            });
            let mut dice = Dice(7);
            for together in TOGETHER {
                report(&format!("{name}, {mix}, {together} in a request"), ROUNDS, || {
                    pool.play(DECISIONS, together, || Ask { parked, ..ask(1 + dice.below(WAITING)) })
                });
            }
        }
        pool.begin(3_000, strict_window);
        let asks: Vec<Ask> = (0..WAITING).map(ask).collect();
        let due = (0..asks.len()).map(|caller| Reverse((10_000 * caller as u64, caller))).collect();
        let mut callers = Callers { asks, due, dice: Dice(7) };
        pool.play_callers(&mut callers, 6 * DECISIONS, 1);
        for together in TOGETHER {
            report(&format!("{name}, back when told, {together} in a request"), ROUNDS, || {
                pool.play_callers(&mut callers, DECISIONS, together)
            });
        }
    }
}
