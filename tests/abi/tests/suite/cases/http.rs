//! Methods, empty bodies, upgrades, own replies, injected options.

use abi_host::case::{Answer, Bench, Verdict, case_bytes, chat_body, field_post, play};
use abi_host::{Headers, StreamId};
use serde_json::{Value, json};

use super::{admitted, fill, sound};

fn bare(bench: &mut Bench, method: &str, path: &str) -> StreamId {
    let headers = Headers::from_text(&[
        (":method", method),
        (":path", path),
        (":authority", "llm.test"),
        ("x-tenant", "acme"),
    ]);
    bench.host.open(0, headers, true)
}

/// Calls without a body neither wait for one nor cost anything, also while the pool is paused.
#[test]
fn case_http_no_body() {
    play("HTTP-NO-BODY.jsonl", |_| {});
    let free = [
        ("GET", "/v1/models"),
        ("HEAD", "/"),
        ("OPTIONS", "/v1/chat/completions"),
        ("DELETE", "/v1/files/f"),
        ("GET", "/healthz"),
    ];
    let mut bench = Bench::new();
    for (method, path) in free {
        let id = bare(&mut bench, method, path);
        assert_eq!(bench.verdict(id), Verdict::Admit, "{method} {path}");
    }
    assert_eq!((bench.tpm_used(), bench.rpm_used()), (0, 0));
    let id = bare(&mut bench, "POST", "/v1/chat/completions");
    assert_eq!(bench.verdict(id), Verdict::Admit);
    assert_eq!(bench.rpm_used(), 1);

    let mut bench = Bench::new();
    let id = admitted(&mut bench, 10);
    bench.finish(id, &Answer::status(429, "application/json", "{}").header("retry-after", "30"));
    assert!(bench.paused());
    let id = bare(&mut bench, "GET", "/v1/models");
    assert_eq!(bench.verdict(id), Verdict::Admit);
}

/// Our own 429 comes back through our response callbacks and teaches nothing.
#[test]
fn case_http_self_reply() {
    play("HTTP-SELF-REPLY.jsonl", |_| {});
    let mut bench = Bench::new();
    fill(&mut bench);
    let throttled = bench.counted(&["upstream_throttled"]);
    for _ in 0..5 {
        let id = bench.chat(500);
        assert_eq!(bench.verdict(id), Verdict::Deny);
        bench.host.end(id);
    }
    assert_eq!(bench.counted(&["upstream_throttled"]), throttled);
    bench.host.advance_secs(61);
    admitted(&mut bench, 500);
    sound(&bench);
}

/// An upgraded connection is handed through unread.
#[test]
fn case_http_upgrade() {
    play("HTTP-UPGRADE.jsonl", |_| {});
    let mut bench = Bench::new();
    let headers = Headers::from_text(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":path", "/v1/realtime?model=m-chat"),
        (":authority", "llm.test"),
    ]);
    let id = bench.host.open(0, headers, false);
    assert_eq!(bench.verdict(id), Verdict::Admit);
    let before = bench.host.memory_bytes();
    for _ in 0..600 {
        bench.host.request_body(id, &[0x82; 4_096], false);
        bench.host.response_body(id, &[0x82; 4_096], false);
    }
    assert_eq!(bench.host.stream(id).request.sent.body.len(), 600 * 4_096);
    assert!(bench.host.memory_bytes() <= before + (1 << 20));
    assert_eq!((bench.tpm_used(), bench.rpm_used()), (0, 0));
}

fn upstream_saw(change: impl FnOnce(&mut Value), headers: Headers, body: &[u8]) -> (Headers, Vec<u8>) {
    let mut bench = Bench::with(change);
    let id = bench.send(headers, body);
    assert_eq!(bench.verdict(id), Verdict::Admit);
    let sent = bench.host.stream(id).request.sent.clone();
    (sent.headers.expect("sent"), sent.body)
}

/// Nothing is added to a request unless the operator asks; then only to streams, and only what is missing.
#[test]
fn case_http_inject() {
    let file = case_bytes("HTTP-INJECT.json");
    let mut headers = field_post("/v1/chat/completions");
    headers.add(b"content-length", file.len().to_string().as_bytes());
    let (sent_headers, sent_body) = upstream_saw(|_| {}, headers.clone(), &file);
    assert_eq!(sent_body, file);
    for (name, value) in &headers.0 {
        assert_eq!(sent_headers.get(name), Some(value.as_slice()));
    }
    assert_eq!(sent_headers.text("accept-encoding").as_deref(), Some("identity"));
    assert_eq!(sent_headers.len(), headers.len() + 1);

    let on = |config: &mut Value| super::every_pool(config, |pool| pool["inject_stream_usage"] = true.into());
    let chat = |extra: Value| {
        let mut body = json!({"model": "m-chat", "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().expect("object").extend(extra.as_object().expect("object").clone());
        body
    };
    let streams = [
        json!({"stream": true}),
        json!({"stream": true, "stream_options": {}}),
        json!({"stream": true, "stream_options": null}),
        json!({"stream": true, "stream_options": {"include_obfuscation": false}}),
    ];
    for extra in streams {
        let body = chat(extra).to_string();
        let mut headers = field_post("/v1/chat/completions");
        headers.add(b"content-length", body.len().to_string().as_bytes());
        let (sent_headers, sent_body) = upstream_saw(on, headers, body.as_bytes());
        let got: Value = serde_json::from_slice(&sent_body).expect("still JSON");
        let mut wanted: Value = serde_json::from_str(&body).expect("JSON");
        if !wanted["stream_options"].is_object() {
            wanted["stream_options"] = json!({});
        }
        wanted["stream_options"]["include_usage"] = true.into();
        assert_eq!(got, wanted);
        let length = sent_headers.text("content-length");
        assert!(length.is_none_or(|value| value == sent_body.len().to_string()));
    }
    for extra in [json!({}), json!({"stream": false}), json!({"stream": "true"}), json!({"stream": 1})] {
        let body = chat(extra).to_string();
        let (_, sent_body) = upstream_saw(on, field_post("/v1/chat/completions"), body.as_bytes());
        assert_eq!(sent_body, body.as_bytes());
    }
    let long = chat(json!({"stream": true, "pad": "p".repeat(300_000)})).to_string();
    let raise = |config: &mut Value| {
        on(config);
        super::every_pool(config, |pool| pool["limits"]["tokens_per_minute"] = 2_000_000.into());
    };
    let (_, sent_body) = upstream_saw(raise, field_post("/v1/chat/completions"), long.as_bytes());
    assert!(sent_body == long.as_bytes(), "above the body limit nothing is changed");
}

/// The request reaches the upstream as it came.
#[test]
fn case_http_bytes_are_kept() {
    let body = chat_body(5);
    let (_, sent) = upstream_saw(|_| {}, field_post("/v1/chat/completions"), &body);
    assert_eq!(sent, body);
}
