//! Decisions a second of one Redis while 1 000 calls wait, by the server's own account of the processor time it used.
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
use envoy_backpressure::fleet::wire::{self, Answer, Operation};
use envoy_backpressure::fleet::{SCRIPT_HASH, script};
use envoy_backpressure::gate::{Ask, Flow, Policy, TenantKey};
use envoy_backpressure::units::{Cost, Limits, Span};
use support::{Dice, Redis};

const WAITING: u64 = 1_000;
const DECISIONS: u64 = 1_000;
const ROUNDS: u64 = 10;
const BATCH: u64 = 50;
const TENANTS: u64 = 10;

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

/// Plays decisions and returns microseconds of the server's processor for each, and how many were told to wait.
fn play(redis: &mut Redis, policy: &str, decisions: u64, mut next: impl FnMut() -> Ask) -> (f64, u64) {
    let keys = ["s", "f", "b"].map(|part| format!("bp:{{bench}}:{part}"));
    let before = cpu_seconds(redis);
    let mut waits = 0;
    for _ in 0..decisions / BATCH {
        let commands: Vec<Vec<String>> = (0..BATCH)
            .map(|_| {
                let mut command = vec!["EVALSHA".to_owned(), SCRIPT_HASH.to_owned(), "3".to_owned()];
                command.extend(keys.iter().cloned());
                command.extend(["-".to_owned(), policy.to_owned(), Operation::Admit(&next()).encode()]);
                command
            })
            .collect();
        for answer in redis.pipeline(&commands) {
            let answer = answer.expect("an answer");
            let first = answer.split(';').next().unwrap_or_default();
            waits += u64::from(matches!(Answer::read(first), Some(Answer::Wait { .. })));
        }
    }
    (1e6 * (cpu_seconds(redis) - before) / decisions as f64, waits)
}

fn main() {
    let mut redis = Redis::start("decisions").expect("redis-server");
    assert_eq!(redis.command(&["SCRIPT", "LOAD", &script()]).as_deref(), Ok(SCRIPT_HASH));
    for (name, strict_window) in [("bucket", false), ("strict window", true)] {
        let limits = Limits { requests: Some(60), llm_tokens: Some(12_000), ..Limits::default() };
        let policy = Policy {
            limits,
            burst: Span::from_secs(10),
            strict_window,
            reservation_ttl: Span::from_secs(600),
        };
        let policy = wire::policy(&policy);
        redis.command(&["DEL", "bp:{bench}:s", "bp:{bench}:f", "bp:{bench}:b"]).expect("a clean pool");
        let mut number = 0;
        play(&mut redis, &policy, WAITING + 2 * BATCH, || {
            number += 1;
            ask(number)
        });
        let mut dice = Dice(7);
        let waiting = redis.command(&["HLEN", "bp:{bench}:f"]).expect("flows");
        let mut spent: Vec<f64> = Vec::new();
        let mut waits = 0;
        for _ in 0..ROUNDS {
            let (micros, told) = play(&mut redis, &policy, DECISIONS, || ask(1 + dice.below(WAITING)));
            spent.push(micros);
            waits += told;
        }
        spent.sort_by(f64::total_cmp);
        println!(
            "{name}, {waiting} flows, about {WAITING} calls waiting, {waits} of {} told to wait: {:.0} us of a processor for a \
             decision at best, {:.0} at the median of {ROUNDS} rounds, so {:.0} and {:.0} decisions a second",
            ROUNDS * DECISIONS,
            spent[0],
            spent[spent.len() / 2],
            1e6 / spent[0],
            1e6 / spent[spent.len() / 2],
        );
    }
}
