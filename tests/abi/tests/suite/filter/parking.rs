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

/// So many calls at a time, as many others wait up to `wait_ms`.
fn many_at_a_time(slots: u64, wait_ms: u64) -> impl FnOnce(&mut Value) {
    move |config| {
        one_at_a_time(wait_ms)(config);
        let pool = Bench::pool(config, "m-chat");
        pool["limits"]["concurrent_requests"] = slots.into();
    }
}

/// Takes `slots` slots and parks as many calls.
fn all_taken(
    bench: &mut Bench,
    slots: u64,
    mut call: impl FnMut(&mut Bench, u64) -> StreamId,
) -> [Vec<StreamId>; 2] {
    [(0, Verdict::Admit), (slots, Verdict::Held)].map(|(first, verdict)| {
        let calls: Vec<StreamId> = (first..first + slots).map(|n| call(bench, n)).collect();
        assert!(calls.iter().all(|id| bench.verdict(*id) == verdict));
        calls
    })
}

/// Lets time pass by single milliseconds; the most of `calls` that stopped being held within one.
fn most_at_once(bench: &mut Bench, mut calls: Vec<StreamId>, millis: u64) -> usize {
    let mut most = 0;
    for _ in 0..millis {
        bench.host.advance_millis(1);
        let before = calls.len();
        calls.retain(|id| bench.verdict(*id) == Verdict::Held);
        most = most.max(before - calls.len());
    }
    assert!(calls.is_empty(), "{} calls are still held", calls.len());
    most
}

#[test]
fn a_thousand_parked_calls_are_answered_a_few_at_a_time() {
    let mut bench = Bench::with(many_at_a_time(1_000, 10_000));
    let [passed, parked] = all_taken(&mut bench, 1_000, |bench, n| bench.chat(10 + n));
    bench.host.advance_millis(9_999);
    let most = most_at_once(&mut bench, parked.clone(), 130);
    assert!((8..=16).contains(&most), "{most} answers in one tick");
    for id in parked {
        assert_eq!(bench.verdict(id), Verdict::Deny);
        bench.host.end(id);
    }
    for id in passed {
        bench.finish(id, &Answer::usage(1, 1));
    }
    assert!(bench.in_flight() == 0);
    let nesting = bench.host.world.borrow().max_nesting;
    assert!(nesting <= 16, "{nesting} replies nest in one tick");
    sound(&bench);
}

#[test]
fn a_thousand_parked_calls_go_on_a_few_at_a_time_when_all_slots_come_back() {
    let mut bench = Bench::with(many_at_a_time(1_000, 60_000));
    let [passed, parked] = all_taken(&mut bench, 1_000, |bench, n| bench.chat(10 + n));
    for id in passed {
        bench.finish(id, &Answer::usage(1, 1));
    }
    let most = most_at_once(&mut bench, parked.clone(), 160);
    assert!((8..=16).contains(&most), "{most} calls in one tick");
    assert!(bench.host.world.borrow().max_nesting <= 16);
    for id in parked {
        assert_eq!(bench.verdict(id), Verdict::Admit);
        bench.finish(id, &Answer::usage(1, 1));
    }
    assert!(bench.in_flight() == 0);
    sound(&bench);
}

#[test]
fn hundreds_of_ready_calls_of_one_pool_do_not_hold_up_another() {
    let mut bench = Bench::with(|config| {
        one_at_a_time(3_000)(config);
        let mut limits = Bench::pool(config, "m-chat")["limits"].clone();
        limits["concurrent_requests"] = 500.into();
        let other = Bench::pool(config, "m-embed");
        (other["limits"], other["max_wait_ms"]) = (limits, 3_000.into());
    });
    let [_, others] = all_taken(&mut bench, 500, |bench, n| {
        let body = format!(r#"{{"model": "m-embed", "input": "x {n}"}}"#);
        bench.send(field_post("/v1/embeddings"), body.as_bytes())
    });
    let (_first, last) = (bench.chat(10), bench.chat(11));
    bench.host.advance_millis(2_990);
    assert_eq!(bench.verdict(last), Verdict::Held);
    bench.host.advance_millis(20);
    assert_eq!(bench.verdict(last), Verdict::Deny);
    let held = others.iter().filter(|id| bench.verdict(**id) == Verdict::Held).count();
    assert!(held > 100, "{held} of the others still to come");
    sound(&bench);
}

/// One call a second, others wait up to `wait_ms`, one at a time.
fn one_a_second(wait_ms: u64) -> impl FnOnce(&mut Value) {
    move |config| {
        let pool = Bench::pool(config, "m-chat");
        pool["limits"]["tokens_per_minute"] = 10_000_000.into();
        (pool["strict_window"], pool["burst_seconds"]) = (false.into(), 1.into());
        (pool["max_wait_ms"], pool["max_parked"]) = (wait_ms.into(), 1.into());
    }
}

fn told_millis(bench: &mut Bench, id: StreamId) -> u64 {
    assert_eq!(bench.verdict(id), Verdict::Deny);
    let told = bench.host.stream(id).client_header("retry-after-ms").expect("a time");
    told.parse().expect("milliseconds")
}

#[test]
fn a_call_that_finds_the_store_of_parked_calls_full_is_denied_with_a_booking_that_holds() {
    let mut bench = Bench::with(one_a_second(5_000));
    let (first, parked) = (bench.chat(10), bench.chat(11));
    assert_eq!((bench.verdict(first), bench.verdict(parked)), (Verdict::Admit, Verdict::Held));
    let refused = [bench.chat(12), bench.chat(13)];
    let told = refused.map(|id| told_millis(&mut bench, id));
    assert!((1_900..=2_200).contains(&told[0]) && (2_900..=3_200).contains(&told[1]), "{told:?}");
    refused.iter().for_each(|id| bench.host.end(*id));
    bench.host.advance_millis(told[0]);
    assert_eq!(bench.verdict(parked), Verdict::Admit);
    // A newcomer takes nothing of what was promised, and may be parked behind it.
    let newcomer = bench.chat(99);
    assert_eq!(bench.verdict(newcomer), Verdict::Held);
    let back = bench.chat(12);
    assert_eq!(bench.verdict(back), Verdict::Admit);
    bench.host.advance_millis(told[1] - told[0]);
    let back = bench.chat(13);
    assert_eq!((bench.verdict(back), bench.verdict(newcomer)), (Verdict::Admit, Verdict::Held));
    sound(&bench);
}

#[test]
fn a_call_that_finds_the_store_full_is_told_no_longer_wait_than_allowed_and_keeps_its_place() {
    let mut bench = Bench::with(|config| {
        one_a_second(30_000)(config);
        config["max_retry_after_seconds"] = 2.into();
    });
    let (_first, parked) = (bench.chat(10), bench.chat(11));
    let mut open: Vec<(u64, StreamId)> = vec![(11, parked)];
    let mut coming: Vec<(u64, u64)> = (12..18).map(|n| (0, n)).collect();
    let mut order = Vec::new();
    for now in 0..9_000 {
        while let Some(at) = coming.iter().position(|(due, _)| *due == now) {
            let (_, n) = coming.remove(at);
            let id = bench.chat(n);
            if bench.verdict(id) == Verdict::Deny {
                let told = told_millis(&mut bench, id);
                assert!(told <= 2_000, "{told} ms");
                coming.push((now + told, n));
            } else {
                open.push((n, id));
            }
        }
        open.retain(|(n, id)| {
            let passed = bench.verdict(*id) == Verdict::Admit;
            order.extend(passed.then_some(*n));
            !passed
        });
        bench.host.advance_millis(1);
    }
    assert_eq!(order, [11, 12, 13, 14, 15, 16, 17]);
    sound(&bench);
}

#[test]
fn each_class_is_parked_for_as_long_as_it_may_be() {
    let mut bench = Bench::with(|config| {
        one_at_a_time(300)(config);
        Bench::pool(config, "m-chat")["classes"] = serde_json::json!({"high": {"weight": 4, "max_wait_ms": 5_000}, "low": {"weight": 1, "max_wait_ms": 0}});
    });
    let _first = bench.chat(10);
    let mut send = |class: &str, n: u64| {
        let mut headers = field_post("/v1/chat/completions");
        headers.replace(b"x-priority", class.as_bytes());
        bench.send(headers, &chat_body(n))
    };
    let [high, low] = [send("high", 11), send("low", 12)];
    assert_eq!((bench.verdict(high), bench.verdict(low)), (Verdict::Held, Verdict::Deny));
    bench.host.advance_millis(4_900);
    assert_eq!(bench.verdict(high), Verdict::Held);
    bench.host.advance_millis(200);
    assert_eq!(bench.verdict(high), Verdict::Deny);
    sound(&bench);
}

#[test]
fn the_tick_is_fast_only_while_calls_are_held() {
    let mut bench = Bench::with(one_at_a_time(5_000));
    let tick = |bench: &mut Bench| {
        bench.host.vm(0).state().roots.values().map(|root| root.tick_millis).collect::<Vec<_>>()
    };
    bench.host.advance_secs(2);
    assert_eq!(tick(&mut bench), [500]);
    let (first, second) = (bench.chat(10), bench.chat(11));
    assert_eq!((bench.verdict(second), tick(&mut bench)), (Verdict::Held, vec![5]));
    bench.finish(first, &Answer::usage(1, 1));
    bench.host.advance_millis(1_000);
    assert_eq!((bench.verdict(second), tick(&mut bench)), (Verdict::Admit, vec![500]));
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

/// How many calls the workers tell to hold.
fn gauge(bench: &Bench) -> u64 {
    bench.host.world.borrow().stats.sum(Kind::Gauge, &["m-chat", "parked"])
}

#[test]
fn the_gauge_is_told_soon_after_the_last_parked_call_left() {
    let options = Options::filter().workers(2);
    let mut bench = Bench::start(options, one_at_a_time(60_000));
    let first = bench.send_on(0, field_post("/v1/chat/completions"), &chat_body(10));
    assert_eq!(bench.verdict(first), Verdict::Admit);
    // Whenever that is between two slow ticks, which are half a second apart.
    for n in 0..20 {
        bench.host.advance_millis(25 * n);
        let held = bench.send_on(1, field_post("/v1/chat/completions"), &chat_body(11 + n));
        assert_eq!(bench.verdict(held), Verdict::Held);
        let told = (0..40).position(|_| {
            bench.host.advance_millis(5);
            gauge(&bench) == 1
        });
        assert!(told.is_some(), "round {n}");
        // It was told just now, and so is not told again at once.
        bench.host.reset(held);
        bench.host.end(held);
        bench.host.advance_millis(150);
        assert_eq!(gauge(&bench), 0, "round {n}");
    }
    bench.finish(first, &Answer::usage(1, 1));
    sound(&bench);
}

#[test]
fn calls_parked_in_a_machine_that_died_leave_the_gauge() {
    let options = Options::filter().workers(2);
    let mut bench = Bench::start(options, one_at_a_time(60_000));
    let first = bench.send_on(0, field_post("/v1/chat/completions"), &chat_body(10));
    assert_eq!(bench.verdict(first), Verdict::Admit);
    let mut alive = Vec::new();
    for n in 0..5 {
        for worker in 0..2 {
            let id = bench.send_on(worker, field_post("/v1/chat/completions"), &chat_body(11 + n));
            assert_eq!(bench.verdict(id), Verdict::Held);
            alive.extend((worker == 0).then_some(id));
        }
    }
    bench.host.advance_millis(200);
    assert_eq!(gauge(&bench), 10);
    bench.host.reload_vm(1);
    bench.host.advance_secs(5);
    assert_eq!(gauge(&bench), 5, "those of the machine that lives");
    // Nor do the bookings of the others keep the slot for long.
    bench.finish(first, &Answer::usage(1, 1));
    bench.host.advance_secs(10);
    let passed = alive.iter().filter(|id| bench.verdict(**id) == Verdict::Admit).count();
    assert_eq!(passed, 1);
    sound(&bench);
}
