//! What a refused caller is told.

use abi_host::StreamId;
use abi_host::case::{Answer, Bench, Verdict, chat_body, field_post, play};
use serde_json::{Value, json};

use super::{admitted, client_number, fill};

/// Callers refused together are told different times, and most are admitted on their first return.
#[test]
fn case_ra_herd() {
    play("RA-HERD.jsonl", |config| config["max_retry_after_seconds"] = 600.into());
}

/// Seconds are rounded up; who waits as told is admitted.
#[test]
fn case_ra_ceil() {
    play("RA-CEIL.jsonl", |config| config["max_retry_after_seconds"] = 120.into());
    for left_ms in [400, 1_200, 59_010] {
        let mut bench = Bench::with(|config| {
            config["max_retry_after_seconds"] = 120.into();
            Bench::pool(config, "m-chat")["limits"]["requests_per_minute"] = 1.into();
        });
        let first = admitted(&mut bench, 1);
        bench.finish(first, &Answer::usage(1, 1));
        bench.host.advance_millis(60_000 - left_ms);
        let refused = bench.chat(1);
        assert_eq!(bench.verdict(refused), Verdict::Deny, "{left_ms} ms left");
        let told = client_number(&mut bench, refused, "retry-after").expect("told");
        let least = (left_ms as f64 / 1_000.0).ceil();
        assert!(told >= least && told <= least + 1.0, "{told} s told with {left_ms} ms left");
        bench.host.end(refused);
        bench.host.advance_secs(told as u64);
        admitted(&mut bench, 1);
    }
}

/// Whatever the upstream did, the wait told stays within its bound.
#[test]
fn case_ra_clamp() {
    let mut bench = Bench::with(|config| {
        let pool = Bench::pool(config, "m-chat");
        pool["limits"] = json!({"tokens_per_minute": 950_000});
        pool["learn"]["adapt"] = true.into();
    });
    let mut throttled = 0;
    for _ in 0..400 {
        let id = bench.chat(200_000);
        if bench.verdict(id) == Verdict::Admit {
            throttled += 1;
            bench.finish(id, &Answer::status(429, "application/json", "{}").header("retry-after", "1"));
        } else {
            let told = client_number(&mut bench, id, "retry-after").expect("told");
            assert!((1.0..=59.0).contains(&told), "{told}");
            bench.host.end(id);
        }
        bench.host.advance_secs(5);
        if throttled == 20 {
            break;
        }
    }
    assert_eq!(throttled, 20, "the learned limit has a floor: large calls still pass");
    let id = bench.chat(200_000);
    if bench.verdict(id) == Verdict::Deny {
        let told = client_number(&mut bench, id, "retry-after").expect("told");
        assert!((1.0..=59.0).contains(&told), "{told}");
    }
}

const LIMIT_HEADERS: [&str; 6] = [
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
];

fn check_denial(bench: &mut Bench, id: StreamId, reason: &str) {
    assert_eq!(bench.verdict(id), Verdict::Deny, "{reason}");
    let headers = bench.host.stream(id).response.sent.headers.clone().expect("answered");
    assert_eq!(headers.text("x-backpressure-reason").as_deref(), Some(reason));
    assert_eq!(headers.count("retry-after"), 1, "{reason}");
    assert_eq!(headers.text("x-should-retry").as_deref(), Some("true"));
    let seconds: u64 = headers.text("retry-after").and_then(|v| v.parse().ok()).expect("whole seconds");
    let millis: u64 = headers.text("retry-after-ms").and_then(|v| v.parse().ok()).expect("milliseconds");
    assert!((1..=59).contains(&seconds), "{seconds}");
    assert_eq!(seconds, millis.div_ceil(1_000).max(1), "{reason}");
    for name in LIMIT_HEADERS {
        assert_eq!(headers.count(name), 1, "{reason}: {name}");
    }
    let body: Value = serde_json::from_slice(&client_body(bench, id)).expect("a JSON error");
    assert!(body["error"]["message"].is_string(), "{body}");
    assert_eq!(headers.text("content-type").as_deref(), Some("application/json"));
}

fn client_body(bench: &mut Bench, id: StreamId) -> Vec<u8> {
    bench.host.stream(id).response.sent.body.clone()
}

/// Each way to be refused tells the same set of facts; admitted calls carry no wait.
#[test]
fn case_ra_every_path() {
    let mut bench = Bench::new();
    fill(&mut bench);
    let id = bench.chat(500);
    check_denial(&mut bench, id, "exhausted");

    let mut bench =
        Bench::with(|config| Bench::pool(config, "m-chat")["limits"]["concurrent_requests"] = 1.into());
    let open = admitted(&mut bench, 10);
    let id = bench.chat(10);
    check_denial(&mut bench, id, "concurrency");
    bench.finish(open, &Answer::usage(1, 1));
    let headers = bench.host.stream(open).response.sent.headers.clone().expect("answered");
    assert_eq!(headers.count("retry-after") + headers.count("retry-after-ms"), 0);
    for name in LIMIT_HEADERS {
        assert_eq!(headers.count(name), 1, "admitted: {name}");
    }

    let mut bench = Bench::new();
    let id = admitted(&mut bench, 10);
    bench.finish(id, &Answer::status(429, "application/json", "{}").header("retry-after", "20"));
    let id = bench.chat(10);
    check_denial(&mut bench, id, "upstream_paused");

    let mut bench = Bench::new();
    let text = "lorem ipsum ".repeat(15_000);
    let body = json!({"model": "m-chat", "max_tokens": 1, "messages": [{"role": "user", "content": text}]});
    let id = bench.send(field_post("/v1/chat/completions"), body.to_string().as_bytes());
    assert_eq!(bench.verdict(id), Verdict::TooLarge);
    let headers = bench.host.stream(id).response.sent.headers.clone().expect("answered");
    assert_eq!(headers.text("x-should-retry").as_deref(), Some("false"));
    assert_eq!(headers.text("x-backpressure-reason").as_deref(), Some("exceeds_limit"));
    assert_eq!(headers.count("retry-after") + headers.count("retry-after-ms"), 0);
    let error: Value = serde_json::from_slice(&client_body(&mut bench, id)).expect("JSON");
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("10000")), "{error}");
}

/// When others are owed the next free amount, the reason says so and the set of headers is the same.
#[test]
fn case_ra_every_path_over_share() {
    let mut bench = Bench::new();
    fill(&mut bench);
    // beta is told to come when the window is free again; what frees then is owed to it.
    bench.host.advance_millis(40_000);
    for size in 0..12 {
        let id = super::chat_by(&mut bench, 0, "beta", "high", 900 + size);
        check_denial(&mut bench, id, "exhausted");
        bench.host.end(id);
    }
    bench.host.advance_millis(21_200);
    let mut seen = Vec::new();
    for size in 0..14 {
        let id = super::chat_by(&mut bench, 0, "acme", "low", 800 + size);
        if bench.verdict(id) == Verdict::Deny {
            let reason = bench.host.stream(id).client_header("x-backpressure-reason").unwrap_or_default();
            check_denial(&mut bench, id, &reason);
            seen.push(reason);
        }
    }
    assert!(seen.iter().any(|reason| reason == "over_share"), "{seen:?}");
}

/// A refusal speaks the dialect of the call.
#[test]
fn case_ra_every_dialect() {
    let chat = String::from_utf8(chat_body(500)).expect("UTF-8");
    let gemini =
        "{\"contents\":[{\"parts\":[{\"text\":\"x\"}]}],\"generationConfig\":{\"maxOutputTokens\":500}}";
    let bedrock = "{\"anthropic_version\":\"bedrock-2023-05-31\",\"max_tokens\":500,\"messages\":[]}";
    let calls = [
        ("/v1/chat/completions", chat.as_str()),
        ("/v1/messages", chat.as_str()),
        ("/v1beta/models/m-chat:generateContent", gemini),
        ("/model/m-chat/invoke", bedrock),
        ("/v2/chat", chat.as_str()),
        ("/api/chat", "{\"model\":\"m-chat\",\"messages\":[],\"options\":{\"num_predict\":500}}"),
    ];
    for (path, body) in calls {
        let mut bench = Bench::new();
        fill(&mut bench);
        let id = bench.send(field_post(path), body.as_bytes());
        assert_eq!(bench.verdict(id), Verdict::Deny, "{path}");
        let error: Value = serde_json::from_slice(&client_body(&mut bench, id)).expect("a JSON error");
        match path {
            "/v1/messages" => assert_eq!(
                (&error["type"], &error["error"]["type"]),
                (&json!("error"), &json!("rate_limit_error"))
            ),
            "/v1beta/models/m-chat:generateContent" => {
                assert_eq!(
                    (&error["error"]["code"], &error["error"]["status"]),
                    (&json!(429), &json!("RESOURCE_EXHAUSTED"))
                );
            }
            "/model/m-chat/invoke" => {
                let header = client_number(&mut bench, id, "x-amz-retry-after").expect("Bedrock's header");
                assert_eq!(Some(header), client_number(&mut bench, id, "retry-after-ms"));
            }
            _ => assert!(error.is_object()),
        }
    }
}
