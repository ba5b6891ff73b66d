//! The limits themselves: what passes at once, what in a trailing minute, and what a settlement gives back.

mod gate_support;

use envoy_backpressure::config::Learn;
use envoy_backpressure::gate::{Decision, Settlement, WaitReason, admit, cancel, charge, settle, standings};
use envoy_backpressure::units::{Cost, Span, Timestamp};
use envoy_backpressure::upstream::{Throttle, ThrottleKind};
use gate_support::*;

#[test]
fn a_hundred_at_an_instant_admit_exactly_the_limit() {
    for (strict, burst) in [(true, 60), (false, 60)] {
        let mut pool = Pool::new(policy(Some(10), None, burst, strict));
        let admitted = (0..100).filter(|&i| pool.try_one(i, 1, at(0)).is_none()).count();
        assert_eq!(admitted, 10, "strict {strict}");
    }
}

#[test]
fn a_call_of_exactly_the_limit_passes_an_idle_pool() {
    for (strict, burst) in [(true, 60), (false, 60), (true, 10), (false, 10)] {
        let mut pool = Pool::new(policy(None, Some(10_000), burst, strict));
        assert_eq!(pool.try_one(1, 10_000, at(0)), None, "strict {strict} burst {burst}");
        assert!(pool.try_one(2, 1, at(1)).is_some());
    }
}

#[test]
fn nothing_is_cleared_at_the_wall_clock_minute() {
    let mut pool = Pool::new(policy(Some(60), None, 60, true));
    let first = (0..60).filter(|&i| pool.try_one(i, 1, at(59_900)).is_none()).count();
    let second = (0..60).filter(|&i| pool.try_one(100 + i, 1, at(60_100)).is_none()).count();
    assert_eq!((first, second), (60, 0));
}

#[test]
fn a_lone_obedient_caller_is_admitted_at_the_told_time() {
    for (strict, burst) in [(true, 60), (false, 60), (true, 10), (false, 10), (true, 1), (false, 1)] {
        let mut pool = Pool::new(policy(Some(7), Some(10_000), burst, strict));
        let mut now = 0;
        for call in 0..50 {
            let mut tries = 0;
            while let Some(wait) = pool.try_one(call, 977, at(now)) {
                assert!(wait <= Span::from_millis(61_000), "{wait:?}");
                now += wait.as_millis_ceil();
                tries += 1;
                assert!(tries < 2, "strict {strict} burst {burst} call {call} at {now}: told again");
            }
            now += 137;
        }
    }
}

#[test]
fn settling_lower_gives_back_and_higher_leaves_debt() {
    let policy = policy(None, Some(10_000), 60, true);
    let mut pool = Pool::new(policy.clone());
    let Decision::Admit(held) = admit(&mut pool.ledger, &policy, &ask(1, 100, 1), at(0)) else { panic!() };
    settle(&mut pool.ledger, &policy, &held, Settlement::Actual(cost(12_000)), at(1_000));
    let standing = standings(&pool.ledger, &policy, at(1_000)).llm_tokens.unwrap();
    assert_eq!((standing.limit, standing.remaining), (10_000, 0));
    assert!(standing.reset > Span::ZERO);
    // The window has forgotten, the debt is still there.
    let later = standings(&pool.ledger, &policy, at(62_000)).llm_tokens.unwrap();
    assert!(later.remaining < 9_000, "{later:?}");
}

#[test]
fn an_unused_reservation_leaves_nothing_taken() {
    let policy = policy(Some(60), Some(10_000), 10, true);
    let mut pool = Pool::new(policy.clone());
    let Decision::Admit(held) = admit(&mut pool.ledger, &policy, &ask(1, 1_000, 1), at(0)) else { panic!() };
    let settled = settle(&mut pool.ledger, &policy, &held, Settlement::Unused, at(10));
    assert_eq!(settled.refunded, Cost { llm_tokens: 1_000, requests: 1, ..Cost::default() });
    let all = standings(&pool.ledger, &policy, at(10));
    assert_eq!(all.requests.unwrap().remaining, 10);
}

#[test]
fn slots_come_back_when_calls_end_or_expire() {
    let mut limits = policy(None, None, 10, true);
    limits.limits.concurrency = Some(2);
    let mut pool = Pool::new(limits.clone());
    let mut held = Vec::new();
    for call in 0..2 {
        match admit(&mut pool.ledger, &limits, &ask(call, 1, 1), at(0)) {
            Decision::Admit(reservation) => held.push(reservation),
            Decision::Wait(..) => panic!("a slot was free"),
        }
    }
    let refused = admit(&mut pool.ledger, &limits, &ask(7, 1, 1), at(1));
    assert!(matches!(refused, Decision::Wait(_, WaitReason::Concurrency)), "{refused:?}");
    settle(&mut pool.ledger, &limits, &held[0], Settlement::Actual(cost(1)), at(500));
    assert_eq!(pool.try_one(7, 1, at(501)), None);
    assert!(pool.try_one(8, 1, at(502)).is_some());
    // The other two are never seen again.
    let later = 640_000;
    assert_eq!(pool.try_one(9, 1, at(later)), None);
    let late = settle(&mut pool.ledger, &limits, &held[1], Settlement::Actual(cost(1)), at(later));
    assert!(late.late);
    assert_eq!(pool.try_one(10, 1, at(later)), None);
    assert!(pool.try_one(11, 1, at(later)).is_some());
}

#[test]
fn a_debt_of_any_size_is_brought_up_to_any_time_at_once() {
    // Half-second steps through such a debt would take for ever.
    for strict in [true, false] {
        let policy = policy(None, Some(1), 10, strict);
        let mut pool = Pool::new(policy.clone());
        charge(&mut pool.ledger, &policy, &ask(1, u64::MAX, 1), at(0));
        let far = Timestamp::from_micros(u64::MAX / 2);
        assert_eq!(standings(&pool.ledger, &policy, at(1)).llm_tokens.unwrap().remaining, 0);
        assert!(pool.try_one(2, 1, far).is_none_or(|wait| wait > Span::ZERO));
    }
}

#[test]
fn a_bucket_that_was_full_refills_from_when_the_first_call_can_have_reached_the_provider() {
    let mut pool = Pool::new(policy(Some(600), None, 10, false));
    for print in 0..100 {
        assert_eq!(pool.try_one(print, 1, at(0)), None);
    }
    // 10 a second, the first of them 80 ms later than that.
    assert_eq!(pool.try_one(200, 1, at(0)), Some(Span::from_millis(180)));
    assert!(pool.try_one(201, 1, at(100)).is_some());
    assert_eq!(pool.try_one(200, 1, at(180)), None);
}

#[test]
fn a_reset_told_during_a_pause_and_while_a_pool_reopens_comes_true() {
    for (strict, burst) in [(true, 10), (false, 10), (true, 60), (false, 60)] {
        let policy = policy(Some(600), None, burst, strict);
        let mut pool = Pool::new(policy.clone());
        for call in 0..40 {
            assert_eq!(pool.try_one(call, 1, at(0)), None);
        }
        let learn = Learn { headers: false, pause_on_429: true, adapt: false };
        let throttle = Throttle { retry_after: Some(Span::from_secs(2)), kind: ThrottleKind::RateLimited };
        let time = pool.ledger.time(at(10));
        pool.ledger.upstream.on_throttle(&throttle, &learn, Span::from_secs(600), time);
        // Somebody asks in the pause, and goes away.
        if let Decision::Wait(booking, _) = admit(&mut pool.ledger, &policy, &ask(99, 1, 1), at(20)) {
            cancel(&mut pool.ledger, &policy, &booking, at(20));
        }
        let told = |now: u64| standings(&pool.ledger, &policy, at(now)).requests.unwrap();
        let whole = told(70_000_000).remaining;
        let after = |now: u64| now + told(now).reset.as_millis_ceil();
        let mut dues = Vec::new();
        for now in [20, 1_000, 2_000, 3_000, 5_000, 9_000] {
            let due = after(now);
            let most = if strict { 2_000 + 61_000 + 3_000 } else { 2_000 + burst * 1_000 + 15_000 };
            assert!(due <= most, "{strict} {burst}: at {now} told {due}");
            assert_eq!(told(due + 1_100).remaining, whole, "{strict} {burst}: at {now} told {due}");
            dues.push(due);
        }
        // Nor much too late: some seconds before, it is not all there.
        let due = after(9_000);
        assert!(strict || told(due - 3_500).remaining < whole, "{strict} {burst}: {dues:?}");
    }
}
