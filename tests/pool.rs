//! Which pool a call falls into.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use envoy_backpressure::config::{Config, parse};
use envoy_backpressure::cost::dialect::classify;
use envoy_backpressure::pool::{CallSite, candidates, find, may_match, pick};

/// One pool for each `match`, named by its index.
fn pools(matches: &[&str]) -> Config {
    let pools: Vec<_> = matches
        .iter()
        .enumerate()
        .map(|(i, m)| format!(r#"{{"name": "{i}", "match": {m}, "limits": {{"requests_per_minute": 1}}}}"#))
        .collect();
    parse(format!(r#"{{"pools": [{}]}}"#, pools.join(",")).as_bytes()).unwrap()
}

fn pool_of(config: &Config, host: &str, path: &str, model: Option<&str>) -> Option<usize> {
    let call = CallSite { host: host.as_bytes(), path: path.as_bytes(), model };
    let found = find(config, &call).map(|(index, pool)| {
        assert_eq!(pool.name, index.to_string());
        index
    });
    let known = classify(path.as_bytes(), None).is_some();
    let possible = candidates(config, host.as_bytes(), path.as_bytes(), known);
    assert_eq!(may_match(config, host.as_bytes(), path.as_bytes()), !possible.is_empty());
    assert_eq!(pick(config, &possible, model).map(|(index, _)| index), found);
    found
}

const CHAT: &str = "/v1/chat/completions";

#[test]
fn the_first_pool_that_matches_wins() {
    let config = pools(&[r#"{"models": ["m-1"]}"#, r#"{"models": ["m-*"]}"#, r#"{"hosts": ["llm.test"]}"#]);
    assert_eq!(pool_of(&config, "llm.test", CHAT, Some("m-1")), Some(0));
    assert_eq!(pool_of(&config, "llm.test", CHAT, Some("m-2")), Some(1));
    assert_eq!(pool_of(&config, "llm.test", CHAT, Some("x")), Some(2));
    assert_eq!(pool_of(&config, "other.test", CHAT, Some("x")), None);
}

#[test]
fn a_call_without_a_model_falls_to_the_first_pool_that_asks_for_none() {
    let config = pools(&[r#"{"models": ["*"]}"#, r#"{"hosts": ["llm.test"]}"#, "{}"]);
    assert_eq!(pool_of(&config, "llm.test", CHAT, None), Some(1));
    assert_eq!(pool_of(&config, "other.test", CHAT, None), Some(2));
    assert_eq!(pool_of(&config, "llm.test", CHAT, Some("")), Some(0));
}

#[test]
fn model_names_are_taken_whole_whatever_they_hold() {
    let config = pools(&[
        r#"{"models": ["openrouter/google/gemini-flash-1.5"]}"#,
        r#"{"models": ["meta-llama/Llama-3.1-8B-Instruct", "anthropic.claude-3:0", "ft:gpt-4o:org::id", "gpt-4o@2024-08-06"]}"#,
        r#"{"models": ["openrouter/*"]}"#,
        "{}",
    ]);
    for (model, index) in [
        ("openrouter/google/gemini-flash-1.5", 0),
        ("OpenRouter/Google/Gemini-Flash-1.5", 0),
        ("meta-llama/llama-3.1-8b-instruct", 1),
        ("anthropic.claude-3:0", 1),
        ("ft:gpt-4o:org::id", 1),
        ("gpt-4o@2024-08-06", 1),
        ("openrouter/google/gemini-flash-1.5:free", 2),
        ("gpt-4o", 3),
        ("anthropic.claude-3", 3),
    ] {
        assert_eq!(pool_of(&config, "llm.test", CHAT, Some(model)), Some(index), "{model}");
    }
}

#[test]
fn hosts_are_compared_without_case_and_port() {
    let config = pools(&[r#"{"hosts": ["LLM.test", "*.Example.com", "[::1]"]}"#]);
    for host in
        ["llm.test", "LLM.TEST", "llm.test:443", "a.example.com", "a.b.example.com:8080", "[::1]", "[::1]:80"]
    {
        assert_eq!(pool_of(&config, host, CHAT, None), Some(0), "{host}");
    }
    for host in ["", "example.com", "llm.test.", "xllm.test", "llm.test.evil", "[::2]:80"] {
        assert_eq!(pool_of(&config, host, CHAT, None), None, "{host}");
    }
}

#[test]
fn a_host_glob_with_a_port_asks_for_that_port() {
    let config = pools(&[r#"{"hosts": ["llm.test:8443"]}"#, r#"{"hosts": ["llm.test:*"]}"#]);
    assert_eq!(pool_of(&config, "llm.test:8443", CHAT, None), Some(0));
    assert_eq!(pool_of(&config, "llm.test:80", CHAT, None), Some(1));
    assert_eq!(pool_of(&config, "llm.test", CHAT, None), None);
}

#[test]
fn paths_are_compared_with_case_without_the_query_and_decoded_once() {
    let config = pools(&[r#"{"paths": ["/v1/chat/*", "/model/*:0/invoke", "/raw%3A/*"]}"#]);
    for path in [
        "/v1/chat/x",
        "/v1/chat/?a=b",
        "/model/anthropic.claude-3%3A0/invoke",
        "/model/a%3a0/invoke?x",
        "/raw%3A/y",
    ] {
        assert_eq!(pool_of(&config, "llm.test", path, None), Some(0), "{path}");
    }
    for path in ["/V1/chat/x", "/v2?/v1/chat/x", "/model/a%253A0/invoke", "/x%", "/x%3", "/x%zz", "", "*"] {
        assert_eq!(pool_of(&config, "llm.test", path, None), None, "{path}");
    }
}

#[test]
fn a_named_path_is_metered_whether_or_not_it_is_a_known_endpoint() {
    let config = pools(&[r#"{"paths": ["/my/own"]}"#]);
    assert_eq!(pool_of(&config, "llm.test", "/my/own", None), Some(0));
}

#[test]
fn pools_that_name_no_path_take_the_generation_endpoints() {
    let config = pools(&["{}"]);
    for path in [
        CHAT,
        "/gateway/v1/messages",
        "/v1beta/models/g:generateContent?key=x",
        "/model/m%3A0/converse",
        "/api/chat",
    ] {
        assert_eq!(pool_of(&config, "llm.test", path, None), Some(0), "{path}");
    }
    for path in ["/", "/healthz", "/v1/models", "/v1/messages/count_tokens", "/v1/moderations", "/v1/files"] {
        assert_eq!(pool_of(&config, "llm.test", path, None), None, "{path}");
    }
}

#[test]
fn a_star_never_means_what_providers_do_not_count() {
    let config = pools(&[r#"{"paths": ["/v1*", "/v1/moderations"]}"#]);
    let free = [
        "/v1/messages/count_tokens?beta=true",
        "/v1beta/models/g:countTokens",
        "/v1beta/models/g%3AcountTokens",
        "/v1/models/count-tokens:rawPredict",
        "/v1/responses/input_tokens",
    ];
    for path in free {
        assert_eq!(pool_of(&config, "llm.test", path, None), None, "{path}");
    }
    assert_eq!(pool_of(&config, "llm.test", "/v1/moderations", None), Some(0));
    assert_eq!(pool_of(&config, "llm.test", "/v1/score", None), Some(0));
}
