//! What the upstream says.

use abi_host::case::{Answer, Bench, Verdict, case_http, field_post, play};
use serde_json::Value;

use super::{admitted, client_bytes, client_number, sound};

/// Milliseconds that the next caller is told to wait, if it is refused.
fn told(bench: &Bench) -> Option<f64> {
    let mut probe = bench.probe();
    let (verdict, id) = probe.chat(10);
    if verdict != Verdict::Deny {
        return None;
    }
    probe.host().stream(id).client_header("retry-after-ms")?.parse().ok()
}

/// `retry-after` as a date; what cannot be read or makes no sense is the growing back-off.
#[test]
fn case_up_date() {
    let file = case_http("UP-DATE.http");
    let ahead = file.headers.text("retry-after").expect("a date");
    let sent = [
        (ahead.as_str(), Some(30_000.0)),
        ("12", Some(12_000.0)),
        (" 12 ", Some(12_000.0)),
        ("Wed, 21 Oct 2026 07:00:00 GMT", None),
        ("Wed, 21 Oct 99999 07:28:30 GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("1e9", None),
    ];
    for (value, wanted) in sent {
        let mut bench = Bench::new();
        let id = admitted(&mut bench, 10);
        let answer =
            Answer { status: 429, headers: Vec::new(), parts: Vec::new() }.header("retry-after", value);
        bench.finish(id, &answer);
        sound(&bench);
        let got = told(&bench).unwrap_or_else(|| panic!("{value:?} pauses nothing"));
        match wanted {
            // A re-opening pool lets few calls through at first, so the first caller may be told a little more.
            Some(wanted) => {
                assert!((wanted - 1_000.0..=wanted + 12_000.0).contains(&got), "{value:?}: {got}")
            }
            None => assert!((1.0..=59_000.0).contains(&got), "{value:?}: {got}"),
        }
    }
}

/// Reset headers are durations, seconds or moments.
#[test]
fn case_up_duration() {
    let file = case_http("UP-DURATION.http");
    let tell = |value: &str, name: &str| {
        let mut bench = Bench::with(|config| {
            config["max_retry_after_seconds"] = 600.into();
            super::every_pool(config, |pool| pool["learn"]["headers"] = true.into());
        });
        let id = admitted(&mut bench, 10);
        let mut headers = file.response();
        headers.remove(b"x-ratelimit-reset-tokens");
        headers.add(name.as_bytes(), value.as_bytes());
        bench.host.response_headers(id, headers, false);
        bench.host.response_body(id, &file.body, true);
        bench.host.end(id);
        sound(&bench);
        bench
    };
    let waits = [
        ("6m0s", 360.0),
        ("1m30.5s", 90.5),
        ("55", 55.0),
        // 30 s after the start of the test clock, in seconds, milliseconds and as text.
        ("1792567710", 30.0),
        ("1792567710000", 30.0),
        ("2026-10-21T07:28:30Z", 30.0),
    ];
    for (value, seconds) in waits {
        for name in ["x-ratelimit-reset-tokens", "X-RateLimit-Reset-Tokens"] {
            let got =
                told(&tell(value, name)).unwrap_or_else(|| panic!("{value}: nothing was learned")) / 1_000.0;
            assert!(
                (seconds - 1.5..=seconds + 12.0).contains(&got),
                "{name}: {value}: {got} s, not {seconds} s"
            );
        }
    }
    // Longer than can be told: bounded by what the configuration allows.
    let clamped = told(&tell("23h47m36.648s", "x-ratelimit-reset-tokens")).expect("learned") / 1_000.0;
    assert!((60.0..=600.0).contains(&clamped), "{clamped} s");
    for (value, after_ms) in [("17ms", 1_100), ("1.5s", 2_600)] {
        let mut bench = tell(value, "x-ratelimit-reset-tokens");
        bench.host.advance_millis(after_ms);
        assert_eq!(told(&bench), None, "{value} has passed");
    }
}

/// A billing stop is not a throttle: the limit is kept, the client gets the body, one 200 clears it.
#[test]
fn case_up_quota() {
    let file = case_http("UP-QUOTA.http");
    let mut bench =
        Bench::with(|config| super::every_pool(config, |pool| pool["learn"]["adapt"] = true.into()));
    let mut seen = 0;
    for _ in 0..2_000 {
        let id = bench.chat(10);
        if bench.verdict(id) == Verdict::Admit {
            bench.host.response_headers(id, file.response(), false);
            bench.host.response_body(id, &file.body, true);
            assert_eq!(client_bytes(&mut bench, id), file.body);
            seen += 1;
        }
        bench.host.end(id);
        bench.host.advance_secs(5);
        if seen == 20 {
            break;
        }
    }
    assert_eq!(seen, 20, "the upstream is asked again from time to time");
    let mut back = false;
    for _ in 0..200 {
        let id = bench.chat(10);
        if bench.verdict(id) == Verdict::Admit {
            bench.finish(id, &Answer::usage(1, 1));
            back = true;
            break;
        }
        bench.host.end(id);
        bench.host.advance_secs(5);
    }
    assert!(back, "no call reaches the upstream after the top-up");
    bench.host.advance_secs(61);
    assert_eq!(told(&bench), None, "one 200 clears the state");
    let free = (0..70).filter(|_| {
        let id = bench.chat(1);
        bench.verdict(id) == Verdict::Admit
    });
    assert!(free.count() >= 57, "the learned limit is the configured one");
}

/// A 429 for one model pauses its own pool only.
#[test]
fn case_up_scope() {
    let player = play("UP-SCOPE.jsonl", |_| {});
    let mut bench = player.bench;
    let id = bench.send(field_post("/v1/embeddings"), b"{\"model\":\"m-embed\",\"input\":\"x\"}");
    let answer = Answer::status(429, "application/json", "{}").header("retry-after", "5");
    bench.finish(id, &answer);
    bench.host.advance_secs(8);
    let id = bench.send(field_post("/v1/embeddings"), b"{\"model\":\"m-embed\",\"input\":\"x\"}");
    assert_eq!(bench.verdict(id), Verdict::Admit, "its own pause is over");
    let id = bench.chat(10);
    assert_eq!(bench.verdict(id), Verdict::Deny, "the longer one of the other pool is not");
    let wait = client_number(&mut bench, id, "retry-after").expect("told");
    assert!((15.0..=40.0).contains(&wait), "{wait}");
}

/// The client gets the upstream's own answer and limit headers untouched.
#[test]
fn case_up_headers_are_kept() {
    let file = case_http("UP-DURATION.http");
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 10);
    bench.host.response_headers(id, file.response(), false);
    bench.host.response_body(id, &file.body, true);
    let headers = bench.host.stream(id).response.sent.headers.clone().expect("sent");
    assert_eq!(headers.text("x-ratelimit-reset-tokens").as_deref(), Some("6m0s"));
    assert_eq!(headers.count("x-ratelimit-remaining-tokens"), 1);
    let body: Value = serde_json::from_slice(&file.body).expect("JSON");
    assert_eq!(serde_json::from_slice::<Value>(&client_bytes(&mut bench, id)).expect("JSON"), body);
}
