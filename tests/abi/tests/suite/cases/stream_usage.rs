//! What the figures in a stream mean.

use abi_host::case::{Answer, Bench, Verdict, case_bytes, field_post, play};
use serde_json::{Value, json};

use super::{after_stream, client_bytes, sound};

const SSE: &str = "text/event-stream";

/// Anthropic tells the input first and the output last, cumulative.
#[test]
fn case_use_anthropic() {
    let mut bench = Bench::new();
    let body = json!({
        "model": "m-chat", "max_tokens": 1_000, "stream": true, "messages": [{"role": "user", "content": "x"}],
    });
    let id = bench.send(field_post("/v1/messages"), body.to_string().as_bytes());
    assert_eq!(bench.verdict(id), Verdict::Admit);
    bench.finish(id, &Answer::ok(SSE, case_bytes("USE-ANTHROPIC.sse")));
    assert_eq!(bench.tpm_used(), 942);
}

/// A stream that never tells its usage is charged by what it said.
#[test]
fn case_use_not_asked() {
    play("USE-NOT-ASKED.jsonl", |_| {});
    let event =
        "data: {\"id\": \"c1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"abcd\"}}]}\n\n";
    let answer = Answer::ok(SSE, event.repeat(600) + "data: [DONE]\n\n");
    let body = json!({
        "model": "m-chat", "messages": [{"role": "user", "content": "x"}], "stream": true, "max_tokens": 2_000,
    });
    let mut bench = Bench::new();
    let mut passed = 0;
    for _ in 0..20 {
        let id = bench.send(field_post("/v1/chat/completions"), body.to_string().as_bytes());
        if bench.verdict(id) == Verdict::Admit {
            passed += 1;
            bench.finish(id, &answer);
        }
        bench.host.advance_secs(2);
    }
    assert!((12..=16).contains(&passed), "{passed} of 20 passed");
}

/// `null` is unknown, not zero, and is counted as an anomaly.
#[test]
fn case_use_null() {
    play("USE-NULL.jsonl", |_| {});
    let answer = Answer::ok(SSE, case_bytes("USE-NULL.sse"));
    let bench = after_stream(&answer);
    let used = bench.tpm_used();
    assert!((2..=420).contains(&used), "{used}");
    assert_eq!(bench.counted(&["anomalies"]), 1);
}

/// Usage may come in a chunk with choices, without, or with the last words.
#[test]
fn case_use_shape() {
    let empty_choices = "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30,\
                         \"total_tokens\":150}}\n\ndata: [DONE]\n\n";
    let shapes = [
        ("a", case_bytes("USE-SHAPE.a.sse")),
        ("b", case_bytes("USE-SHAPE.b.sse")),
        ("c", empty_choices.as_bytes().to_vec()),
        ("d", case_bytes("USE-SHAPE.d.sse")),
    ];
    for (shape, bytes) in shapes {
        assert_eq!(after_stream(&Answer::ok(SSE, bytes)).tpm_used(), 150, "shape {shape}");
    }
}

/// An error inside a 200 stream frees the output that never came, and is heard as a signal of the upstream.
#[test]
fn case_use_error_event() {
    let quiet =
        |config: &mut Value| super::every_pool(config, |pool| pool["learn"]["pause_on_429"] = false.into());
    let early = case_bytes("USE-ERROR-EVENT.sse");
    let mut bench = Bench::new();
    let id = super::admitted_stream(&mut bench);
    bench.finish(id, &Answer::ok(SSE, early.clone()));
    assert_eq!(client_bytes(&mut bench, id), early);
    assert_eq!(bench.counted(&["upstream_throttled"]), 1);
    assert!(bench.paused());
    // While the pool waits for its upstream nothing can be probed: the charge is read where nothing pauses.
    let mut bench = Bench::with(quiet);
    let id = super::admitted_stream(&mut bench);
    bench.finish(id, &Answer::ok(SSE, early));
    let used = bench.tpm_used();
    assert!((1..=30).contains(&used), "{used}: the input alone");
    sound(&bench);

    let late = case_bytes("USE-ERROR-EVENT.late.sse");
    let mut bench =
        Bench::with(|config| super::every_pool(config, |pool| pool["learn"]["pause_on_429"] = false.into()));
    let id = super::admitted_stream(&mut bench);
    bench.finish(id, &Answer::ok(SSE, late.clone()));
    assert_eq!(client_bytes(&mut bench, id), late);
    let with_output = bench.tpm_used();
    assert!(with_output > 1 && with_output <= 60, "{with_output}");
}

/// However the end callbacks come, a call is settled once.
#[test]
fn case_dup_done() {
    play("DUP-DONE.jsonl", |_| {});
    let orders: [&[&str]; 5] = [
        &["log", "done", "delete"],
        &["done", "log", "delete"],
        &["log", "log", "done", "done", "delete"],
        &["done", "delete"],
        &["delete"],
    ];
    for order in orders {
        let mut bench = Bench::new();
        let id = super::admitted(&mut bench, 100);
        bench.respond(id, &Answer::usage(13, 33));
        for end in order {
            match *end {
                "log" => bench.host.log(id),
                "done" => bench.host.done(id),
                _ => bench.host.delete(id),
            }
        }
        assert_eq!(bench.tpm_used(), 46, "{order:?}");
        sound(&bench);
    }
}

/// Retries inside Envoy are one call: one request, one charge, and a hidden 429 pauses nothing.
#[test]
fn case_dup_retry() {
    let mut bench = Bench::new();
    let id = super::admitted(&mut bench, 400);
    bench.finish(id, &Answer::usage(120, 30).header("x-envoy-attempt-count", "2"));
    assert_eq!((bench.tpm_used(), bench.rpm_used()), (150, 1));
    assert!(!bench.paused());
}
