//! The simulator's figures as assertions: they are drawn from one seed, so they repeat to the last digit.

use envoy_backpressure::sim::baseline::{FirstCome, NaiveRetry, TimeToRefill};
use envoy_backpressure::sim::provider::{Measure, Provider};
use envoy_backpressure::sim::report::Run;
use envoy_backpressure::sim::suite::{self, Kind};
use envoy_backpressure::sim::world::beginning;
use envoy_backpressure::sim::{Gatekeeper, Load, Outcome, loads, play};
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

/// The gate's figures on one load must be at least these.
#[derive(Clone, Copy)]
struct Bounds {
    jain: f64,
    utilisation: f64,
    kept: f64,
    tries: f64,
}

const PLAIN: Bounds = Bounds { jain: 0.999, utilisation: 0.99, kept: 0.97, tries: 2.4 };
const STRICT: Bounds = Bounds { jain: 0.999, utilisation: 0.95, kept: 0.90, tries: 2.4 };
/// Nothing is asked of this figure.
const ANY: Bounds = Bounds { jain: 0.0, utilisation: 0.0, kept: 0.0, tries: f64::INFINITY };

#[track_caller]
fn holds(kind: Kind, load: &Load, bounds: Bounds) -> Run {
    let run = kind.play(load, 1);
    let line = run.line();
    assert_eq!(run.outcome.provider_429, 0, "{}: {line}", load.name);
    assert!(run.outcome.jain_classes(&run.load) >= bounds.jain, "Jain, {}: {line}", load.name);
    assert!(run.outcome.utilisation(&run.load) >= bounds.utilisation, "use, {}: {line}", load.name);
    assert!(run.outcome.kept() >= bounds.kept, "kept, {}: {line}", load.name);
    assert!(run.outcome.tries() <= bounds.tries, "tries, {}: {line}", load.name);
    run
}

#[test]
fn contended_classes_get_their_shares_of_a_fully_used_bucket() {
    for load in loads::published() {
        holds(Kind::Gate, &load, PLAIN);
    }
}

#[test]
fn contended_classes_get_their_shares_under_a_strict_window() {
    for load in loads::published() {
        holds(Kind::Strict, &load, STRICT);
    }
}

#[test]
fn callers_who_never_return_hold_nothing_back() {
    let bounds = Bounds { jain: 0.99, utilisation: 0.99, ..ANY };
    for part in [0.3, 0.7, 0.9] {
        holds(Kind::Gate, &loads::abandoning(part), bounds);
    }
    holds(Kind::Gate, &loads::uneven_abandoning(), bounds);
    holds(Kind::Strict, &loads::abandoning(0.7), Bounds { utilisation: 0.95, ..bounds });
}

#[test]
fn single_callers_count_although_not_all_of_them_return() {
    let bounds = Bounds { jain: 0.999, utilisation: 0.98, kept: 0.95, tries: 2.2 };
    for kind in [Kind::Gate, Kind::Strict] {
        holds(kind, &loads::single_callers(), bounds);
    }
}

#[test]
fn callers_in_step_are_not_all_told_the_time_of_the_last() {
    let bounds = Bounds { jain: 0.999, utilisation: 0.99, kept: 0.99, tries: 2.1 };
    holds(Kind::Gate, &loads::in_step(), bounds);
    holds(Kind::Strict, &loads::in_step(), Bounds { utilisation: 0.97, ..bounds });
}

#[test]
fn the_high_class_waits_far_shorter_than_under_naive_retry() {
    for (load, times) in
        [(loads::token_bound(), 12.0), (loads::request_bound(), 10.0), (loads::uneven(), 50.0)]
    {
        let gain = suite::tail_gain(&load, Kind::Gate, 1);
        assert!(gain >= times, "{}: {gain}", load.name);
    }
}

#[test]
fn misbehaving_gains_nothing() {
    let polite = Kind::Gate.play(&loads::whole_second_clients(), 1);
    let hammered =
        holds(Kind::Gate, &loads::hammering(), Bounds { tries: f64::INFINITY, kept: 0.9, ..PLAIN });
    let share = |run: &Run| run.outcome.class_shares(&run.load)[&2];
    assert!(share(&hammered) <= share(&polite) * 1.02);
    holds(Kind::Gate, &loads::early_and_late(), Bounds { jain: 0.999, utilisation: 0.99, ..ANY });
}

#[test]
fn a_thousandfold_weight_starves_nobody() {
    let run = holds(Kind::Gate, &loads::extreme_weights(), Bounds { jain: 0.99, utilisation: 0.99, ..ANY });
    assert!(run.outcome.groups[1].admitted >= 15, "{}", run.line());
}

#[test]
fn limited_slots_are_used_and_hardly_held_for_callers_who_gave_up() {
    for (load, utilisation, kept, tries) in [
        (loads::streaming(), 0.965, 0.7, 3.5),
        (loads::streaming_parked(), 0.975, 0.78, 2.4),
        (loads::streaming_abandoned(), 0.91, 0.78, 2.4),
    ] {
        holds(Kind::Gate, &load, Bounds { jain: 0.999, utilisation, kept, tries });
    }
}

#[test]
fn wrong_estimates_are_settled_fairly() {
    let bounds = Bounds { jain: 0.99, ..ANY };
    holds(Kind::Gate, &loads::misestimated(2.0), Bounds { utilisation: 0.98, ..bounds });
    holds(Kind::Strict, &loads::misestimated(2.0), bounds);
    for kind in [Kind::Gate, Kind::Strict] {
        // The provider has nothing left for what was not reserved: it refuses, and the pool pauses.
        let low = kind.play(&loads::misestimated(0.5), 1);
        assert!(low.outcome.jain_classes(&low.load) >= 0.99, "{}", low.line());
        assert!(low.outcome.provider_429 > 0, "{}", low.line());
        assert!(low.outcome.provider_429 * 100 <= low.outcome.served, "{}", low.line());
    }
}

#[test]
fn three_hundred_tenants_share_alike() {
    let run = holds(Kind::Gate, &loads::many_tenants(), Bounds { jain: 0.999, utilisation: 0.99, ..ANY });
    assert!(run.outcome.jain_flows(&run.load) >= 0.98, "{}", run.outcome.jain_flows(&run.load));
}

#[test]
fn a_flooding_tenant_leaves_the_others_waits_alone() {
    for kind in [Kind::Gate, Kind::Strict] {
        let times = suite::flood_cost(kind, 1);
        assert!(times < 1.1, "{kind:?}: {times} times as long");
    }
}

#[test]
fn sdk_clients_with_two_retries_all_succeed() {
    let naive = Kind::Naive.play(&loads::sdk(), 1);
    assert!(naive.outcome.failure_rate() > 0.3, "{}", naive.line());
    for kind in [Kind::Gate, Kind::Strict] {
        let run = kind.play(&loads::sdk(), 1);
        let failed: u64 = run.outcome.groups.iter().map(|group| group.failed).sum();
        assert_eq!(failed, 0, "{}", run.line());
    }
}

#[test]
fn sdk_clients_of_a_gate_that_parks_nothing_hardly_ever_fail() {
    for (kind, seed) in [(Kind::Gate, 1), (Kind::Gate, 2), (Kind::Strict, 3)] {
        let run = kind.play(&loads::sdk_unparked(), seed);
        assert!(run.outcome.failure_rate() <= 0.003, "{}", run.line());
    }
}

#[test]
fn parked_calls_need_one_try() {
    let run = holds(Kind::Gate, &loads::parking(), Bounds { kept: 0.0, tries: 1.2, ..PLAIN });
    assert!(run.outcome.groups.iter().map(|group| group.parked).sum::<u64>() > 1000, "{}", run.line());
}

#[test]
fn changed_weights_hold_from_the_next_decision() {
    holds(Kind::Gate, &loads::reweighed(), PLAIN);
    holds(Kind::Strict, &loads::reweighed(), STRICT);
}

#[test]
fn a_stepping_clock_breaks_no_rule() {
    holds(Kind::Gate, &loads::clock_steps(), Bounds { kept: 0.0, tries: 3.0, ..PLAIN });
}

#[test]
fn limits_smaller_than_one_call_in_ten_seconds_are_used() {
    holds(Kind::Gate, &loads::tiny(), Bounds { jain: 0.99, utilisation: 0.85, ..ANY });
    holds(Kind::Gate, &loads::huge_calls(), Bounds { jain: 0.99, utilisation: 0.98, ..ANY });
}

#[test]
fn calls_of_more_than_half_a_strict_limit_pass_one_each_minute_and_no_two_together() {
    // 60 000 to 90 000 of 120 000: the most that any rule can use is one mean call in each window of 60.5 s.
    let most = 75_000.0 / 120_000.0 * 60.0 / 60.5;
    let bounds = Bounds { jain: 0.999, utilisation: 0.99 * most, kept: 0.9, tries: f64::INFINITY };
    holds(Kind::Strict, &loads::huge_calls(), bounds);
}

#[test]
fn a_herd_is_spread_over_the_time_it_takes() {
    let run =
        holds(Kind::Gate, &loads::herd(), Bounds { kept: 0.8, jain: 0.0, utilisation: 0.3, tries: 2.4 });
    assert_eq!(run.outcome.admitted(), 300, "{}", run.line());
}
