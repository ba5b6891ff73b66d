//! Estimates of the input.

use abi_host::case::{Bench, Verdict, case_bytes, field_post, play};
use serde_json::json;

fn estimate(bench: &mut Bench, body: &[u8]) -> u64 {
    let id = bench.send(field_post("/v1/chat/completions"), body);
    assert_eq!(bench.verdict(id), Verdict::Admit, "{}", bench.host.stream(id).log_field());
    bench.reserved(id)
}

fn text_estimate(text: &str) -> u64 {
    let body = json!({"model": "m-chat", "max_tokens": 1, "messages": [{"role": "user", "content": text}]});
    estimate(&mut Bench::new(), body.to_string().as_bytes())
}

/// An inline image costs a bounded amount, and the same as one behind an address.
#[test]
fn case_est_img_url() {
    let mut player = play("EST-IMG-URL.jsonl", |_| {});
    let id = player.first_call();
    let inline = player.bench.reserved(id);
    let content = json!([
        {"type": "text", "text": "what is this"},
        {"type": "image_url", "image_url": {"url": "https://a.test/p.png"}},
    ]);
    let body =
        json!({"model": "m-chat", "max_tokens": 100, "messages": [{"role": "user", "content": content}]});
    let linked = estimate(&mut Bench::new(), body.to_string().as_bytes());
    assert!((150..=2_600).contains(&linked), "{linked}");
    // The inline body is above the body limit: what cannot be seen may add a little.
    assert!(inline.abs_diff(linked) <= 1_200, "inline {inline}, linked {linked}");
}

/// Four characters to the LLM token is wrong for Chinese, Japanese and Korean.
#[test]
fn case_est_cjk() {
    let han = estimate(&mut Bench::new(), &case_bytes("EST-CJK.json"));
    let kana = text_estimate(&"こんにちは".repeat(400));
    let hangul = text_estimate(&"안녕하세요".repeat(400));
    for (script, got) in [("han", han), ("kana", kana), ("hangul", hangul)] {
        assert!((1_200..=4_000).contains(&got), "{script}: {got}");
    }
    let ascii = text_estimate(&"the quick brown fox jumps over it ".repeat(176));
    assert!((1_000..=2_200).contains(&ascii), "{ascii} for 6 000 bytes of English");
}

/// Tool schemas are input too.
#[test]
fn case_est_tools() {
    let bytes = case_bytes("EST-TOOLS.json");
    let text = abi_host::case::expand_repeats(&String::from_utf8(bytes).expect("UTF-8"));
    let raise = |limit: u64| {
        move |config: &mut serde_json::Value| {
            Bench::pool(config, "m-chat")["limits"]["tokens_per_minute"] = limit.into();
        }
    };
    let cost = estimate(&mut Bench::with(raise(100_000)), text.as_bytes());
    assert!((8_000..=20_000).contains(&cost), "{cost} for {} bytes", text.len());
    let mut bench = Bench::with(raise(cost + cost / 2));
    estimate(&mut bench, text.as_bytes());
    let second = bench.send(field_post("/v1/chat/completions"), text.as_bytes());
    assert_eq!(bench.verdict(second), Verdict::Deny);
}

/// A call that costs next to nothing is still checked.
#[test]
fn case_est_zero_skip() {
    play("EST-ZERO-SKIP.jsonl", |config| {
        super::every_pool(config, |pool| pool["limits"] = json!({"tokens_per_minute": 10_000}));
    });
}
