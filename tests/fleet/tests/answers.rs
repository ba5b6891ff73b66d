//! What the script answers to values that are damaged, and to whom.
#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use envoy_backpressure::fleet::wire::{self, Glance};
use envoy_backpressure::fleet::{SCRIPT_HASH, script};
use envoy_backpressure::gate::Policy;
use envoy_backpressure::units::{Limits, Span};
use support::Redis;

const LIMITS: Limits =
    Limits { requests: Some(2), llm_tokens: None, input: None, output: None, concurrency: None };

/// Asks for a call of flow `tenant`, the third of which has to wait.
fn ask(redis: &mut Redis, tenant: u32, nonce: u64) -> Result<String, String> {
    let policy = Policy {
        limits: LIMITS,
        burst: Span::from_secs(60),
        strict_window: true,
        reservation_ttl: Span::from_secs(600),
    };
    let policy = format!("{}{nonce}", wire::policy(&policy));
    let operation = format!("a0,{tenant},1,1,1,0,0,0,1,{tenant},59000000,0,0,");
    redis.command(&[
        "EVALSHA",
        SCRIPT_HASH,
        "3",
        "bp:{p}:s",
        "bp:{p}:f",
        "bp:{p}:b",
        "-",
        &policy,
        &operation,
    ])
}

fn kind(answer: &Result<String, String>) -> &str {
    answer.as_ref().map_or("error", |text| text.split([',', ';']).next().unwrap_or_default())
}

#[test]
fn an_answer_bears_the_number_that_was_sent_along() {
    let mut redis = Redis::start("nonce").expect("redis-server");
    redis.command(&["SCRIPT", "LOAD", &script()]).expect("the script");
    for nonce in [1, 77, (1 << 51) - 1] {
        let answer = ask(&mut redis, 1, nonce).expect("an answer");
        let (_, told) = answer.split_once(';').expect("two lines");
        assert_eq!(Glance::read(&LIMITS, told).expect("a glance").nonce, nonce);
    }
}

#[test]
fn damaged_values_start_anew_and_do_not_stay() {
    for (key, field) in [("s", "s"), ("s", "1"), ("f", "0000000000007"), ("f", "junk")] {
        let mut redis = Redis::start("damage").expect("redis-server");
        redis.command(&["SCRIPT", "LOAD", &script()]).expect("the script");
        for wanted in ["A", "A", "W", "W"] {
            assert_eq!(kind(&ask(&mut redis, 7, 1)), wanted);
        }
        redis.command(&["HSET", &format!("bp:{{p}}:{key}"), field, "garbage"]).expect("damage");
        let first = ask(&mut redis, 8, 1);
        assert!(["corrupt", "A", "W"].contains(&kind(&first)), "{key} {field}: {first:?}");
        let second = ask(&mut redis, 9, 1);
        assert!(["A", "W"].contains(&kind(&second)), "{key} {field}: {second:?}");
    }
}
