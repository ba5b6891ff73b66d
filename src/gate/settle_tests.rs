//! What is adopted of a provider's remainder, and when it comes back.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use super::*;
use crate::units::Limits;

fn pool(limit: u64, burst: u64, strict_window: bool) -> Policy {
    Policy {
        limits: Limits { requests: Some(limit), ..Limits::default() },
        burst: Span::from_secs(burst),
        strict_window,
        reservation_ttl: Span::from_secs(600),
    }
}

/// What could be taken, and what the window alone would leave.
fn left(ledger: &mut Ledger, policy: &Policy, now: Timestamp) -> (u64, u64) {
    let rules = ledger.advance(policy, now);
    let found = ledger.meters.iter().zip(rules.meters).find_map(|(meter, rule)| Some((meter, rule?)));
    let (meter, rule) = found.unwrap();
    (meter.available(rule), meter.window_left(rule))
}

#[test]
fn an_adopted_remainder_comes_back_evenly_until_the_provider_is_full_again() {
    for (limit, burst, remaining, reset) in [
        (300, 60, 0, 60_000),
        (300, 10, 0, 59_400),
        (300, 60, 100, 41_003),
        (3, 60, 0, 60_000),
        (90_000, 30, 7, 58_999),
    ] {
        let policy = pool(limit, burst, true);
        let start = Timestamp::from_millis(1_792_567_680_123);
        let mut ledger = Ledger::new(start);
        let first = left(&mut ledger, &policy, start).0.min(remaining);
        let reset = Span::from_millis(reset);
        adopt_remaining(&mut ledger, &policy, Resource::Requests, remaining, Some(reset), start);
        assert_eq!(left(&mut ledger, &policy, start), (first, remaining));
        for step in 0..=121 {
            let now = start.after(Span::from_millis(step * 500 + 377));
            let passed = now.since(start).as_micros().min(reset.as_micros());
            let provider = remaining + (limit - remaining) * passed / reset.as_micros();
            let (available, window) = left(&mut ledger, &policy, now);
            assert!(window.abs_diff(provider) <= 1, "{limit} {burst}: {window}, {provider} after {passed}");
            assert!(available <= provider + 1, "{limit} {burst}: {available}, {provider} after {passed}");
        }
    }
}

#[test]
fn a_reset_before_a_bucket_could_be_full_is_the_end_of_a_window() {
    let policy = pool(300, 60, true);
    let start = Timestamp::from_millis(1_792_567_680_123);
    let mut ledger = Ledger::new(start);
    adopt_remaining(&mut ledger, &policy, Resource::Requests, 2, Some(Span::from_secs(50)), start);
    for (millis, free) in [(0, 2), (30_000, 2), (49_999, 2), (50_500, 300)] {
        assert_eq!(left(&mut ledger, &policy, start.after(Span::from_millis(millis))).1, free, "{millis} ms");
    }
}

#[test]
fn what_others_take_again_and_again_slows_the_refill_by_as_much() {
    for burst in [10, 60] {
        let policy = pool(300, burst, true);
        let start = Timestamp::from_millis(1_792_567_680_000);
        let mut ledger = Ledger::new(start);
        let adopt = |ledger: &mut Ledger, remaining, now| {
            adopt_remaining(ledger, &policy, Resource::Requests, remaining, Some(Span::from_secs(60)), now);
        };
        adopt(&mut ledger, 0, start);
        let missing = ledger.meters[0].missing;
        left(&mut ledger, &policy, start.after(Span::from_secs(2)));
        assert_eq!(ledger.meters[0].missing, missing, "two seconds for what was much");
        // Less than the provider's is left here: that holds calls back already.
        let later = start.after(Span::from_secs(4));
        let (available, window) = left(&mut ledger, &policy, later);
        let missing = ledger.meters[0].missing;
        adopt(&mut ledger, window - 1, later);
        left(&mut ledger, &policy, later.after(Span::from_millis(10)));
        assert!(window > available + 1 && ledger.meters[0].missing < missing, "{burst}");

        let mut ledger = Ledger::new(start);
        if burst == 60 {
            adopt(&mut ledger, 299, start);
            let missing = ledger.meters[0].missing;
            left(&mut ledger, &policy, start.after(Span::from_millis(201)));
            assert_eq!(ledger.meters[0].missing, missing, "a call's worth for one call");
            left(&mut ledger, &policy, start.after(Span::from_millis(203)));
            assert!(ledger.meters[0].missing < missing);
        }
    }
}

#[test]
fn an_adopted_amount_is_free_again_when_the_provider_says_so() {
    for (strict, burst, later) in [(true, 60, 60), (true, 10, 3), (false, 60, 12)] {
        let policy = pool(60, burst, strict);
        let left = |ledger: &mut Ledger, now: Timestamp| left(ledger, &policy, now).0;
        let start = Timestamp::from_millis(1_792_567_680_000);
        let mut ledger = Ledger::new(start);
        assert!(left(&mut ledger, start) > 0);
        adopt_remaining(&mut ledger, &policy, Resource::Requests, 0, Some(Span::from_secs(10)), start);
        assert_eq!(left(&mut ledger, start), 0, "{strict} {burst}");
        let after = start.after(Span::from_secs(12));
        assert!(left(&mut ledger, after) >= later, "{strict} {burst} {}", left(&mut ledger, after));
        adopt_remaining(&mut ledger, &policy, Resource::Requests, 0, None, after);
        assert_eq!(left(&mut ledger, after), 0);
    }
}
