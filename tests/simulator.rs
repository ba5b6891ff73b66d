//! The simulator's figures as assertions: they are drawn from one seed, so they repeat to the last digit.

use envoy_backpressure::sim::baseline::{FirstCome, NaiveRetry, TimeToRefill};
use envoy_backpressure::sim::provider::{Measure, Provider};
use envoy_backpressure::sim::world::beginning;
use envoy_backpressure::sim::{Gatekeeper, Outcome, loads, play};
use envoy_backpressure::units::{Cost, Limits, Span};

fn repeats<K: Gatekeeper>(mut make: impl FnMut() -> K) -> Outcome {
    let load = loads::token_bound();
    let first = play(&load, &mut make(), 1);
    assert_eq!(first, play(&load, &mut make(), 1), "the same seed gives the same run");
    assert_ne!(first, play(&load, &mut make(), 2), "another seed gives another run");
    first
}

#[test]
fn baselines_use_the_limit_but_share_it_badly() {
    let load = loads::token_bound();
    let policy = load.policy();
    let naive = repeats(|| NaiveRetry);
    let bucket = repeats(|| TimeToRefill::new(policy.clone(), beginning()));
    let queue = repeats(|| FirstCome::new(policy.clone(), beginning()));
    for outcome in [&naive, &bucket, &queue] {
        assert!(outcome.utilisation(&load) > 0.99, "{}", outcome.keeper);
        assert!(outcome.jain_classes(&load) < 0.9, "{}", outcome.keeper);
    }
    assert!(naive.provider_429 > 1000);
    assert_eq!((bucket.provider_429, queue.provider_429), (0, 0));
}

#[test]
fn a_window_provider_never_serves_more_than_its_limit_in_a_minute() {
    let limits = Limits { llm_tokens: Some(100), ..Limits::default() };
    let start = beginning();
    let mut provider = Provider::new(limits, Measure::Window, start);
    let cost = Cost { requests: 1, llm_tokens: 60, ..Cost::default() };
    assert!(provider.arrive(&cost, start));
    assert!(!provider.arrive(&cost, start.after(Span::from_millis(59_999))));
    assert!(provider.arrive(&cost, start.after(Span::from_secs(60))));
}

#[test]
fn a_bucket_provider_serves_a_larger_call_on_a_full_bucket_only() {
    let limits = Limits { llm_tokens: Some(60), ..Limits::default() };
    let start = beginning();
    let mut provider = Provider::new(limits, Measure::Bucket(Span::from_secs(10)), start);
    let large = Cost { requests: 1, llm_tokens: 30, ..Cost::default() };
    assert!(provider.arrive(&large, start));
    assert!(!provider.arrive(&large, start.after(Span::from_millis(29_999))));
    assert!(provider.arrive(&large, start.after(Span::from_secs(30))));
}
