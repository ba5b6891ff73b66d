//! Calls held inside Envoy, and hosts without the stop-iteration flag.

use abi_host::case::{Answer, Bench, Verdict, chat_body, field_post};
use abi_host::stats::Kind;
use abi_host::{Options, StreamId};
use serde_json::Value;

/// One call at a time, others wait up to `wait_ms`.
fn one_at_a_time(wait_ms: u64) -> impl FnOnce(&mut Value) {
    move |config| {
        let pool = Bench::pool(config, "m-chat");
        pool["limits"]["concurrent_requests"] = 1.into();
        pool["limits"]["requests_per_minute"] = 100_000.into();
        pool["limits"]["tokens_per_minute"] = 10_000_000.into();
        pool["max_wait_ms"] = wait_ms.into();
    }
}

fn sound(bench: &Bench) {
    let world = bench.host.world.borrow();
    assert!(bench.host.alive() && world.violations.is_empty(), "{:?} {:?}", world.traps, world.violations);
}

#[test]
fn a_parked_call_goes_on_when_its_place_is_free() {
    let mut bench = Bench::with(one_at_a_time(5_000));
    let first = bench.chat(10);
    let second = bench.chat(11);
    assert_eq!((bench.verdict(first), bench.verdict(second)), (Verdict::Admit, Verdict::Held));
    bench.host.advance_millis(500);
    assert_eq!(bench.verdict(second), Verdict::Held);
    bench.finish(first, &Answer::usage(1, 1));
    bench.host.advance_millis(5_000);
    assert_eq!(bench.verdict(second), Verdict::Admit);
    assert_eq!(bench.host.stream(second).request.sent.body, chat_body(11));
    assert!(bench.host.stream(second).request.sent.ended);
    bench.finish(second, &Answer::usage(1, 1));
    assert!(bench.in_flight() == 0);
    sound(&bench);
}

#[test]
fn a_parked_call_is_denied_at_its_longest_wait() {
    let mut bench = Bench::with(one_at_a_time(2_000));
    let first = bench.chat(10);
    let second = bench.chat(11);
    assert_eq!(bench.verdict(second), Verdict::Held);
    bench.host.advance_millis(2_200);
    assert_eq!(bench.verdict(second), Verdict::Deny);
    assert!(bench.host.stream(second).client_header("retry-after").is_some());
    bench.host.end(second);
    bench.finish(first, &Answer::usage(1, 1));
    assert!(bench.in_flight() == 0);
    sound(&bench);
}

#[test]
fn a_parked_call_whose_client_leaves_holds_nothing() {
    let mut bench = Bench::with(one_at_a_time(5_000));
    let first = bench.chat(10);
    let gone = bench.chat(11);
    assert_eq!(bench.verdict(gone), Verdict::Held);
    bench.host.reset(gone);
    bench.host.end(gone);
    bench.finish(first, &Answer::usage(1, 1));
    bench.host.advance_millis(100);
    let third = bench.chat(12);
    bench.host.advance_millis(5_000);
    assert_eq!(bench.verdict(third), Verdict::Admit);
    sound(&bench);
}

#[test]
fn hundreds_of_parked_calls_are_answered_a_few_at_a_time() {
    let mut bench = Bench::with(one_at_a_time(1_000));
    let first = bench.chat(10);
    let parked: Vec<StreamId> = (0..500).map(|n| bench.chat(11 + n)).collect();
    bench.host.advance_millis(3_000);
    for id in parked {
        assert_ne!(bench.verdict(id), Verdict::Held);
        bench.host.end(id);
    }
    bench.finish(first, &Answer::usage(1, 1));
    let nesting = bench.host.world.borrow().max_nesting;
    assert!(nesting <= 20, "{nesting} replies nest in one tick");
    sound(&bench);
}

#[test]
fn more_than_the_most_parked_are_denied() {
    let mut bench = Bench::with(|config| {
        one_at_a_time(5_000)(config);
        Bench::pool(config, "m-chat")["max_parked"] = 1.into();
    });
    let _first = bench.chat(10);
    let verdicts: Vec<Verdict> = (0..6)
        .map(|n| {
            let id = bench.chat(11 + n);
            bench.verdict(id)
        })
        .collect();
    assert_eq!(verdicts.iter().filter(|v| **v == Verdict::Held).count(), 1, "{verdicts:?}");
    assert_eq!(verdicts.iter().filter(|v| **v == Verdict::Deny).count(), 5, "{verdicts:?}");
}

#[test]
fn parked_calls_survive_a_reload_and_answer_under_their_old_root() {
    let mut bench = Bench::with(one_at_a_time(5_000));
    let first = bench.chat(10);
    let second = bench.chat(11);
    let text = bench.config.to_string();
    bench.host.configure(&text).expect("accepted");
    bench.finish(first, &Answer::usage(1, 1));
    bench.host.advance_millis(6_000);
    assert_ne!(bench.verdict(second), Verdict::Held, "nobody looks after it any more");
    bench.host.end(second);
    bench.host.advance_millis(1_000);
    assert!(bench.in_flight() == 0);
    sound(&bench);
}

#[test]
fn without_the_flag_nothing_hangs() {
    let options = Options { allow_stop: false, ..Options::filter() };
    let mut bench = Bench::start(options, |config| config["hold_headers"] = false.into());
    let id = bench.host.open(0, field_post("/v1/chat/completions"), false);
    assert!(bench.host.stream(id).reached_upstream(), "the headers go on at once");
    let body = chat_body(9_900);
    for part in body.chunks(20) {
        bench.host.request_body(id, part, false);
    }
    bench.host.request_body(id, b"", true);
    assert_eq!(bench.host.stream(id).request.sent.body, body);
    bench.finish(id, &Answer::usage(100, 9_900));
    let refused = bench.chat(500);
    assert_eq!(bench.host.stream(refused).client_status(), Some(429));
    assert!(bench.host.stream(refused).request.sent.body.is_empty(), "no body follows the headers");
    bench.host.end(refused);
    sound(&bench);
}

#[test]
fn a_flag_that_the_configuration_does_not_know_of_does_no_harm() {
    let mut bench = Bench::with(|config| config["hold_headers"] = false.into());
    let id = bench.chat(10);
    assert_eq!(bench.verdict(id), Verdict::Admit);
    bench.finish(id, &Answer::usage(5, 5));
    assert_eq!(bench.tpm_used(), 10);
    sound(&bench);
}

#[test]
fn calls_parked_in_a_machine_that_died_leave_the_gauge() {
    let options = Options::filter().workers(2);
    let mut bench = Bench::start(options, one_at_a_time(60_000));
    let first = bench.send_on(0, field_post("/v1/chat/completions"), &chat_body(10));
    assert_eq!(bench.verdict(first), Verdict::Admit);
    for n in 0..5 {
        for worker in 0..2 {
            let id = bench.send_on(worker, field_post("/v1/chat/completions"), &chat_body(11 + n));
            assert_eq!(bench.verdict(id), Verdict::Held);
        }
    }
    let parked = |bench: &Bench| bench.host.world.borrow().stats.sum(Kind::Gauge, &["m-chat", "parked"]);
    bench.host.advance_millis(200);
    assert_eq!(parked(&bench), 10);
    bench.host.reload_vm(1);
    bench.host.advance_secs(5);
    assert_eq!(parked(&bench), 5, "those of the machine that lives");
    sound(&bench);
}
