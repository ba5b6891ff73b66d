//! Names of models.

use abi_host::case::{Bench, Verdict, field_post};
use serde_json::{Value, json};

fn with_pools(models: &[&[&str]]) -> Bench {
    Bench::with(|config| {
        let mut pools = Vec::new();
        for (index, names) in models.iter().enumerate() {
            let mut pool = config["pools"][0].clone();
            pool["name"] = format!("p{index}").into();
            pool["match"]["models"] = json!(names);
            pools.push(pool);
        }
        pools.push(config["pools"][1].clone());
        config["pools"] = Value::Array(pools);
    })
}

fn pool_of(bench: &mut Bench, path: &str, body: &Value) -> String {
    let id = bench.send(field_post(path), body.to_string().as_bytes());
    assert_eq!(bench.verdict(id), Verdict::Admit);
    bench.host.stream(id).log_field()["pool"].as_str().unwrap_or_default().to_owned()
}

/// Slashes, colons, at-signs and dates are part of a name; the first pool that matches wins.
#[test]
fn case_model_slash() {
    let rules: &[&[&str]] = &[
        &["openrouter/google/gemini-flash-1.5"],
        &["openrouter/*"],
        &["meta-llama/Llama-3.1-8B-Instruct"],
        &["anthropic.claude-3:0"],
        &["ft:gpt-4o:org::id"],
        &["gpt-4o@2024-08-06"],
    ];
    let mut bench = with_pools(rules);
    let wanted = [
        ("openrouter/google/gemini-flash-1.5", "p0"),
        ("openrouter/other", "p1"),
        ("META-LLAMA/llama-3.1-8b-instruct", "p2"),
        ("anthropic.claude-3:0", "p3"),
        ("ft:gpt-4o:org::id", "p4"),
        ("gpt-4o@2024-08-06", "p5"),
        ("gpt-4o", "m-chat"),
    ];
    for (model, pool) in wanted {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "x"}]});
        assert_eq!(pool_of(&mut bench, "/v1/chat/completions", &body), pool, "{model}");
    }
}

/// A model may stand in the path instead of the body; the body's name goes first.
#[test]
fn case_model_path() {
    let mut bench = with_pools(&[&["m-azure"], &["m-gem"], &["anthropic.claude-3:0"], &["m-body"]]);
    let chat = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5});
    let azure = "/openai/deployments/m-azure/chat/completions?api-version=2024-06-01";
    assert_eq!(pool_of(&mut bench, azure, &chat), "p0");
    let mut named = chat.clone();
    named["model"] = "m-body".into();
    assert_eq!(pool_of(&mut bench, azure, &named), "p3");
    let gemini = json!({"contents": [{"parts": [{"text": "x"}]}]});
    assert_eq!(pool_of(&mut bench, "/v1beta/models/m-gem:streamGenerateContent?alt=sse", &gemini), "p1");
    assert_eq!(pool_of(&mut bench, "/model/anthropic.claude-3%3A0/invoke", &chat), "p2");
    assert_eq!(
        pool_of(&mut bench, "/model/anthropic.claude-3%253A0/invoke", &chat),
        "m-chat",
        "decoded once"
    );
}
