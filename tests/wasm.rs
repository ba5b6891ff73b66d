//! The pure core on wasm32-unknown-unknown, where `usize` has 32 bits: the same figures must come out as on 64.
#![cfg(all(target_arch = "wasm32", target_os = "unknown"))]
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used, clippy::panic)]

use std::rc::Rc;

use envoy_backpressure::config;
use envoy_backpressure::cost::dialect::{Dialect, classify};
use envoy_backpressure::cost::request::{BodySeen, read_request};
use envoy_backpressure::cost::usage::{ResponseHead, ResponseMeter};
use envoy_backpressure::gate::{Ledger, SharedStore};
use envoy_backpressure::hash::hash64;
use envoy_backpressure::session::admission::Seen;
use envoy_backpressure::session::suggestions::Suggestions;
use envoy_backpressure::session::{Env, Gatekeeper, Plan, Session, Verdict};
use envoy_backpressure::testing::counts::Counts;
use envoy_backpressure::testing::shared_data::SharedData;
use envoy_backpressure::units::{Span, Timestamp};
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
fn spans_round_up() {
    assert_eq!(Span::from_micros(5_000_000_001).as_secs_ceil(), 5_001);
}

#[wasm_bindgen_test]
fn hashes_are_those_of_every_platform() {
    assert_eq!(hash64(1, b"backpressure") == hash64(1, b"backpressurf"), false);
    assert_eq!(hash64(7, &[0; 100]), hash64(7, &[0; 100]));
}

#[wasm_bindgen_test]
fn a_body_is_priced_and_large_caps_saturate() {
    let endpoint = classify(b"/v1/chat/completions", None).unwrap();
    let body = br#"{"model":"m","messages":[{"role":"user","content":"hello there"}],"max_tokens":18446744073709551615,"n":9}"#;
    let facts = read_request(&endpoint, body, BodySeen::Complete);
    assert!(facts.readable && facts.input_llm_tokens > 0 && facts.input_llm_tokens < 100);
    let prefix = read_request(&endpoint, &body[..40], BodySeen::Prefix { declared_len: Some(u64::MAX) });
    assert!(prefix.input_llm_tokens > 0);
}

#[wasm_bindgen_test]
fn a_stream_gives_the_same_usage_at_every_cut() {
    let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"h\xc3\xa9llo\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30,\"total_tokens\":150}}\n\ndata: [DONE]\n\n";
    for cut in 0..stream.len() {
        let mut meter = ResponseMeter::new(&ResponseHead {
            dialect: Dialect::OpenAi,
            model: None,
            content_type: b"text/event-stream",
            content_encoding: b"",
            failed: false,
            streams: true,
        });
        meter.feed(&stream[..cut]);
        meter.feed(&stream[cut..]);
        let usage = meter.finish().usage.unwrap();
        assert_eq!((usage.input, usage.output), (Some(120), Some(30)), "cut at {cut}");
    }
}

#[wasm_bindgen_test]
fn a_cap_of_ten_admits_ten_of_a_hundred() {
    let text =
        br#"{"pools": [{"name": "p", "limits": {"requests_per_minute": 10, "tokens_per_minute": 50000000000},
        "burst_seconds": 60, "max_wait_ms": 0, "output_reserve": "max_tokens"}]}"#;
    let plan = Rc::new(Plan::new(config::parse(text).unwrap()));
    let (mut store, mut gate) = (SharedData::new(), Gatekeeper::new(Rc::clone(&plan)));
    let (mut suggestions, mut counts) = (Suggestions::new(&plan), Counts::default());
    let headers: [(&[u8], &[u8]); 3] =
        [(b":method", b"POST"), (b":path", b"/v1/chat/completions"), (b":authority", b"llm.test")];
    let mut passed = 0;
    for number in 0..100 {
        let mut env = Env {
            now: Timestamp::from_millis(1_792_000_000_000),
            store: &mut store,
            gate: &mut gate,
            suggestions: &mut suggestions,
            recorder: &mut counts,
        };
        let mut session = Session::begin(&plan, &headers, &mut |_| None, env.recorder);
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"call {number}"}}],"max_tokens":9}}"#
        );
        let verdict = session.decide(body.as_bytes(), body.len(), Seen::Whole, &mut env);
        passed += usize::from(matches!(verdict, Verdict::Forward(_)));
    }
    assert_eq!(passed, 10);
    let key = store.keys().find(|key| key.starts_with("bp.ledger.")).unwrap().to_owned();
    let mut value = Vec::new();
    store.get(&key, &mut value).unwrap();
    let ledger = Ledger::decode(&value).unwrap();
    let mut again = Vec::new();
    ledger.encode(&mut again);
    assert_eq!(value, again);
}
