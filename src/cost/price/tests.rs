use super::{ExceedsLimit, actual, reserve};
use crate::config::{Learn, LlmTokenWeights, Match, OutputReserve, PRESETS, Pool};
use crate::cost::dialect::classify;
use crate::cost::request::{BodySeen, RequestFacts, read_request};
use crate::cost::usage::Usage;
use crate::units::{Cost, Limits, Resource, Span};

fn pool(limits: Limits, llm_token_weights: Option<LlmTokenWeights>) -> Pool {
    Pool {
        name: "p".into(),
        matches: Match::default(),
        provider: None,
        limits,
        strict_window: true,
        burst: Span::from_secs(60),
        default_output_llm_tokens: 512,
        output_reserve: OutputReserve::MaxTokens,
        llm_token_weights,
        max_wait: Vec::new(),
        max_parked: 0,
        inject_stream_usage: false,
        learn: Learn { headers: false, pause_on_429: false, adapt: false },
        class_weights: Vec::new(),
        tenant_weights: Vec::new(),
    }
}

fn facts(input: u64) -> RequestFacts {
    let endpoint = classify(b"/v1/chat/completions", None).unwrap();
    let facts = read_request(&endpoint, b"{}", BodySeen::Complete);
    RequestFacts { input_llm_tokens: input, seen_llm_tokens: input, ..facts }
}

const fn cost(llm_tokens: u64, input: u64, output: u64) -> Cost {
    Cost { requests: 1, llm_tokens, input, output, concurrency: 1 }
}

fn total(limit: u64) -> Limits {
    Limits { llm_tokens: Some(limit), ..Limits::default() }
}

#[test]
fn input_alone_over_the_limit_can_never_pass() {
    let exceeds = ExceedsLimit { resource: Resource::LlmTokens, limit: 100, need: 101 };
    assert_eq!(reserve(&pool(total(100), None), &facts(101), 0), Err(exceeds));
    let limits = Limits { input: Some(50), llm_tokens: Some(100), ..Limits::default() };
    let exceeds = ExceedsLimit { resource: Resource::InputLlmTokens, limit: 50, need: 51 };
    assert_eq!(reserve(&pool(limits, None), &facts(51), 0), Err(exceeds));
}

#[test]
fn only_the_output_reserve_is_clamped() {
    assert_eq!(reserve(&pool(total(100), None), &facts(100), 7), Ok(cost(100, 100, 7)));
    assert_eq!(reserve(&pool(total(100), None), &facts(10), u64::MAX), Ok(cost(100, 10, u64::MAX)));
    let limits = Limits { output: Some(20), ..Limits::default() };
    assert_eq!(reserve(&pool(limits, None), &facts(10), 30), Ok(cost(30, 10, 20)));
}

#[test]
fn the_floor_of_an_unreadable_body_is_clamped_too() {
    let unreadable = RequestFacts { readable: false, ..facts(5_000) };
    assert_eq!(reserve(&pool(total(100), None), &unreadable, 10), Ok(cost(100, 5_000, 10)));
}

#[test]
fn embeddings_reserve_no_output() {
    let embeddings = RequestFacts { generates_output: false, ..facts(5) };
    assert_eq!(reserve(&pool(total(100), None), &embeddings, 50), Ok(cost(5, 5, 0)));
}

#[test]
fn weights_apply_and_round_up() {
    let weights = LlmTokenWeights {
        input_milli: 1_500,
        cached_input_milli: 100,
        cache_write_milli: 1_250,
        output_milli: 4_000,
        ..LlmTokenWeights::ONCE
    };
    let weighted = pool(Limits::default(), Some(weights));
    assert_eq!(reserve(&weighted, &facts(1), 1), Ok(cost(6, 2, 1)));
    let usage = Usage { input: Some(100), cached_input: 50, cache_write: 10, output: Some(3) };
    // 40 * 1.5 + 50 * 0.1 + 10 * 1.25 = 77.5
    assert_eq!(actual(&weighted, &usage), cost(90, 78, 3));
}

#[test]
fn nonsense_usage_saturates() {
    let plain = pool(Limits::default(), None);
    let usage = Usage {
        input: Some(u64::MAX),
        cached_input: u64::MAX,
        cache_write: u64::MAX,
        output: Some(u64::MAX),
    };
    assert_eq!(actual(&plain, &usage), cost(u64::MAX, u64::MAX, u64::MAX));
    let usage = Usage { input: Some(5), cached_input: 50, cache_write: 50, output: None };
    assert_eq!(actual(&plain, &usage), cost(5, 5, 0));
}

#[test]
fn without_weights_every_provider_counts_everything_once() {
    let usage = Usage { input: Some(10), cached_input: 9, output: Some(1), ..Usage::default() };
    assert_eq!(actual(&pool(Limits::default(), None), &usage), cost(11, 10, 1));
}

#[test]
fn presets_count_what_the_provider_counts() {
    let usage = Usage { input: Some(100), cached_input: 60, cache_write: 10, output: Some(7) };
    for (name, llm_tokens, input) in [
        ("openai", 107, 100),
        ("azure_openai", 107, 100),
        ("anthropic", 47, 40),
        ("gemini", 100, 100),
        ("bedrock", 75, 40),
        ("groq", 47, 40),
        ("mistral", 107, 100),
        ("cohere", 107, 100),
        ("ollama", 107, 100),
    ] {
        let (_, weights) = PRESETS.into_iter().find(|(preset, _)| *preset == name).unwrap();
        let pool = pool(Limits::default(), Some(weights));
        assert_eq!(actual(&pool, &usage), cost(llm_tokens, input, 7), "{name}");
    }
}
