//! One call through the session, with the store, the clock and the counters in hand.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod session_support;

use envoy_backpressure::cost::usage::Usage;
use envoy_backpressure::gate::SharedStore;
use envoy_backpressure::observe::{Anomaly, Decided, LlmTokenKind};
use envoy_backpressure::session::admission::Seen;
use envoy_backpressure::session::suggestions::Suggestions;
use envoy_backpressure::session::{Phase, Session, Verdict};
use envoy_backpressure::testing::shared_data::{Fate, Operation};
use session_support::*;

#[test]
fn an_admitted_call_is_settled_to_its_real_usage() {
    let mut worker = Worker::new(POOL);
    let (mut session, verdict) = worker.send(&chat(2_000));
    assert!(matches!(verdict, Verdict::Forward(_)));
    assert!(worker.left() < 8_000);
    worker.answer(&mut session, "200", &usage(120, 30));
    assert_eq!(worker.left(), 9_850);
    assert!(worker.counts.llm_tokens.contains(&(LlmTokenKind::Output, 30)));
    assert_eq!(session.phase(), Phase::Settled);
}

#[test]
fn usage_that_the_host_published_settles_what_the_body_does_not_state() {
    for (body, published, used) in [
        (r#"{"choices": []}"#.to_owned(), Some((900, 60)), 960),
        (usage(900, 60), Some((500, 70)), 970),
        (usage(900, 60), None, 960),
    ] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(4_000));
        let headers: [(&[u8], &[u8]); 2] = [(b":status", b"200"), (b"content-type", b"application/json")];
        worker.step(|env| session.response_head(&headers, b"via_upstream", false, env));
        session.response_body(body.as_bytes());
        session.response_complete(published.map(|(input, output)| Usage {
            input: Some(input),
            output: Some(output),
            ..Usage::default()
        }));
        worker.step(|env| session.end(env));
        assert_eq!(worker.left(), 10_000 - used);
    }
}

#[test]
fn the_host_is_asked_for_usage_only_when_the_answer_does_not_state_all_of_it() {
    for (body, states) in [
        (usage(900, 60), true),
        (r#"{"choices": []}"#.to_owned(), false),
        (r#"{"usage": {"completion_tokens": 60}}"#.to_owned(), false),
    ] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(4_000));
        let headers: [(&[u8], &[u8]); 2] = [(b":status", b"200"), (b"content-type", b"application/json")];
        worker.step(|env| session.response_head(&headers, b"via_upstream", false, env));
        session.response_body(body.as_bytes());
        assert_eq!(session.states_usage(), states, "{body}");
        session.response_complete(None);
        worker.step(|env| session.end(env));
        assert_eq!(worker.left() == 9_040, states, "{body}");
    }
}

#[test]
fn ending_twice_settles_once() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    worker.answer(&mut session, "200", &usage(120, 30));
    worker.step(|env| session.end(env));
    worker.step(|env| session.end(env));
    assert_eq!(worker.left(), 9_850);
}

#[test]
fn a_refused_call_takes_nothing_and_teaches_nothing() {
    let mut worker = Worker::new(POOL);
    let (_held, _) = worker.send(&chat(9_900));
    let before = worker.left();
    let (mut session, verdict) = worker.send(&chat(5_000));
    let Verdict::Answer(answer) = verdict else { panic!("not refused") };
    assert_eq!(answer.status, 429);
    let named = |name: &str| answer.headers.iter().filter(|(other, _)| *other == name).collect::<Vec<_>>();
    assert_eq!(named("retry-after").len(), 1);
    let seconds: u64 = named("retry-after")[0].1.parse().unwrap();
    let millis: u64 = named("retry-after-ms")[0].1.parse().unwrap();
    assert!((1..=59).contains(&seconds) && seconds == millis.div_ceil(1_000));
    worker.answer(&mut session, "429", "{}");
    assert_eq!(worker.left(), before);
    assert_eq!(worker.counts.throttled, 0);
}

#[test]
fn a_refused_stream_of_gemini_is_an_array_unless_events_were_asked_for() {
    for (path, opens, closes) in [
        ("/v1beta/models/m:streamGenerateContent", "[{\"error\":", "}]"),
        ("/v1beta/models/m:streamGenerateContent?key=k&alt=sse", "{\"error\":", "}"),
        ("/v1beta/models/m:streamGenerateContent?salt=sse", "[{\"error\":", "}]"),
        ("/v1beta/models/m:generateContent", "{\"error\":", "}"),
        ("/v1/chat/completions", "{\"error\":", "}"),
    ] {
        let mut worker = Worker::new(POOL);
        let (_held, _) = worker.send(&chat(9_900));
        for text in [chat(5_000), chat(1).replace("hello", &"hello ".repeat(20_000))] {
            let mut session = worker.begin(path);
            let verdict = worker.step(|env| session.decide(text.as_bytes(), text.len(), Seen::Whole, env));
            let Verdict::Answer(answer) = verdict else { panic!("not refused") };
            let body = String::from_utf8(answer.body).unwrap();
            assert!(body.starts_with(opens) && body.ends_with(closes), "{path}: {body}");
        }
    }
}

#[test]
fn upstream_failure_releases_the_llm_tokens_and_keeps_the_request() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    worker.answer(&mut session, "400", r#"{"error": {"message": "no"}}"#);
    assert_eq!(worker.left(), 10_000);
    let requests = worker.step(|env| env.gate.standings(env.store, 0, env.now).requests.unwrap().remaining);
    assert_eq!(requests, 59);
}

#[test]
fn an_error_in_a_failed_answer_teaches_nothing_unless_its_status_is_a_refusal() {
    let words = ["insufficient_quota", "billing_error", "rate_limit_exceeded", "overloaded_error"];
    // What Bedrock throttles has 429 or 503 too; its 400s are calls that stay wrong.
    let words = words.into_iter().chain(["ThrottlingException", "ServiceQuotaExceededException"]);
    for word in words {
        let body = format!(r#"{{"error": {{"type": "{word}", "message": "no"}}}}"#);
        for status in ["400", "401", "402", "403", "404", "408", "500", "502", "429", "503", "529", "200"] {
            let mut worker = Worker::new(POOL);
            let (mut session, _) = worker.send(&chat(2_000));
            worker.answer(&mut session, status, &body);
            let is_refusal = matches!(status, "429" | "503" | "529" | "200");
            assert_eq!(worker.counts.throttled, u64::from(is_refusal), "{status} {word}");
        }
    }
}

#[test]
fn a_call_that_never_reached_the_provider_is_given_back_whole() {
    for details in [
        "no_healthy_upstream",
        "ext_authz_denied",
        "upstream_reset_before_response_started{connection_failure}",
    ] {
        let mut worker = Worker::new(POOL);
        let (mut session, _) = worker.send(&chat(2_000));
        let headers: [(&[u8], &[u8]); 1] = [(b":status", b"503")];
        worker.step(|env| session.response_head(&headers, details.as_bytes(), true, env));
        worker.step(|env| session.end(env));
        let standings = worker.step(|env| env.gate.standings(env.store, 0, env.now));
        assert_eq!(standings.llm_tokens.unwrap().remaining, 10_000, "{details}");
        assert_eq!(standings.requests.unwrap().remaining, 60, "{details}");
        assert_eq!(worker.counts.throttled, 0, "a local reply teaches nothing");
    }
}

#[test]
fn a_client_that_leaves_before_the_answer_pays_for_its_input() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    worker.step(|env| session.end(env));
    let used = 10_000 - worker.left();
    assert!((1..100).contains(&used), "{used}");
}

#[test]
fn a_ledger_that_cannot_be_written_lets_calls_pass_and_charges_them_later() {
    let mut worker = Worker::new(POOL);
    worker
        .store
        .set_hook(|operation, _| if operation == Operation::Set { Fate::Mismatch } else { Fate::Pass });
    let (mut session, verdict) = worker.send(&chat(1_000));
    assert!(matches!(verdict, Verdict::Forward(_)));
    assert_eq!(worker.counts.decided, [Decided::FailedOpen]);
    assert!(worker.counts.anomalies.contains(&Anomaly::CasExhausted));
    worker.store.clear_hook();
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert!(worker.left() <= 9_000, "charged as soon as that works");
    worker.answer(&mut session, "200", &usage(100, 100));
    assert_eq!(worker.left(), 9_800);
}

#[test]
fn a_call_that_ends_while_its_charge_is_owed_is_charged_its_real_usage_once() {
    let mut worker = Worker::new(POOL);
    worker.store.set_hook(|operation, _| if operation == Operation::Set { Fate::Fail } else { Fate::Pass });
    let (mut session, _) = worker.send(&chat(1_000));
    worker.answer(&mut session, "200", &usage(100, 100));
    worker.store.clear_hook();
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert_eq!(worker.left(), 9_800);
}

#[test]
fn a_settlement_that_cannot_be_written_is_not_lost() {
    let mut worker = Worker::new(POOL);
    let (mut session, _) = worker.send(&chat(2_000));
    worker
        .store
        .set_hook(|operation, _| if operation == Operation::Set { Fate::Mismatch } else { Fate::Pass });
    worker.answer(&mut session, "200", &usage(120, 30));
    assert!(worker.counts.anomalies.contains(&Anomaly::SettleDeferred));
    worker.store.clear_hook();
    worker.step(|env| env.gate.pay_owed(env.store, env.now));
    assert_eq!(worker.left(), 9_850);
}

#[test]
fn a_parked_call_passes_at_its_turn_and_its_wait_is_recorded() {
    let pool = POOL
        .replace("\"max_wait_ms\": 0", "\"max_wait_ms\": 5000")
        .replace("\"burst_seconds\": 60", "\"burst_seconds\": 1");
    let mut worker = Worker::new(&pool);
    let (_first, _) = worker.send(&chat(10));
    let (mut second, verdict) = worker.send(&chat(11));
    let Verdict::Park { due } = verdict else { panic!("not parked: {verdict:?}") };
    worker.millis = due.as_micros().div_ceil(1_000);
    let verdict = worker.step(|env| second.decide_parked(env));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    assert_eq!(worker.counts.decided, [Decided::Admitted, Decided::Parked]);
    assert_eq!(worker.counts.waits, [worker.millis - START]);
}

#[test]
fn a_parked_call_that_leaves_frees_its_place() {
    let pool = POOL
        .replace("\"max_wait_ms\": 0", "\"max_wait_ms\": 5000")
        .replace("\"burst_seconds\": 60", "\"burst_seconds\": 1");
    let mut worker = Worker::new(&pool);
    let (_first, _) = worker.send(&chat(10));
    let (mut second, _) = worker.send(&chat(11));
    worker.step(|env| second.end(env));
    let (summary, _) = worker.step(|env| env.gate.summary(env.store, 0, 8, env.now)).unwrap();
    assert_eq!(summary.booked, 0);
}

#[test]
fn input_alone_above_the_limit_is_too_large() {
    let mut worker = Worker::new(POOL);
    let body = format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": "{}"}}]}}"#,
        "long words ".repeat(8_000)
    );
    let (_session, verdict) = worker.send(&body);
    let Verdict::Answer(answer) = verdict else { panic!("not refused") };
    assert_eq!(answer.status, 413);
    assert!(answer.headers.contains(&("x-should-retry", String::from("false"))));
    assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("retry-after")));
    assert_eq!(worker.left(), 10_000);
}

#[test]
fn an_output_reserve_above_the_limit_is_clamped_to_what_fits() {
    let mut worker = Worker::new(POOL);
    let (_session, verdict) = worker.send(&chat(1_000_000));
    assert!(matches!(verdict, Verdict::Forward(_)));
    assert_eq!(worker.left(), 0);
}

#[test]
fn shadow_mode_refuses_nothing_and_leaves_no_booking() {
    let mut worker = Worker::with(&format!(r#"{{"mode": "shadow", "pools": [{POOL}]}}"#));
    let (_first, _) = worker.send(&chat(9_900));
    let (session, verdict) = worker.send(&chat(9_900));
    assert!(matches!(verdict, Verdict::Forward(_)));
    assert!(session.shadow_denied());
    assert_eq!(worker.counts.decided, [Decided::Admitted, Decided::ShadowDenied]);
    let (summary, _) = worker.step(|env| env.gate.summary(env.store, 0, 8, env.now)).unwrap();
    assert_eq!(summary.booked, 0);
}

#[test]
fn what_shadow_mode_would_have_refused_is_not_charged() {
    let mut worker = Worker::with(&format!(r#"{{"mode": "shadow", "pools": [{POOL}]}}"#));
    let (_first, _) = worker.send(&chat(9_900));
    let before = worker.left();
    let (mut session, _) = worker.send(&chat(9_900));
    assert_eq!(worker.left(), before);
    worker.answer(&mut session, "200", &usage(500, 500));
    assert_eq!(worker.left(), before);
}

#[test]
fn the_access_log_of_shadow_mode_says_what_enforcing_would_have_reserved_and_told() {
    let logged = |mode: &str, pool: &str, outputs: &[u32]| {
        let mut worker = Worker::with(&format!(r#"{{"mode": "{mode}", "pools": [{pool}]}}"#));
        let sent: Vec<_> = outputs.iter().map(|output| worker.send(&chat(*output)).0).collect();
        let field: serde_json::Value =
            serde_json::from_str(&sent.last().and_then(Session::log_field).expect("a metered call")).unwrap();
        (field["reason"].clone(), field["reserved"].as_u64().unwrap(), field["wait_ms"].as_u64().unwrap())
    };
    let (_, reserved, told) = logged("enforce", POOL, &[9_900, 9_900]);
    assert!(reserved > 9_900 && told > 0, "{reserved}, {told} ms");
    let tiny = r#"{"name": "chat", "limits": {"tokens_per_minute": 5}}"#;
    let (_, needed, _) = logged("enforce", tiny, &[1]);
    assert!(needed > 5, "{needed}");
    for (pool, outputs) in [(POOL, [9_900, 9_900].as_slice()), (tiny, &[1])] {
        assert_eq!(logged("shadow", pool, outputs), logged("enforce", pool, outputs));
    }
}

/// One call a second and one at once; calls wait inside Envoy for up to 3.1 s.
fn paced(mode: &str, most_parked: u32) -> Worker {
    Worker::with(&format!(
        r#"{{"mode": "{mode}", "pools": [{{"name": "chat", "burst_seconds": 1, "max_wait_ms": 3100,
            "max_parked": {most_parked}, "strict_window": false, "limits": {{"requests_per_minute": 60, "tokens_per_minute": 1000000}}}}]}}"#
    ))
}

#[test]
fn shadow_mode_counts_as_parked_what_would_have_waited_inside_and_passed() {
    let mut worker = paced("shadow", 10);
    let sent: Vec<_> = (0..5).map(|_| worker.send(&chat(10)).0).collect();
    assert_eq!(
        worker.counts.decided,
        [Decided::Admitted, Decided::Parked, Decided::Parked, Decided::Parked, Decided::ShadowDenied]
    );
    assert_eq!(
        sent.iter().map(Session::shadow_denied).collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
    assert!(sent.iter().all(|session| session.phase() == Phase::Forwarded), "nobody waits");
    let seconds: Vec<_> = worker.counts.waits.iter().map(|millis| millis / 1_000).collect();
    assert_eq!(seconds, [1, 2, 3], "each behind the one before");
    assert_eq!(worker.counts.refused.len(), 1);
    let field = sent[1].log_field().unwrap();
    assert!(field.contains(r#""decision":"parked""#) && field.contains(r#""wait_ms":10"#), "{field}");
}

#[test]
fn a_call_that_shadow_mode_counts_as_parked_is_charged_and_settled_like_an_admitted_one() {
    let mut worker = paced("shadow", 10);
    worker.send(&chat(10));
    let before = worker.left();
    let (mut session, _) = worker.send(&chat(1_000));
    assert!(worker.left() < before - 900);
    worker.answer(&mut session, "200", &usage(20, 30));
    assert_eq!(worker.left(), before - 50);
}

#[test]
fn shadow_mode_holds_back_no_more_calls_than_max_parked() {
    let mut worker = paced("shadow", 1);
    for _ in 0..3 {
        worker.send(&chat(10));
    }
    assert_eq!(worker.counts.decided[1..], [Decided::Parked, Decided::ShadowDenied]);
    worker.millis += 1_100;
    worker.send(&chat(10));
    assert_eq!(worker.counts.decided.last(), Some(&Decided::Parked), "the first one's turn has come");
}

/// Decisions on bursts of `burst` calls every ten seconds, of which two may be held back.
fn decisions_on_bursts(mode: &str, burst: usize) -> Vec<&'static str> {
    let mut worker = paced(mode, 2);
    let mut held: Vec<Session> = Vec::new();
    for step in 0..2_400 {
        held.retain_mut(|session| {
            let now = worker.millis * 1_000;
            let is_due = matches!(session.phase(), Phase::Parked { due, .. } if due.as_micros() <= now);
            !is_due || matches!(worker.step(|env| session.decide_parked(env)), Verdict::Park { .. })
        });
        for call in 0..if step % 400 == 0 { burst } else { 0 } {
            let body = chat(10).replace("hello there", &format!("call {call} of {step}"));
            let (mut session, verdict) = worker.send(&body);
            match verdict {
                Verdict::Park { .. } if held.len() < 2 => held.push(session),
                Verdict::Park { .. } => drop(worker.step(|env| session.deny_instead_of_park(env))),
                _ => {}
            }
        }
        worker.millis += 25;
    }
    let name = |decided: &Decided| decided.name().trim_start_matches("shadow_");
    let mut names: Vec<_> = worker.counts.decided.iter().map(name).collect();
    names.sort_unstable();
    names
}

#[test]
fn shadow_mode_counts_the_very_calls_that_enforcing_refuses() {
    for (burst, refused) in [(2, 0), (4, 6), (7, 24)] {
        let enforced = decisions_on_bursts("enforce", burst);
        assert_eq!(decisions_on_bursts("shadow", burst), enforced, "bursts of {burst}");
        assert_eq!(enforced.iter().filter(|name| **name == "denied").count(), refused);
    }
}

#[test]
fn bytes_beyond_the_price_are_charged_when_the_body_ends() {
    let mut worker = Worker::new(POOL);
    let mut session = worker.begin("/v1/chat/completions");
    let beginning = format!(
        r#"{{"model": "m", "max_tokens": 10, "messages": [{{"role": "user", "content": "{}"#,
        "some words ".repeat(100)
    );
    worker.step(|env| session.decide(beginning.as_bytes(), beginning.len(), Seen::Beginning, env));
    let before = worker.left();
    session.body_passed(beginning.len() as u64);
    worker.step(|env| session.charge_excess(env));
    let excess = before - worker.left();
    assert!((150..500).contains(&excess), "{excess}");
    worker.answer(&mut session, "200", &usage(450, 10));
    assert_eq!(worker.left(), 10_000 - 460);
}

#[test]
fn calls_of_no_pool_pass_and_are_counted() {
    let mut worker = Worker::with(
        r#"{"pools": [{"name": "a", "match": {"hosts": ["elsewhere"]}, "limits": {"requests_per_minute": 1}}]}"#,
    );
    let session = worker.begin("/v1/chat/completions");
    assert_eq!(session.phase(), Phase::Passed);
    assert_eq!(worker.counts.unmatched, 1);
    let session = worker.begin("/v1/models");
    assert_eq!(session.phase(), Phase::Passed);
    assert_eq!(worker.counts.unmatched, 1);
}

#[test]
fn the_store_holds_few_keys_whatever_the_tenants_are_called() {
    let text = format!(r#"{{"identity": {{"tenant": [{{"header": "x-tenant"}}]}}, "pools": [{POOL}]}}"#);
    let mut worker = Worker::with(&text);
    for number in 0..2_000 {
        let name = format!("tenant-{number}");
        let headers: [(&[u8], &[u8]); 4] = [
            (b":method", b"POST"),
            (b":path", b"/v1/chat/completions"),
            (b":authority", b"llm.test"),
            (b"x-tenant", name.as_bytes()),
        ];
        let mut session = Session::begin(&worker.plan, &headers, &mut |_| None, &mut worker.counts);
        let body = chat(100);
        worker.step(|env| session.decide(body.as_bytes(), body.len(), Seen::Whole, env));
    }
    let mut value = Vec::new();
    let keys: Vec<String> = worker.store.keys().map(str::to_owned).collect();
    assert!(keys.len() <= 2, "{keys:?}");
    for key in &keys {
        worker.store.get(key, &mut value).unwrap();
        assert!(value.len() <= 64 * 1_024, "{key}: {}", value.len());
    }
}

#[test]
fn agents_that_declare_much_and_use_little_are_soon_reserved_what_they_use() {
    let pool = POOL.replace("\"max_tokens\"", "\"learned\"");
    let mut worker = Worker::new(&pool);
    for _ in 0..50 {
        worker.millis += 60_000;
        let (mut session, _) = worker.send(&chat(8_000));
        worker.answer(&mut session, "200", &usage(20, 300));
    }
    worker.millis += 60_000;
    let before = worker.left();
    let (_session, _) = worker.send(&chat(8_000));
    let reserved = before - worker.left();
    assert!((300..700).contains(&reserved), "{reserved}");
}

#[test]
fn workers_exchange_what_they_learn_at_the_tick() {
    let pool = POOL.replace("\"max_tokens\"", "\"learned\"");
    let mut worker = Worker::new(&pool);
    for _ in 0..20 {
        worker.millis += 60_000;
        let (mut session, _) = worker.send(&chat(8_000));
        worker.answer(&mut session, "200", &usage(20, 300));
    }
    worker.step(|env| env.suggestions.exchange(env.store, env.recorder));
    worker.suggestions = Suggestions::new(&worker.plan);
    worker.step(|env| env.suggestions.exchange(env.store, env.recorder));
    worker.millis += 60_000;
    let before = worker.left();
    let (_session, _) = worker.send(&chat(8_000));
    assert!(before - worker.left() < 700);
}

#[test]
fn a_parked_call_that_is_tried_early_stays_one_call() {
    let pool = POOL
        .replace("\"max_wait_ms\": 0", "\"max_wait_ms\": 50000")
        .replace("\"burst_seconds\": 60", "\"burst_seconds\": 1");
    let mut worker = Worker::new(&pool);
    let mut parked = Vec::new();
    for _ in 0..6 {
        parked.push(worker.send(&chat(11)).0);
    }
    for _ in 0..40 {
        worker.millis += 25;
        let last = parked.last_mut().unwrap();
        worker.step(|env| last.decide_parked(env));
    }
    let (summary, _) = worker.step(|env| env.gate.summary(env.store, 0, 8, env.now)).unwrap();
    assert!(summary.booked <= 5, "{}", summary.booked);
}

#[test]
fn what_passed_long_ago_is_not_charged_when_the_store_heals() {
    let mut worker = Worker::new(POOL);
    worker.store.set_hook(|operation, _| if operation == Operation::Set { Fate::Fail } else { Fate::Pass });
    for _ in 0..300 {
        worker.send(&chat(100));
        worker.millis += 1_000;
    }
    worker.store.clear_hook();
    for _ in 0..20 {
        worker.step(|env| env.gate.pay_owed(env.store, env.now));
    }
    let requests = worker.step(|env| env.gate.standings(env.store, 0, env.now).requests.unwrap());
    assert!(requests.reset <= envoy_backpressure::units::Span::from_secs(61), "{requests:?}");
}

#[test]
fn a_parked_call_stays_until_its_time_is_up() {
    let pool = r#"{"name": "gpu", "limits": {"concurrent_requests": 1}, "max_wait_ms": 5000}"#;
    let mut worker = Worker::new(pool);
    let (mut first, _) = worker.send(&chat(10));
    worker.millis += 60;
    worker.answer(&mut first, "200", &usage(5, 5));
    let (mut first, _) = worker.send(&chat(12));
    let (mut second, verdict) = worker.send(&chat(11));
    assert!(matches!(verdict, Verdict::Park { .. }), "{verdict:?}");
    for _ in 0..100 {
        worker.millis += 25;
        let verdict = worker.step(|env| second.decide_parked(env));
        assert!(matches!(verdict, Verdict::Park { .. }), "{verdict:?}");
    }
    worker.answer(&mut first, "200", &usage(5, 5));
    let verdict = worker.step(|env| second.decide_parked(env));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
}

#[test]
fn a_parked_call_is_denied_when_its_time_is_up() {
    let pool = r#"{"name": "gpu", "limits": {"concurrent_requests": 1}, "max_wait_ms": 5000}"#;
    let mut worker = Worker::new(pool);
    let (mut first, _) = worker.send(&chat(10));
    worker.millis += 60;
    worker.answer(&mut first, "200", &usage(5, 5));
    let (_first, _) = worker.send(&chat(12));
    let (mut second, _) = worker.send(&chat(11));
    worker.millis += 5_001;
    let verdict = worker.step(|env| second.decide_parked(env));
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    assert_eq!(answer.reason, "concurrency");
}

#[test]
fn a_declared_length_that_never_comes_shuts_nothing() {
    for declared in ["4611686018427387904", "18446744073709551615", "300000000"] {
        let mut worker = Worker::new(POOL);
        let headers: [(&[u8], &[u8]); 4] = [
            (b":method", b"POST"),
            (b":path", b"/v1/chat/completions"),
            (b":authority", b"llm.test"),
            (b"content-length", declared.as_bytes()),
        ];
        let mut session = Session::begin(&worker.plan, &headers, &mut |_| None, &mut worker.counts);
        worker.step(|env| session.decide(b"oops", 4, Seen::Beginning, env));
        worker.answer(&mut session, "200", "{}");
        assert!(worker.left() > 9_900, "{declared}: {}", worker.left());
    }
}

#[test]
fn one_stated_usage_holds_the_pool_back_for_minutes_at_most() {
    for (burst, strict) in [(60, true), (10, true), (60, false)] {
        let mut worker = Worker::new(&format!(
            r#"{{"name": "chat", "limits": {{"tokens_per_minute": 10000}}, "burst_seconds": {burst}, "strict_window": {strict},
            "output_reserve": "max_tokens", "max_wait_ms": 0}}"#
        ));
        let (mut session, _) = worker.send(&chat(100));
        worker.answer(&mut session, "200", &usage(900_000_000, 900_000_000));
        assert_eq!(worker.left(), 0);
        // Three times the limit would be worked off by then; five times are not.
        worker.millis += 200_000;
        assert_eq!(worker.left(), 0, "{burst} {strict}: a large usage is a debt");
        worker.millis += 115_000;
        assert!(worker.left() > 0, "{burst} {strict}: shut for more than five minutes");
    }
}

#[test]
fn bytes_that_nobody_declared_are_charged_at_most_the_limit() {
    let mut worker = Worker::new(POOL);
    let mut session = worker.begin("/v1/chat/completions");
    let body = chat(100);
    worker.step(|env| session.decide(body.as_bytes(), body.len(), Seen::Beginning, env));
    session.body_passed(1 << 40);
    worker.step(|env| session.charge_excess(env));
    worker.millis += 130_000;
    let left = worker.left();
    worker.answer(&mut session, "413", r#"{"error": {"message": "too much"}}"#);
    assert!(left > 5_000 && worker.left() >= left, "{left} left two minutes later");
}

#[test]
fn pictures_and_sound_reserve_a_request_and_no_llm_tokens() {
    let pool = POOL.replace("10000", "100");
    let prompt = format!(r#"{{"model": "m", "prompt": "{}"}}"#, "a red fox ".repeat(500));
    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\n{}",
        "a".repeat(9_000)
    );
    for path in ["/v1/images/generations", "/v1/images/edits", "/v1/audio/speech", "/v1/audio/transcriptions"]
    {
        for body in [&prompt, &form, &"odd ".repeat(2_000)] {
            let mut worker = Worker::new(&pool);
            let mut session = worker.begin(path);
            let verdict = worker.step(|env| session.decide(body.as_bytes(), body.len(), Seen::Whole, env));
            assert!(matches!(verdict, Verdict::Forward(_)), "{path}: {verdict:?}");
            assert_eq!(worker.left(), 100, "{path}");
            let requests =
                worker.step(|env| env.gate.standings(env.store, 0, env.now).requests.unwrap().remaining);
            assert_eq!(requests, 59, "{path}");
            worker.answer(&mut session, "200", &usage(30, 40));
            assert_eq!(worker.left(), 30, "what the provider states counts");
        }
    }
}

#[test]
fn the_access_log_says_what_fits_what_is_needed_and_who_left() {
    let field = |session: &Session| -> serde_json::Value {
        serde_json::from_str(&session.log_field().expect("a metered call")).unwrap()
    };
    let limited = |limits: &str| {
        Worker::new(&format!(
            r#"{{"name": "chat", "limits": {{{limits}}}, "burst_seconds": 60, "output_reserve": "max_tokens", "max_wait_ms": 9000}}"#
        ))
    };
    let mut worker = limited(r#""output_tokens_per_minute": 50"#);
    let (session, _) = worker.send(&chat(53_000));
    assert!(field(&session)["reserved"].as_u64().unwrap() < 100, "{}", field(&session));

    let mut worker = limited(r#""tokens_per_minute": 5"#);
    let (session, verdict) = worker.send(&chat(1));
    assert!(matches!(verdict, Verdict::Answer(ref answer) if answer.status == 413), "{verdict:?}");
    assert!(field(&session)["reserved"].as_u64().unwrap() > 5, "{}", field(&session));

    let mut worker = limited(r#""requests_per_minute": 10"#);
    for _ in 0..10 {
        let (_, verdict) = worker.send(&chat(1));
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    }
    worker.millis += 52_000;
    let (mut session, verdict) = worker.send(&chat(1));
    assert!(matches!(verdict, Verdict::Park { .. }), "{verdict:?}");
    worker.millis += 20;
    worker.step(|env| session.end(env));
    let left = field(&session);
    assert_eq!(
        (left["decision"].as_str(), left["reason"].as_str()),
        (Some("parked"), Some("caller_left")),
        "{left}"
    );
    assert_eq!((left["used"].as_u64(), left["wait_ms"].as_u64()), (Some(0), Some(20)), "{left}");
}

#[test]
fn only_a_call_that_some_pool_takes_whatever_its_model_is_surely_metered() {
    let models = POOL.replace("\"limits\"", "\"match\": {\"models\": [\"m\"]}, \"limits\"");
    assert!(!Worker::new(&models).begin("/v1/chat/completions").is_surely_metered());
    assert!(Worker::new(POOL).begin("/v1/chat/completions").is_surely_metered());
    assert!(!Worker::new(POOL).begin("/v1/models").is_surely_metered());
}

/// A provider's bucket of 300 requests a minute that somebody else has drained at the start, and takes a part of from then on.
struct Drained {
    /// What refills for us, in thousandths of a request each millisecond: 5 without the others.
    gained: u64,
    /// In thousandths of a request.
    level: u64,
    at: u64,
    served: u64,
    refused: u64,
}

impl Drained {
    /// What it answers to a call at `millis`: the status, what is left, when it is full and when to come back.
    fn arrive(&mut self, millis: u64) -> [String; 4] {
        self.level = (self.level + (millis - self.at) * self.gained).min(300_000);
        self.at = millis;
        let serves = self.level >= 1_000;
        self.served += u64::from(serves);
        self.refused += u64::from(!serves);
        let next = 1_000_u64.saturating_sub(self.level).div_ceil(self.gained).max(1);
        self.level -= if serves { 1_000 } else { 0 };
        let full = (300_000 - self.level).div_ceil(5);
        let status = if serves { "200" } else { "429" };
        [status.into(), (self.level / 1_000).to_string(), format!("{full}ms"), next.to_string()]
    }
}

/// A call, and the provider's answer once that is on its way back.
type OnTheWay = (Session, Option<[String; 4]>);

fn told_to_wait(verdict: &Verdict) -> Option<u64> {
    let Verdict::Answer(answer) = verdict else { return None };
    answer.headers.iter().find(|(name, _)| *name == "retry-after-ms").map(|(_, wait)| wait.parse().unwrap())
}

#[test]
fn a_bucket_that_somebody_else_drained_is_used_as_it_refills() {
    // Calls on their way for 20 ms each way, or for one.
    for (burst, gained, way, seconds, refused) in [
        (10, 5, 20, 60, 12),
        (60, 5, 20, 60, 12),
        (10, 3, 20, 60, 25),
        (60, 3, 20, 60, 25),
        (10, 2, 1, 240, 25),
        (60, 2, 1, 240, 25),
    ] {
        let mut worker = Worker::new(&format!(
            r#"{{"name": "chat", "limits": {{"requests_per_minute": 300}}, "burst_seconds": {burst}, "max_wait_ms": 0}}"#
        ));
        let mut provider = Drained { gained, level: 0, at: START, served: 0, refused: 0 };
        // Twelve callers: when each is due, and its call on the way with the answer once that is there.
        let mut callers: Vec<(u64, Option<OnTheWay>)> =
            (0..12).map(|caller| (START + caller, None)).collect();
        for millis in START..START + seconds * 1_000 {
            worker.millis = millis;
            for (due, call) in callers.iter_mut().filter(|(due, _)| *due == millis) {
                *due += way;
                match call.take() {
                    None => {
                        let (session, verdict) = worker.send(&chat(1));
                        match told_to_wait(&verdict) {
                            Some(wait) => *due = millis + wait,
                            None => *call = Some((session, None)),
                        }
                    }
                    Some((session, None)) => *call = Some((session, Some(provider.arrive(millis)))),
                    Some((mut session, Some([status, left, full, next]))) => {
                        let mut headers = vec![
                            (":status", status.as_str()),
                            ("x-ratelimit-remaining-requests", &left),
                            ("x-ratelimit-reset-requests", &full),
                        ];
                        headers.extend((status == "429").then_some(("retry-after-ms", next.as_str())));
                        let headers: Vec<(&[u8], &[u8])> =
                            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
                        worker.step(|env| session.response_head(&headers, b"via_upstream", true, env));
                        session.response_complete(None);
                        worker.step(|env| session.end(env));
                    }
                }
            }
        }
        assert!(
            provider.served * 10 >= gained * seconds * 9,
            "burst {burst}: {} of {}",
            provider.served,
            gained * seconds
        );
        assert!(
            provider.refused <= refused,
            "burst {burst}, {gained} a second: {} refused",
            provider.refused
        );
    }
}

#[test]
fn the_remainder_beside_a_retry_after_keeps_nobody_away_for_longer() {
    for (pause, told, longest) in [(true, true, 5_000), (true, false, 5_000), (false, true, 2_500)] {
        let mut worker = Worker::new(&format!(
            r#"{{"name": "chat", "limits": {{"requests_per_minute": 300}}, "max_wait_ms": 0,
                "learn": {{"pause_on_429": {pause}}}}}"#
        ));
        let (mut session, _) = worker.send(&chat(1));
        let mut headers: Vec<(&[u8], &[u8])> = vec![(b":status", b"429"), (b"retry-after", b"2")];
        if told {
            headers.push((b"x-ratelimit-remaining-requests", b"0"));
            headers.push((b"x-ratelimit-reset-requests", b"59.8s"));
        }
        worker.step(|env| session.response_head(&headers, b"via_upstream", true, env));
        session.response_complete(None);
        worker.step(|env| session.end(env));
        let answered = worker.millis;
        while let Some(wait) = told_to_wait(&worker.send(&chat(2)).1) {
            worker.millis += wait;
        }
        let waited = worker.millis - answered;
        assert!((1..=longest).contains(&waited), "{pause} {told}: {waited} ms");
        assert!(!pause || waited >= 2_000, "{pause} {told}: {waited} ms");
    }
}
