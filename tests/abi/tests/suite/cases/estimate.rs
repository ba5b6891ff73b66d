//! Estimates of the input.

use abi_host::case::{Bench, Verdict, case_bytes, field_post, play};
use serde_json::{Value, json};

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

/// A body with forty tool definitions, 60 kB of schema.
fn forty_tools() -> String {
    let tool = |n: usize| {
        let properties: serde_json::Map<String, Value> = (0..9)
            .map(|p| {
                let text = format!(
                    "Value number {p} of the search, as the caller wrote it, or nothing to match everything"
                );
                (format!("search_field_{p}"), json!({"type": "string", "description": text}))
            })
            .collect();
        json!({"type": "function", "function": {
            "name": format!("lookup_record_{n}"),
            "description": "Looks a record up by any of its fields and returns the first ten that match.",
            "parameters": {"type": "object", "properties": properties, "required": ["search_field_0"]},
        }})
    };
    let tools: Vec<Value> = (0..40).map(tool).collect();
    json!({"model": "m-chat", "max_tokens": 16, "messages": [{"role": "user", "content": "hello"}], "tools": tools})
        .to_string()
}

/// Tool schemas are input too. The file has four definitions with long runs of single letters, which real tokenizers
/// split at every letter; forty ordinary ones are built here.
#[test]
fn case_est_tools() {
    let raise = |limit: u64| {
        move |config: &mut Value| {
            Bench::pool(config, "m-chat")["limits"]["tokens_per_minute"] = limit.into();
        }
    };
    let four = estimate(&mut Bench::new(), &case_bytes("EST-TOOLS.json"));
    assert!((800..=4_000).contains(&four), "{four}");
    let text = forty_tools();
    assert!((50_000..70_000).contains(&text.len()), "{}", text.len());
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
