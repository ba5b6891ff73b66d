//! A call of a fleet: asked of the store, decided alone when it is unwell, posted when it is back.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod session_support;

use envoy_backpressure::config::Learn;
use envoy_backpressure::fleet::webdis::Reply;
use envoy_backpressure::observe::{Anomaly, Decided};
use envoy_backpressure::session::fleet::Batch;
use envoy_backpressure::session::{Session, Verdict};
use envoy_backpressure::testing::fleet_store::encoded;
use envoy_backpressure::units::{Span, Timestamp};
use envoy_backpressure::upstream::{Throttle, ThrottleKind, UpstreamState};
use session_support::*;

const GLANCE: &str = "T,1792000000000000,59,60400000,9000,60400000,0,0,0,0,0,0,1,0,1000,0,1000";

fn worker() -> Worker {
    let mut worker =
        Worker::with(&format!(r#"{{"fleet": {{"cluster": "store", "lease_ms": 0}}, "pools": [{POOL}]}}"#));
    worker.gate.fleet.as_mut().unwrap().identify(7, 11);
    worker
}

fn lines(answer: &str) -> Option<Reply> {
    Some(Reply::Lines(vec![answer.to_owned(), GLANCE.to_owned()]))
}

fn heard(worker: &mut Worker, session: &mut Session, reply: Option<Reply>) -> Verdict {
    worker.step(|env| session.heard(reply, env))
}

/// The commands that go out at the next tick.
fn posts(worker: &mut Worker) -> Vec<(Batch, String)> {
    let mut found = Vec::new();
    while let Some(batch) = worker.step(|env| env.gate.fleet.as_mut().unwrap().next_batch(env.now)) {
        let policy = worker.gate.policy(0).unwrap().clone();
        let command = worker.gate.fleet.as_ref().unwrap().batch_command(false, &batch, &policy);
        found.push((batch, command));
    }
    found
}

fn posted(worker: &mut Worker, batch: Batch, reply: Option<Reply>) {
    let policy = worker.gate.policy(0).unwrap().clone();
    worker.step(|env| env.gate.fleet.as_mut().unwrap().posted(batch, &policy, reply, env.now, env.recorder));
}

/// The store is well again: a heartbeat was answered.
fn recover(worker: &mut Worker, envoys: u32) {
    worker.step(|env| env.gate.fleet.as_mut().unwrap().beat(env.now));
    for (batch, command) in posts(worker) {
        assert!(command.contains("/hb"), "{command}");
        posted(worker, batch, lines(&format!("H,{envoys}")));
    }
}

fn marker_of(command: &str) -> String {
    command.split(":c:").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

#[test]
fn a_call_is_asked_of_the_store_and_settled_there() {
    let mut worker = worker();
    let (mut session, verdict) = worker.send(&chat(50));
    let Verdict::Consult(command) = verdict else { panic!("{verdict:?}") };
    let command = worker.written(false, &command);
    assert!(command.starts_with("EVALSHA/") && command.contains("/bp:{chat}:s/"), "{command}");
    let verdict = heard(&mut worker, &mut session, lines("A,1792000000123456"));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    worker.answer(&mut session, "200", &usage(5, 20));
    let posts = posts(&mut worker);
    assert_eq!(posts.len(), 1);
    assert!(
        posts[0].1.contains("/s0,") && posts[0].1.contains(",1792000000123456,1,1,25,"),
        "{}",
        posts[0].1
    );
    assert!(worker.counts.anomalies.is_empty());
    assert_eq!(worker.store.value("bp.ledger.chat"), None, "nothing was taken here");
}

#[test]
fn a_refusal_of_the_store_is_told_with_its_time() {
    let mut worker = worker();
    let (mut session, _) = worker.send(&chat(50));
    let verdict = heard(&mut worker, &mut session, lines("W,4200000,4200000,o"));
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    assert_eq!((answer.status, answer.reason), (429, "over_share"));
    assert!(answer.headers.contains(&("retry-after-ms", "4200".to_owned())), "{:?}", answer.headers);
    assert!(posts(&mut worker).is_empty());
}

#[test]
fn a_store_that_does_not_answer_leaves_the_call_to_this_envoy_and_is_told_later_once() {
    let mut worker = worker();
    recover(&mut worker, 2);
    let (mut session, verdict) = worker.send(&chat(50));
    let Verdict::Consult(asked) = verdict else { panic!("{verdict:?}") };
    let asked = worker.written(false, &asked);
    let verdict = heard(&mut worker, &mut session, None);
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    assert_eq!(worker.counts.anomalies, [Anomaly::FleetUnreachable, Anomaly::FleetAlone]);
    // Who comes next is not made to wait for the timeout again.
    let (mut second, verdict) = worker.send(&chat(50));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    assert_eq!(worker.counts.decided, [Decided::Admitted; 2]);
    let asked_how = posts(&mut worker);
    assert!(
        asked_how.len() == 1 && asked_how[0].1.contains("/hb") && !asked_how[0].1.contains("/c0,"),
        "nothing but a heartbeat goes out while the store is unwell: {asked_how:?}"
    );
    worker.answer(&mut session, "200", &usage(5, 20));
    worker.answer(&mut second, "200", &usage(5, 20));
    recover(&mut worker, 2);
    let (batch, command) = posts(&mut worker).remove(0);
    assert!(command.contains("/c0,"), "{command}");
    assert_eq!(marker_of(&command), marker_of(&asked), "the store knows whether it took this already");
    posted(
        &mut worker,
        batch,
        Some(Reply::Lines(["A,1792000000000001", "A,1792000000000002", GLANCE].map(str::to_owned).to_vec())),
    );
    let settled = posts(&mut worker).remove(0).1;
    assert!(
        settled.contains(",1792000000000001,1,") && settled.contains(",1792000000000002,1,"),
        "{settled}"
    );
}

#[test]
fn alone_an_envoy_allows_its_part_of_what_was_left() {
    let mut worker = worker();
    recover(&mut worker, 3);
    let (mut session, _) = worker.send(&chat(50));
    heard(&mut worker, &mut session, None);
    // 59 requests and 9 000 LLM tokens were left to three.
    let mut passed = 1;
    while matches!(worker.send(&chat(10 + passed)).1, Verdict::Forward(_)) {
        passed += 1;
    }
    assert_eq!(passed, 19);
    assert!(worker.counts.anomalies.iter().filter(|cause| **cause == Anomaly::FleetAlone).count() > 19);
}

#[test]
fn every_odd_answer_of_the_store_leaves_the_call_to_this_envoy() {
    for (reply, cause) in [
        (Reply::Refused, Anomaly::FleetRefused),
        (Reply::NoScript, Anomaly::FleetRefused),
        (Reply::Foreign, Anomaly::FleetForeign),
        (Reply::Garbled, Anomaly::FleetGarbled),
        (Reply::Lines(Vec::new()), Anomaly::FleetGarbled),
        (Reply::Lines(vec!["A,1".to_owned()]), Anomaly::FleetGarbled),
        (Reply::Lines(vec!["A,x".to_owned(), GLANCE.to_owned()]), Anomaly::FleetGarbled),
        (Reply::Lines(vec!["W,1,1,?".to_owned(), GLANCE.to_owned()]), Anomaly::FleetGarbled),
        (Reply::Lines(vec!["A,1".to_owned(), "T,1,2".to_owned()]), Anomaly::FleetGarbled),
    ] {
        let mut worker = worker();
        let (mut session, _) = worker.send(&chat(50));
        let verdict = heard(&mut worker, &mut session, Some(reply.clone()));
        assert!(matches!(verdict, Verdict::Forward(_)), "{reply:?}");
        assert_eq!(worker.counts.anomalies, [cause, Anomaly::FleetAlone], "{reply:?}");
    }
}

/// The number of a command that comes back in its answer.
fn nonce_of(command: &str) -> u64 {
    let policy = command.split("/-/").nth(1).unwrap().split('/').next().unwrap();
    policy.rsplit(',').next().unwrap().parse().unwrap()
}

#[test]
fn an_answer_to_another_question_is_none() {
    let answer =
        |line: &str, nonce: u64| Some(Reply::Lines(vec![line.to_owned(), format!("{GLANCE},,{nonce}")]));
    let mut worker = worker();
    let (mut session, verdict) = worker.send(&chat(50));
    let Verdict::Consult(first) = verdict else { panic!("{verdict:?}") };
    let first = worker.written(false, &first);
    let (mut other, verdict) = worker.send(&chat(60));
    let Verdict::Consult(second) = verdict else { panic!("{verdict:?}") };
    let second = worker.written(false, &second);
    let verdict = heard(&mut worker, &mut session, answer("W,4200000,4200000,o", nonce_of(&first)));
    assert!(matches!(verdict, Verdict::Answer(_)), "{verdict:?}");
    assert!(worker.counts.anomalies.is_empty());
    let verdict = heard(&mut worker, &mut other, answer("W,4200000,4200000,o", nonce_of(&first)));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    assert_eq!(worker.counts.anomalies, [Anomaly::FleetGarbled, Anomaly::FleetAlone]);
    assert_ne!(nonce_of(&first), nonce_of(&second));
    // What was posted is asked again, and not taken for done; nor does a heartbeat of another moment count.
    recover(&mut worker, 1);
    let (batch, command) = posts(&mut worker).remove(0);
    let nonce = nonce_of(&command);
    posted(&mut worker, batch, answer("A,1792000000000001", nonce + 2));
    worker.step(|env| env.gate.fleet.as_mut().unwrap().beat(env.now));
    let (batch, command) = posts(&mut worker).remove(0);
    assert!(command.contains("/hb"), "{command}");
    posted(&mut worker, batch, answer("H,1", nonce_of(&command)));
    let again = posts(&mut worker).remove(0).1;
    assert!(again.contains("/c0,"), "{again}");
}

#[test]
fn a_caller_that_leaves_while_its_decision_is_on_its_way_holds_nothing() {
    let mut worker = worker();
    let (mut session, verdict) = worker.send(&chat(50));
    let Verdict::Consult(asked) = verdict else { panic!("{verdict:?}") };
    let asked = worker.written(false, &asked);
    worker.step(|env| session.end(env));
    let undone = posts(&mut worker).remove(0).1;
    assert!(undone.contains("/z0,"), "{undone}");
    assert_eq!(marker_of(&undone), marker_of(&asked));
}

#[test]
fn a_script_that_is_not_known_is_sent_under_the_same_marker() {
    let mut worker = worker();
    let (mut session, verdict) = worker.send(&chat(50));
    let Verdict::Consult(asked) = verdict else { panic!("{verdict:?}") };
    let asked = worker.written(false, &asked);
    let Some(question) = worker.step(|env| session.restated(env)) else { panic!("not asked again") };
    let again = worker.written(true, &question);
    assert!(again.starts_with("EVAL/local"), "{again:.40}");
    assert_eq!(marker_of(&again), marker_of(&asked));
}

#[test]
fn a_question_that_was_not_sent_within_the_timeout_is_not_sent_any_more() {
    for unwell in [false, true] {
        let mut worker = worker();
        let (mut session, _) = worker.send(&chat(50));
        worker.millis += 49;
        assert!(worker.step(|env| session.restated(env)).is_some());
        if unwell {
            let mut missed = asks(&mut worker).unwrap();
            heard(&mut worker, &mut missed, None);
            worker.counts.anomalies.clear();
        } else {
            worker.millis += 1;
        }
        assert_eq!(worker.step(|env| session.restated(env)), None);
        let verdict = worker.step(|env| session.unasked(env));
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        let why: &[Anomaly] = if unwell { &[] } else { &[Anomaly::FleetUnreachable] };
        assert_eq!(worker.counts.anomalies, [why, &[Anomaly::FleetAlone]].concat());
    }
}

#[test]
fn what_the_provider_teaches_is_learned_on_top_of_what_others_taught() {
    let mut worker = worker();
    let (mut session, _) = worker.send(&chat(50));
    heard(&mut worker, &mut session, lines("A,1792000000123456"));
    worker.answer(&mut session, "429", "");
    let (batch, command) = posts(&mut worker).remove(0);
    let taught = command.split("/u,").nth(1).unwrap().split('/').next().unwrap();
    assert_eq!(taught.len(), 84, "{command}");
    assert_eq!(worker.counts.throttled, 1);
    // Somebody else was faster and taught the same moment: there is nothing to add.
    let settled = "S,0,0,0,0,0,0,0,0,0";
    let reply = [settled, &format!("U,0,{taught}"), GLANCE].map(str::to_owned).to_vec();
    let reply = if command.find("/u,") < command.find("/s0,") {
        vec![reply[1].clone(), reply[0].clone(), reply[2].clone()]
    } else {
        reply
    };
    posted(&mut worker, batch, Some(Reply::Lines(reply)));
    assert!(posts(&mut worker).is_empty());
}

#[test]
fn a_refusal_from_an_outage_that_is_over_pauses_nobody_afterwards() {
    for (age, again) in [(200, true), (30_000, false)] {
        let mut worker = worker();
        recover(&mut worker, 1);
        let mut session = asks(&mut worker).unwrap();
        heard(&mut worker, &mut session, None);
        worker.answer(&mut session, "429", "");
        worker.millis += age;
        recover(&mut worker, 1);
        // The store came back empty: it does not know what this was learned on top of.
        let (batch, command) = posts(&mut worker).remove(0);
        let operations = command.split("/-/").nth(1).unwrap().split('/').skip(1);
        let answers = operations.map(|operation| {
            if operation.starts_with('u') { "U,0,".to_owned() } else { format!("A,{}000", worker.millis) }
        });
        let reply = answers.chain([GLANCE.to_owned()]).collect();
        posted(&mut worker, batch, Some(Reply::Lines(reply)));
        let commands = posts(&mut worker);
        assert_eq!(
            commands.iter().any(|(_, command)| command.contains("/u,")),
            again,
            "{age} ms: {commands:?}"
        );
    }
}

#[test]
fn a_pause_of_the_provider_is_kept_when_the_store_is_lost() {
    let mut upstream = UpstreamState::default();
    let asked = Throttle { retry_after: Some(Span::from_secs(20)), kind: ThrottleKind::RateLimited };
    // The store's clock is not this one's.
    let theirs = Timestamp::from_millis(START - 45_000);
    let learn = Learn { headers: true, pause_on_429: true, adapt: false };
    upstream.on_throttle(&asked, &learn, Span::from_secs(59), theirs);
    let paused = format!(
        "T,{},59,0,9000,0,0,0,0,0,0,0,0,0,1000,20000000,1000,{}",
        theirs.as_micros(),
        encoded(&upstream)
    );
    let mut worker = worker();
    let mut session = asks(&mut worker).unwrap();
    let refusal = vec!["W,20000000,20000000,p".to_owned(), paused];
    heard(&mut worker, &mut session, Some(Reply::Lines(refusal)));
    worker.millis += 5_000;
    let mut session = asks(&mut worker).unwrap();
    heard(&mut worker, &mut session, None);
    heard(&mut worker, &mut session, None);
    let (_, verdict) = worker.send(&chat(60));
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    assert_eq!(answer.reason, "upstream_paused");
    let told: u64 =
        answer.headers.iter().find(|(name, _)| *name == "retry-after-ms").unwrap().1.parse().unwrap();
    assert!((15_000..30_000).contains(&told), "the rest of the pause: {told}");
}

#[test]
fn a_refusal_of_the_provider_holds_back_who_is_decided_alone_whoever_admitted_the_call() {
    let mut worker = worker();
    let mut admitted = asks(&mut worker).unwrap();
    heard(&mut worker, &mut admitted, lines("A,1792000000123456"));
    let mut missed = asks(&mut worker).unwrap();
    assert!(matches!(heard(&mut worker, &mut missed, None), Verdict::Forward(_)));
    worker.answer(&mut admitted, "429", "");
    let (_, verdict) = worker.send(&chat(60));
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    assert_eq!(answer.reason, "upstream_paused");
}

#[test]
fn what_the_provider_says_is_left_counts_here_in_an_outage_and_is_not_told_afterwards() {
    let few: [(&[u8], &[u8]); 4] = [
        (b":status", b"200"),
        (b"content-type", b"application/json"),
        (b"x-ratelimit-remaining-requests", b"2"),
        (b"x-ratelimit-reset-requests", b"50s"),
    ];
    let mut worker = worker();
    recover(&mut worker, 1);
    let mut session = asks(&mut worker).unwrap();
    heard(&mut worker, &mut session, lines("A,1792000000123456"));
    worker.step(|env| session.response_head(&few, b"via_upstream", false, env));
    assert!(answered_after(&mut worker, 4)[0].contains("/r1,2,50000000,"), "the store is well and told");
    let mut session = asks(&mut worker).unwrap();
    heard(&mut worker, &mut session, None);
    worker.step(|env| session.response_head(&few, b"via_upstream", false, env));
    let passed = (0..9).filter(|call| matches!(worker.send(&chat(60 + call)).1, Verdict::Forward(_))).count();
    assert_eq!(passed, 2);
    worker.millis += 20_000;
    let told = [answered_after(&mut worker, 4), answered_after(&mut worker, 4)].concat().join("\n");
    assert!(told.contains("/c0,") && !told.contains("/r1,"), "{told}");
}

#[test]
fn an_answer_with_fewer_lines_than_were_asked_for_is_none() {
    let mut worker = worker();
    for _ in 0..2 {
        let mut session = asks(&mut worker).unwrap();
        heard(&mut worker, &mut session, lines("A,1792000000123456"));
        worker.answer(&mut session, "200", &usage(5, 20));
    }
    let (batch, command) = posts(&mut worker).remove(0);
    assert_eq!(command.matches("/s0,").count(), 2, "{command}");
    posted(&mut worker, batch, lines("S,0,0,0,0,0,0,0,0,0"));
    assert_eq!(worker.counts.anomalies, [Anomaly::FleetGarbled]);
    recover(&mut worker, 1);
    let again = answered_after(&mut worker, 4).concat();
    assert_eq!(again.matches("/s0,").count(), 2, "both are told again: {again}");
}

#[test]
fn no_decision_is_waited_for_longer_than_two_timeouts() {
    for first_misses in [true, false] {
        let mut worker = worker();
        for _ in 0..8 {
            let mut session = asks(&mut worker).unwrap();
            heard(&mut worker, &mut session, lines("A,1792000000123456"));
        }
        let began = worker.millis;
        let mut session = asks(&mut worker).unwrap();
        assert_eq!(worker.step(|env| session.patience(env.now)), Some(Span::from_millis(50)));
        let other_is_answered = |worker: &mut Worker| {
            let mut other = asks(worker).unwrap();
            heard(worker, &mut other, lines("A,1792000000123456"));
        };
        if first_misses {
            worker.millis += 50;
            other_is_answered(&mut worker);
            assert!(matches!(heard(&mut worker, &mut session, None), Verdict::Consult(_)));
        }
        // The store has forgotten the script, and says so late.
        worker.millis += 45;
        other_is_answered(&mut worker);
        let left = worker.step(|env| session.patience(env.now)).unwrap();
        assert_eq!(left, Span::from_millis(if first_misses { 5 } else { 50 }));
        worker.millis += left.as_millis_ceil();
        let mut verdict = heard(&mut worker, &mut session, None);
        while matches!(verdict, Verdict::Consult(_)) {
            worker.millis += worker.step(|env| session.patience(env.now)).unwrap().as_millis_ceil();
            verdict = heard(&mut worker, &mut session, None);
        }
        assert!(worker.millis - began <= 100, "{} ms", worker.millis - began);
    }
}

#[test]
fn an_earlier_outage_holds_nobody_back_in_the_next() {
    let mut worker = worker();
    recover(&mut worker, 3);
    let (mut session, _) = worker.send(&chat(50));
    heard(&mut worker, &mut session, None);
    for caller in 0..60 {
        worker.send(&chat(100 + caller));
    }
    assert!(worker.counts.decided.contains(&Decided::Denied));
    worker.millis += 20_000;
    recover(&mut worker, 3);
    let (mut session, _) = worker.send(&chat(51));
    heard(&mut worker, &mut session, None);
    assert_eq!(worker.counts.decided.last(), Some(&Decided::Admitted));
}

#[test]
fn a_post_that_the_store_never_takes_is_given_up() {
    let mut worker = worker();
    let (mut session, _) = worker.send(&chat(50));
    heard(&mut worker, &mut session, lines("A,1792000000123456"));
    worker.answer(&mut session, "200", &usage(5, 20));
    let mut tries = 0;
    while let Some((batch, _)) = posts(&mut worker).pop() {
        tries += 1;
        posted(&mut worker, batch, Some(Reply::Refused));
        recover(&mut worker, 1);
    }
    assert_eq!(tries, 8);
    assert_eq!(worker.counts.anomalies.last(), Some(&Anomaly::OwedDropped));
}

/// Lets what goes out be answered after so many milliseconds.
fn answered_after(worker: &mut Worker, millis: u64) -> Vec<String> {
    let mut commands = Vec::new();
    for (batch, command) in posts(worker) {
        worker.millis += millis;
        let lines = command
            .split("/-/")
            .nth(1)
            .unwrap()
            .split('/')
            .skip(1)
            .map(|operation| if operation.starts_with('h') { "H,3" } else { "S" }.to_owned());
        let lines = lines.chain([GLANCE.to_owned()]).collect();
        posted(worker, batch, Some(Reply::Lines(lines)));
        commands.push(command);
    }
    commands
}

fn asks(worker: &mut Worker) -> Option<Session> {
    let (session, verdict) = worker.send(&chat(50));
    matches!(verdict, Verdict::Consult(_)).then_some(session)
}

#[test]
fn a_call_that_is_held_and_tried_again_and_again_counts_once_as_decided_alone() {
    let pool = POOL.replace(r#""max_wait_ms": 0"#, r#""max_wait_ms": 20000, "strict_window": false"#);
    let mut worker =
        Worker::with(&format!(r#"{{"fleet": {{"cluster": "store", "lease_ms": 0}}, "pools": [{pool}]}}"#));
    worker.gate.fleet.as_mut().unwrap().identify(7, 11);
    let (mut missed, _) = worker.send(&chat(9_900));
    heard(&mut worker, &mut missed, None);
    worker.counts.anomalies.clear();
    let (mut session, verdict) = worker.send(&chat(500));
    assert!(matches!(verdict, Verdict::Park { .. }), "{verdict:?}");
    for _ in 0..5 {
        worker.millis += 25;
        let verdict = worker.step(|env| session.decide_parked(env));
        assert!(matches!(verdict, Verdict::Park { .. }), "{verdict:?}");
    }
    assert_eq!(worker.counts.anomalies, [Anomaly::FleetAlone]);
}

#[test]
fn heartbeats_of_an_envoy_whose_store_is_unwell_reach_every_pool() {
    let pools = ["a", "b", "c"].map(|name| POOL.replace("chat", name)).join(", ");
    let mut worker = Worker::with(&format!(r#"{{"fleet": {{"cluster": "store"}}, "pools": [{pools}]}}"#));
    worker.gate.fleet.as_mut().unwrap().identify(7, 11);
    let (mut missed, _) = worker.send(&chat(50));
    heard(&mut worker, &mut missed, None);
    let mut beaten = Vec::new();
    for _ in 0..6 {
        worker.millis += 500;
        worker.step(|env| env.gate.fleet.as_mut().unwrap().beat(env.now));
        let batch = worker.step(|env| env.gate.fleet.as_mut().unwrap().next_batch(env.now)).unwrap();
        let policy = worker.gate.policy(0).unwrap().clone();
        let command = worker.gate.fleet.as_ref().unwrap().batch_command(false, &batch, &policy);
        beaten.push(command.split("bp:{").nth(1).unwrap()[..1].to_owned());
    }
    assert_eq!(beaten, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn an_answer_that_was_lost_once_keeps_an_envoy_alone_for_a_round_trip_only() {
    let mut worker = worker();
    let mut session = asks(&mut worker).unwrap();
    heard(&mut worker, &mut session, None);
    assert!(asks(&mut worker).is_none());
    let commands = answered_after(&mut worker, 4);
    assert!(commands[0].contains("/hb"), "asked at once, not at the next slow tick: {commands:?}");
    assert!(asks(&mut worker).is_some());
}

#[test]
fn an_answer_lost_among_many_that_came_in_time_says_nothing_of_the_store() {
    let mut worker = worker();
    let answer_in_time = |worker: &mut Worker| {
        let mut session = asks(worker).unwrap();
        heard(worker, &mut session, lines("A,1792000000123456"));
    };
    (0..8).for_each(|_| answer_in_time(&mut worker));
    let (mut lost, verdict) = worker.send(&chat(50));
    let Verdict::Consult(first) = verdict else { panic!("{verdict:?}") };
    let first = worker.written(false, &first);
    worker.millis += 40;
    answer_in_time(&mut worker);
    worker.millis += 10;
    let Verdict::Consult(again) = heard(&mut worker, &mut lost, None) else { panic!("decided alone") };
    let again = worker.written(false, &again);
    assert_eq!(marker_of(&again), marker_of(&first), "the store may have decided already");
    assert_eq!(worker.counts.anomalies, [Anomaly::FleetUnreachable]);
    let verdict = heard(&mut worker, &mut lost, lines("W,4200000,4200000,o"));
    assert!(matches!(verdict, Verdict::Answer(_)), "{verdict:?}");
    // Several soon after each other, or silence all around one, do.
    let mut lost: Vec<Session> = (0..3).map(|_| asks(&mut worker).unwrap()).collect();
    lost.iter_mut().for_each(|lost| drop(heard(&mut worker, lost, None)));
    assert!(asks(&mut worker).is_none());
    recover(&mut worker, 1);
    (0..8).for_each(|_| answer_in_time(&mut worker));
    let mut lost = asks(&mut worker).unwrap();
    worker.millis += 50;
    heard(&mut worker, &mut lost, None);
    assert!(asks(&mut worker).is_none());
}

#[test]
fn a_store_that_answers_about_the_timeout_is_posted_to_but_not_asked_again_and_again() {
    let mut worker = worker();
    let mut delayed = 0;
    // Every decision is missed, and every heartbeat is in time: the worst there is.
    for _ in 0..40 {
        match asks(&mut worker) {
            Some(mut session) => {
                delayed += 1;
                heard(&mut worker, &mut session, None);
            }
            None => {
                answered_after(&mut worker, 4);
            }
        }
    }
    assert!(delayed <= 6, "{delayed} calls were held in vain");
    // What comes too late for a decision is still good for what nobody waits for.
    let mut worker = self::worker();
    let mut session = asks(&mut worker).unwrap();
    heard(&mut worker, &mut session, lines("A,1792000000123456"));
    let mut missed = asks(&mut worker).unwrap();
    heard(&mut worker, &mut missed, None);
    worker.answer(&mut session, "200", &usage(5, 20));
    assert!(!answered_after(&mut worker, 80).iter().any(|command| command.contains("/s0,")));
    assert!(asks(&mut worker).is_none(), "80 ms are too late for a decision");
    assert!(answered_after(&mut worker, 80).iter().any(|command| command.contains("/s0,")));
}

#[test]
fn a_call_that_a_lost_answer_would_have_refused_is_asked_once_more_under_the_same_marker() {
    let nothing_left = GLANCE.replace(",59,", ",0,").replace(",9000,", ",0,");
    let mut worker = worker();
    let mut session = asks(&mut worker).unwrap();
    heard(
        &mut worker,
        &mut session,
        Some(Reply::Lines(vec!["W,4200000,4200000,o".to_owned(), nothing_left.clone()])),
    );
    let (mut session, verdict) = worker.send(&chat(50));
    let Verdict::Consult(first) = verdict else { panic!("{verdict:?}") };
    let first = worker.written(false, &first);
    let Verdict::Consult(second) = heard(&mut worker, &mut session, None) else { panic!("refused at once") };
    let second = worker.written(false, &second);
    assert_eq!(first, second, "the store knows whether it has answered");
    assert_eq!(worker.counts.anomalies, [Anomaly::FleetUnreachable], "not decided alone");
    // Once, and not for ever.
    let verdict = heard(&mut worker, &mut session, None);
    assert!(matches!(verdict, Verdict::Answer(ref answer) if answer.status == 429), "{verdict:?}");
    assert_eq!(worker.counts.anomalies[2..], [Anomaly::FleetAlone]);
    recover(&mut worker, 1);
    let undone = posts(&mut worker).remove(0).1;
    assert!(undone.contains("/z0,") && marker_of(&undone) == marker_of(&first), "{undone}");
}

#[test]
fn what_passed_in_an_outage_is_charged_at_the_moment_when_it_passed() {
    let mut worker = worker();
    let mut session = asks(&mut worker).unwrap();
    heard(&mut worker, &mut session, None);
    worker.millis += 20_000;
    let (_, verdict) = worker.send(&chat(60));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    recover(&mut worker, 1);
    let command = posts(&mut worker).remove(0).1;
    let charges: Vec<&str> = command.split('/').filter(|part| part.starts_with("c0,")).collect();
    assert_eq!(charges.len(), 2, "{command}");
    assert!(charges[0].ends_with(",20000000,"), "{command}");
    assert_eq!(charges[1].matches(',').count(), charges[0].matches(',').count() - 1, "{command}");
}

#[test]
fn an_envoy_that_never_reached_its_store_says_so_once_a_minute() {
    let mut worker = worker();
    let warns =
        |worker: &mut Worker| worker.step(|env| env.gate.fleet.as_mut().unwrap().should_warn(env.now));
    assert!(warns(&mut worker));
    assert!(!warns(&mut worker), "not at every heartbeat");
    worker.millis += 60_000;
    assert!(warns(&mut worker));
    worker.millis += 60_000;
    recover(&mut worker, 3);
    assert!(!warns(&mut worker), "it was reached, so the number of Envoys is known");
}
