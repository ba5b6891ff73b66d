//! The reserve for the output.

use abi_host::case::{Bench, Verdict, case_bytes, field_post, play};
use serde_json::json;

use super::admitted;

/// Of several caps the largest counts, whatever their order and path; it is clamped to what can fit at all.
#[test]
fn case_out_two_caps() {
    let chat = |extra: &str| {
        format!("{{\"model\":\"m-chat\",\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}],{extra}}}")
            .into_bytes()
    };
    let full = [
        case_bytes("OUT-TWO-CAPS.json"),
        chat("\"max_completion_tokens\":10000,\"max_tokens\":1"),
        chat("\"max_tokens\":10000,\"max_completion_tokens\":1"),
        chat("\"max_tokens\":1,\"max_output_tokens\":10000"),
        chat("\"max_tokens\":18446744073709551615"),
    ];
    for body in full {
        let mut bench = Bench::new();
        let id = bench.send(field_post("/v1/chat/completions"), &body);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(bench.verdict(id), Verdict::Admit, "{text}");
        if text.contains("18446744073709551615") {
            // Absurd: the default is taken.
            continue;
        }
        assert_eq!(bench.tpm_used(), 10_000, "{text}");
    }
    for extra in
        ["\"max_tokens\":null", "\"max_tokens\":-5", "\"max_tokens\":\"many\"", "\"max_tokens\":1.5e300"]
    {
        let mut bench = Bench::new();
        let id = bench.send(field_post("/v1/chat/completions"), &chat(extra));
        let reserved = bench.reserved(id);
        assert!((512..=540).contains(&reserved) || extra.contains("e300"), "{extra}: {reserved}");
    }
}

/// Without any cap a pool of requests needs none, a pool of LLM tokens takes the default.
#[test]
fn case_out_absent() {
    let body = case_bytes("OUT-ABSENT.json");
    let mut requests_only = Bench::with(|config| {
        super::every_pool(config, |pool| pool["limits"] = json!({"requests_per_minute": 60}));
    });
    let id = requests_only.send(field_post("/v1/chat/completions"), &body);
    assert_eq!(requests_only.verdict(id), Verdict::Admit);
    let mut bench = Bench::new();
    let id = bench.send(field_post("/v1/chat/completions"), &body);
    assert_eq!(bench.verdict(id), Verdict::Admit);
    let reserved = bench.reserved(id);
    assert!((513..=530).contains(&reserved), "{reserved}");
    assert_eq!(bench.host.stream(id).request.sent.body, body);
}

/// The responses dialect has its own names for caps and usage.
#[test]
fn case_out_responses() {
    play("OUT-RESPONSES.jsonl", |_| {});
}

/// Several answers to one prompt multiply the reserve.
#[test]
fn case_out_many_choices() {
    let mut bench = Bench::new();
    let one = admitted(&mut bench, 100);
    let one = bench.reserved(one);
    let body = json!({
        "model": "m-chat", "messages": [{"role": "user", "content": "x"}], "max_tokens": 100, "n": 5,
    });
    let id = bench.send(field_post("/v1/chat/completions"), body.to_string().as_bytes());
    let five = bench.reserved(id);
    assert!((one + 395..=one + 410).contains(&five), "{one}, {five}");
}
