//! Every cause that has a name: what it does to the call, the rows of `docs/failure-modes.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod session_support;

use envoy_backpressure::gate::SharedStore;
use envoy_backpressure::observe::{Anomaly, Decided};
use envoy_backpressure::session::admission::Seen;
use envoy_backpressure::session::{Session, Verdict};
use envoy_backpressure::testing::shared_data::{Fate, Operation};
use session_support::*;

const LEDGER: &str = "bp.ledger.chat";

fn passes(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Forward(_))
}

/// An answer with other headers than the usual ones.
fn answer_with(worker: &mut Worker, session: &mut Session, headers: &[(&str, &str)], body: &[u8]) {
    let headers: Vec<(&[u8], &[u8])> =
        headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    worker.step(|env| session.response_head(&headers, b"via_upstream", body.is_empty(), env));
    session.response_body(body);
    session.response_complete(None);
    worker.step(|env| session.end(env));
}

/// Sends one call that finds `value` in place of the ledger, and another one behind it.
fn find_in_place_of_the_ledger(value: &[u8]) -> (Worker, Decided) {
    let mut worker = Worker::new(POOL);
    worker.store.set_raw(LEDGER, value, 0).unwrap();
    let (_first, verdict) = worker.send(&chat(10));
    assert!(passes(&verdict));
    assert_eq!(worker.counts.decided, [Decided::FailedOpen]);
    let (_second, verdict) = worker.send(&chat(10));
    assert!(passes(&verdict));
    let second = worker.counts.decided[1];
    (worker, second)
}

#[test]
fn a_ledger_of_foreign_bytes_is_replaced_and_the_next_call_is_decided() {
    let (worker, second) = find_in_place_of_the_ledger(&[0xff; 64]);
    assert_eq!(worker.counts.anomalies, [Anomaly::LedgerCorrupt]);
    assert_eq!(second, Decided::Admitted);
}

#[test]
fn a_ledger_of_a_newer_version_is_left_alone_and_calls_pass() {
    let newer = b"bpl\x03what comes after version 2";
    let (mut worker, second) = find_in_place_of_the_ledger(newer);
    assert_eq!(worker.counts.anomalies, [Anomaly::LedgerNewer, Anomaly::LedgerNewer]);
    assert_eq!((second, worker.gate.owed()), (Decided::FailedOpen, 2));
    for _ in 0..2 {
        worker.step(|env| env.gate.pay_owed(env.store, env.now));
    }
    assert_eq!((worker.store.value(LEDGER), worker.gate.owed()), (Some(&newer[..]), 0));
}

#[test]
fn what_was_taken_from_a_ledger_that_a_newer_version_replaced_is_not_settled_for_ever() {
    let newer = b"bpl\x03what comes after version 2";
    let mut worker = Worker::new(POOL);
    let (mut session, verdict) = worker.send(&chat(10));
    assert!(passes(&verdict));
    worker.store.set_raw(LEDGER, newer, 0).unwrap();
    worker.answer(&mut session, "200", &usage(5, 5));
    assert_eq!((worker.gate.owed(), worker.counts.anomalies.last()), (0, Some(&Anomaly::LedgerNewer)));
    assert_eq!(worker.store.value(LEDGER), Some(&newer[..]));

    // The same when the store did not answer at first.
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(10));
    worker.store.set_hook(|_, _| Fate::Fail);
    worker.answer(&mut session, "200", &usage(5, 5));
    assert_eq!((worker.gate.owed(), worker.counts.anomalies.last()), (1, Some(&Anomaly::SettleDeferred)));
    worker.store.clear_hook();
    worker.store.set_raw(LEDGER, newer, 0).unwrap();
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert_eq!(worker.gate.owed(), 0);
}

#[test]
fn a_store_that_cannot_be_read_lets_calls_pass_and_charges_them_later() {
    let mut worker = Worker::new(POOL);
    worker.store.set_hook(|operation, _| if operation == Operation::Get { Fate::Fail } else { Fate::Pass });
    let (_session, verdict) = worker.send(&chat(1_000));
    assert!(passes(&verdict));
    assert_eq!(worker.counts.anomalies, [Anomaly::HostCallFailed]);
    assert_eq!(worker.counts.decided, [Decided::FailedOpen]);
    worker.store.clear_hook();
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert!(worker.left() <= 9_000);
}

#[test]
fn a_call_without_a_clock_passes_and_is_charged_when_there_is_one() {
    let mut worker = Worker::new(POOL);
    let mut session = worker.begin("/v1/chat/completions");
    session.fail_open(Anomaly::ClockMissing);
    let body = chat(1_000);
    let millis = std::mem::take(&mut worker.millis);
    let verdict = worker.step(|env| session.decide(body.as_bytes(), body.len(), Seen::Whole, env));
    assert!(passes(&verdict));
    assert_eq!(worker.counts.anomalies, [Anomaly::ClockMissing]);
    assert_eq!(worker.counts.decided, [Decided::FailedOpen]);
    worker.millis = millis;
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert!(worker.left() <= 9_000);
    worker.answer(&mut session, "200", &usage(100, 100));
    assert_eq!(worker.left(), 9_800);
}

#[test]
fn a_refusal_that_the_host_does_not_send_lets_the_call_pass_and_charges_it() {
    let mut worker = Worker::new(POOL);
    let (_held, _) = worker.send(&chat(8_000));
    let before = worker.left();
    let (mut session, verdict) = worker.send(&chat(5_000));
    assert!(matches!(verdict, Verdict::Answer(_)));
    let verdict = worker.step(|env| session.reply_failed(env));
    assert!(passes(&verdict));
    assert_eq!(worker.counts.anomalies, [Anomaly::ReplyFailed]);
    assert_eq!(worker.counts.decided, [Decided::Admitted, Decided::Denied, Decided::FailedOpen]);
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    worker.answer(&mut session, "200", &usage(100, 100));
    assert_eq!(worker.left(), before - 200);
}

#[test]
fn a_body_that_is_no_json_is_priced_by_its_length() {
    let mut worker = Worker::new(POOL);
    let (_session, verdict) = worker.send(&"no json ".repeat(100));
    assert!(passes(&verdict));
    assert_eq!(worker.counts.anomalies, [Anomaly::BodyUnreadable]);
    // A quarter of the length, and nothing for an output that nobody declared.
    assert_eq!(worker.left(), 10_000 - 200);
}

#[test]
fn an_empty_body_costs_a_request_and_the_least_floor() {
    let mut worker = Worker::new(POOL);
    let (_session, verdict) = worker.send("");
    assert!(passes(&verdict));
    assert_eq!(worker.left(), 10_000 - 1);
}

#[test]
fn a_beginning_that_is_no_json_is_priced_by_the_declared_length() {
    let mut worker = Worker::new(POOL);
    let headers: [(&[u8], &[u8]); 4] = [
        (b":method", b"POST"),
        (b":path", b"/v1/chat/completions"),
        (b":authority", b"llm.test"),
        (b"content-length", b"20000"),
    ];
    let mut session = Session::begin(&worker.plan, &headers, &mut |_| None, &mut worker.counts);
    let verdict = worker.step(|env| session.decide(b"no json", 7, Seen::Beginning, env));
    assert!(passes(&verdict));
    assert_eq!(worker.counts.anomalies, [Anomaly::BodyTruncated]);
    assert_eq!(worker.left(), 10_000 - 5_000);
}

#[test]
fn an_answer_without_usage_is_settled_from_its_text() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    let body = format!(r#"{{"choices": [{{"message": {{"content": "{}"}}}}]}}"#, "some words ".repeat(50));
    worker.answer(&mut session, "200", &body);
    assert_eq!(worker.counts.anomalies, [Anomaly::UsageMissing]);
    let used = 10_000 - worker.left();
    assert!((100..200).contains(&used), "{used}");
}

#[test]
fn an_answer_without_a_body_states_no_usage_either() {
    for status in [&b"200"[..], b"204"] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(2_000));
        let head: [(&[u8], &[u8]); 1] = [(b":status", status)];
        worker.step(|env| session.response_head(&head, b"", true, env));
        session.response_complete(None);
        worker.step(|env| session.end(env));
        assert_eq!(worker.counts.anomalies, [Anomaly::UsageMissing]);
        let used = 10_000 - worker.left();
        assert!((1..50).contains(&used), "the input: {used}");
    }
}

#[test]
fn usage_of_which_a_part_is_missing_or_nonsense_is_counted_and_the_rest_holds() {
    let body = |usage: &str| {
        let text = "some words ".repeat(50);
        format!(r#"{{"choices": [{{"message": {{"content": "{text}"}}}}], "usage": {usage}}}"#)
    };
    let estimated = |part: u64, used: u64| (part..part + 200).contains(&used);
    for (usage, part) in [
        (r#"{"prompt_tokens": -5, "completion_tokens": 30, "total_tokens": 25}"#, 30),
        (r#"{"prompt_tokens": 9000000000000000000, "completion_tokens": 30}"#, 30),
        (r#"{"prompt_tokens": null, "completion_tokens": 30}"#, 30),
        (r#"{"prompt_tokens": "7", "completion_tokens": 30}"#, 30),
        (r#"{"prompt_tokens": 1200}"#, 1_300),
        (r#"{"prompt_tokens": 1200, "completion_tokens": -30}"#, 1_300),
        (r#"{"prompt_tokens": 1200, "completion_tokens": 9e18}"#, 1_300),
        (r#"{"prompt_tokens": 1200, "completion_tokens": null, "total_tokens": 1300}"#, 1_300),
        (r#"{"prompt_tokens": 1200, "completion_tokens": "30"}"#, 1_300),
    ] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(2_000));
        worker.answer(&mut session, "200", &body(usage));
        assert_eq!(worker.counts.anomalies, [Anomaly::UsagePartial], "{usage}");
        let used = 10_000 - worker.left();
        assert!(estimated(part, used), "{usage}: {used}");
        let is_input_stated = part > 1_000;
        assert_eq!(
            worker.counts.errors.len(),
            usize::from(is_input_stated),
            "an estimate is no truth: {usage}"
        );
    }
    for usage in [r#"{"total_tokens": 150}"#, r#"{"prompt_tokens": -1, "completion_tokens": -1}"#] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(2_000));
        worker.answer(&mut session, "200", &body(usage));
        assert_eq!(worker.counts.anomalies, [Anomaly::UsageMissing], "{usage}");
        assert!(estimated(100, 10_000 - worker.left()), "{usage}");
    }
}

#[test]
fn usage_in_headers_of_which_a_part_is_nonsense_is_counted() {
    for nonsense in ["-5", "9000000000000000000", "many", ""] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(2_000));
        let headers = [
            (":status", "200"),
            ("x-amzn-bedrock-input-token-count", nonsense),
            ("x-amzn-bedrock-output-token-count", "700"),
        ];
        answer_with(&mut worker, &mut session, &headers, b"{}");
        assert_eq!(worker.counts.anomalies, [Anomaly::UsagePartial], "{nonsense}");
        let used = 10_000 - worker.left();
        assert!((700..730).contains(&used), "{nonsense}: {used}");
    }
}

#[test]
fn an_answer_that_cannot_be_decoded_is_settled_from_its_length() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    let headers = [(":status", "200"), ("content-type", "application/json"), ("content-encoding", "br")];
    answer_with(&mut worker, &mut session, &headers, &[0x8b; 600]);
    assert_eq!(worker.counts.anomalies, [Anomaly::UsageUnreadable]);
    let used = 10_000 - worker.left();
    assert!((300..350).contains(&used), "half of its bytes, and the input: {used}");
}

#[test]
fn an_error_inside_a_stream_is_counted_and_what_came_is_charged() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    let headers = [(":status", "200"), ("content-type", "text/event-stream")];
    let body = b"data: {\"choices\": [{\"delta\": {\"content\": \"a few words\"}}]}\n\n\
        data: {\"error\": {\"message\": \"it broke\", \"type\": \"server_error\"}}\n\n";
    answer_with(&mut worker, &mut session, &headers, body);
    assert!(worker.counts.anomalies.contains(&Anomaly::StreamError), "{:?}", worker.counts.anomalies);
    let used = 10_000 - worker.left();
    assert!((1..100).contains(&used), "{used}");
}

#[test]
fn a_call_that_outlives_its_reservation_changes_nothing_at_its_end() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    worker.millis += 601_000;
    worker.answer(&mut session, "200", &usage(120, 30));
    assert_eq!(worker.counts.anomalies, [Anomaly::SettleLate]);
    assert_eq!(worker.left(), 10_000);
}

#[test]
fn more_owed_writes_than_are_kept_drop_the_oldest() {
    let mut worker = Worker::new(POOL);
    worker.store.set_hook(|operation, _| if operation == Operation::Set { Fate::Fail } else { Fate::Pass });
    for _ in 0..4_096 {
        assert!(passes(&worker.send(&chat(1)).1));
    }
    assert!(!worker.counts.anomalies.contains(&Anomaly::OwedDropped));
    assert!(passes(&worker.send(&chat(1)).1));
    assert_eq!(worker.counts.anomalies.last(), Some(&Anomaly::OwedDropped));
    assert_eq!(worker.gate.owed(), 4_096);
}

#[test]
fn learned_sizes_that_cannot_be_read_start_anew() {
    let mut worker = Worker::new(&POOL.replace("\"max_tokens\"", "\"learned\""));
    worker.store.set_raw("bp.output.chat", b"something else", 0).unwrap();
    let (mut session, _) = worker.send(&chat(2_000));
    worker.answer(&mut session, "200", &usage(120, 30));
    worker.step(|env| env.suggestions.exchange(env.store, env.recorder));
    assert_eq!(worker.counts.anomalies, [Anomaly::SuggestionUnreadable]);
    worker.step(|env| env.suggestions.exchange(env.store, env.recorder));
    assert_eq!(worker.counts.anomalies.len(), 1, "it was replaced");
}

#[test]
fn a_provider_that_refuses_pauses_its_pool() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(10));
    let headers = [(":status", "429"), ("content-type", "application/json"), ("retry-after", "7")];
    answer_with(&mut worker, &mut session, &headers, b"{}");
    assert_eq!(worker.counts.throttled, 1);
    let (_session, verdict) = worker.send(&chat(10));
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    assert_eq!((answer.status, answer.reason), (429, "upstream_paused"));
    let seconds = answer.headers.iter().find(|(name, _)| *name == "retry-after").unwrap();
    assert!(seconds.1.parse::<u64>().unwrap() >= 7, "{seconds:?}");
}

#[test]
fn a_call_that_passed_undecided_and_never_reached_the_provider_is_not_charged() {
    let mut worker = Worker::new(POOL);
    worker.store.set_hook(|operation, _| if operation == Operation::Set { Fate::Fail } else { Fate::Pass });
    let (mut session, _) = worker.send(&chat(1_000));
    let headers: [(&[u8], &[u8]); 1] = [(b":status", b"503")];
    worker.step(|env| session.response_head(&headers, b"no_healthy_upstream", true, env));
    worker.step(|env| session.end(env));
    worker.store.clear_hook();
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert_eq!((worker.left(), worker.gate.owed()), (10_000, 0));
    let mut value = Vec::new();
    assert_eq!(worker.store.get(LEDGER, &mut value), Ok(None));
}
