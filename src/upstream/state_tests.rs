#![allow(clippy::arithmetic_side_effects)]

use proptest::prelude::*;

use super::*;

const LEARN: Learn = Learn { headers: true, pause_on_429: true, adapt: true };
const PAUSE_ONLY: Learn = Learn { headers: true, pause_on_429: true, adapt: false };
const CEILING: Span = Span::from_secs(59);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_792_567_680_000 + seconds * 1_000)
}

fn asked(seconds: u64) -> Throttle {
    Throttle { retry_after: Some(Span::from_secs(seconds)), kind: ThrottleKind::RateLimited }
}

fn silent() -> Throttle {
    Throttle { retry_after: None, kind: ThrottleKind::RateLimited }
}

fn quota() -> Throttle {
    Throttle { retry_after: None, kind: ThrottleKind::QuotaExhausted }
}

fn pause_seconds(state: &UpstreamState, now: Timestamp) -> u64 {
    state.blocked_until(now).map_or(0, |until| until.since(now).as_secs_ceil())
}

#[test]
fn nothing_learned_means_nothing_changed() {
    let mut state = UpstreamState::default();
    assert_eq!(state.scale_permille(at(0)), 1_000);
    assert_eq!(state.blocked_until(at(0)), None);
    assert!(!state.on_success(&LEARN, at(1), at(1)));
    assert_eq!(state, UpstreamState::default());
}

#[test]
fn the_named_wait_blocks_and_then_the_pool_reopens_gradually() {
    let mut state = UpstreamState::default();
    assert!(state.on_throttle(&asked(30), &PAUSE_ONLY, CEILING, at(0)));
    assert!(state.blocked_until(at(29)).is_some());
    let end = state.blocked_until(at(0)).unwrap();
    assert!(end >= at(30) && end <= at(31));
    assert!(state.scale_permille(end) <= 110);
    let middle = state.scale_permille(end.after(Span::from_secs(7)));
    assert!((300..800).contains(&middle), "{middle}");
    assert_eq!(state.scale_permille(end.after(Span::from_secs(20))), 1_000);
}

#[test]
fn a_wait_above_the_ceiling_is_cut() {
    let mut state = UpstreamState::default();
    state.on_throttle(&asked(4_000_000_000), &LEARN, CEILING, at(0));
    assert_eq!(state.blocked_until(at(0)), Some(at(59)));
    state.on_throttle(&asked(4_000_000_000), &LEARN, CEILING, at(40));
    assert_eq!(
        state.blocked_until(at(40)),
        Some(at(59)),
        "the ceiling counts from the start of the incident"
    );
}

#[test]
fn silent_refusals_back_off_ever_longer_up_to_the_ceiling() {
    let mut state = UpstreamState::default();
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        state.on_throttle(&silent(), &LEARN, CEILING, now);
        waits.push(pause_seconds(&state, now));
        now = state.blocked_until(now).unwrap();
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 59, 59, 59]);
    assert!(state.scale_permille(now) >= 100, "the learned limit has a floor");
}

#[test]
fn the_back_off_is_forgotten_after_a_success_or_a_quiet_minute() {
    for quiet in [false, true] {
        let mut state = UpstreamState::default();
        state.on_throttle(&silent(), &LEARN, CEILING, at(0));
        state.on_throttle(&silent(), &LEARN, CEILING, at(1));
        assert_eq!(pause_seconds(&state, at(1)), 2);
        if quiet {
            state.on_throttle(&silent(), &LEARN, CEILING, at(70));
        } else {
            assert!(state.on_success(&LEARN, at(20), at(20)));
            assert!(!state.on_success(&LEARN, at(20), at(20)));
            state.on_throttle(&silent(), &LEARN, CEILING, at(21));
        }
        let now = if quiet { at(70) } else { at(21) };
        assert_eq!(pause_seconds(&state, now), 1, "quiet: {quiet}");
    }
}

#[test]
fn refusals_of_calls_already_on_their_way_lower_the_limit_once() {
    let mut state = UpstreamState::default();
    for i in 0..20 {
        let opened = state.on_throttle(&asked(10), &LEARN, CEILING, at(0).after(Span::from_millis(i * 20)));
        assert_eq!(opened, i == 0);
    }
    assert_eq!(state.adapted(at(0)), 700);
}

#[test]
fn one_success_during_a_long_pause_shortens_it_once() {
    let mut state = UpstreamState::default();
    state.on_throttle(&asked(50), &LEARN, CEILING, at(0));
    assert!(
        !state.on_success(&LEARN, at(0), at(10)),
        "decided before the refusal, however long the answer took"
    );
    assert!(state.on_success(&LEARN, at(10), at(10)));
    assert!(pause_seconds(&state, at(10)) <= 21);
    assert!(!state.on_success(&LEARN, at(11), at(11)));
    assert_eq!(state.blocked_until(at(32)), None);
}

#[test]
fn trouble_lowers_the_limit_step_by_step_and_five_clean_minutes_restore_it() {
    let mut state = UpstreamState::default();
    let mut levels = vec![1_000];
    for second in 0..600u64 {
        let now = at(second);
        if state.blocked_until(now).is_some() {
            continue;
        }
        if second % 3 == 0 {
            state.on_throttle(&asked(89), &LEARN, CEILING, now);
            levels.push(state.adapted(now));
        } else {
            state.on_success(&LEARN, now, now);
        }
    }
    assert!(levels.windows(2).all(|pair| pair[1] < pair[0] || pair[1] == 100), "{levels:?}");
    assert!(levels.iter().all(|level| *level >= 100));
    let mut before = 0;
    for second in 600..900u64 {
        let scale = state.scale_permille(at(second));
        if state.blocked_until(at(second)).is_none() {
            assert!(scale >= before, "only upwards on clean traffic");
            before = scale;
            state.on_success(&LEARN, at(second), at(second));
        }
    }
    assert_eq!(state.scale_permille(at(900)), 1_000);
    assert_eq!(state.blocked_until(at(900)), None);
}

#[test]
fn exhausted_quota_is_probed_rarely_keeps_the_limit_and_is_cleared_by_one_success() {
    let mut state = UpstreamState::default();
    let mut now = at(0);
    for _ in 0..20 {
        state.on_throttle(&quota(), &LEARN, CEILING, now);
        assert!(pause_seconds(&state, now) >= 30);
        now = state.blocked_until(now).unwrap();
    }
    assert!(state.quota_exhausted());
    assert_eq!(state.adapted(now), 1_000);
    assert!(state.on_success(&LEARN, now, now));
    assert!(!state.quota_exhausted());
    assert_eq!((state.blocked_until(now), state.scale_permille(now)), (None, 1_000));
}

#[test]
fn quota_noticed_within_a_pause_takes_over() {
    let mut state = UpstreamState::default();
    state.on_throttle(&silent(), &LEARN, CEILING, at(0));
    assert!(state.on_throttle(&quota(), &LEARN, CEILING, at(0)));
    assert!(state.quota_exhausted());
    assert_eq!(pause_seconds(&state, at(0)), 30);
}

#[test]
fn overload_pauses_but_says_nothing_about_the_limit() {
    let mut state = UpstreamState::default();
    let overload = Throttle { retry_after: None, kind: ThrottleKind::Overloaded };
    state.on_throttle(&overload, &LEARN, CEILING, at(0));
    assert!(state.blocked_until(at(0)).is_some());
    assert_eq!(state.adapted(at(0)), 1_000);
}

#[test]
fn switches_are_obeyed() {
    let mut state = UpstreamState::default();
    let off = Learn { headers: false, pause_on_429: false, adapt: false };
    state.on_throttle(&asked(30), &off, CEILING, at(0));
    assert_eq!((state.blocked_until(at(1)), state.scale_permille(at(1))), (None, 1_000));
    let adapt = Learn { adapt: true, ..off };
    state.on_throttle(&asked(30), &adapt, CEILING, at(40));
    assert_eq!(state.blocked_until(at(41)), None);
    assert!(state.scale_permille(at(41)) < 720);
}

#[test]
fn a_limit_exhausted_for_more_than_a_minute_blocks_until_it_is_whole() {
    let mut hints = LimitHints::default();
    hints.remaining.llm_tokens = Some(0);
    hints.reset.llm_tokens = Some(Span::from_secs(360));
    hints.remaining.requests = Some(59);
    hints.reset.requests = Some(Span::from_millis(17));
    let mut state = UpstreamState::default();
    let ceiling = Span::from_secs(600);
    let off = Learn { headers: false, ..LEARN };
    assert!(!state.on_hints(&hints, &off, ceiling, at(0)));
    assert!(state.on_hints(&hints, &LEARN, ceiling, at(0)));
    assert_eq!(state.blocked_until(at(0)), Some(at(360)));
    hints.reset.llm_tokens = Some(Span::from_secs(350));
    assert!(!state.on_hints(&hints, &LEARN, ceiling, at(10)), "the same moment");
    hints.remaining.llm_tokens = Some(10);
    assert!(state.on_hints(&hints, &LEARN, ceiling, at(20)), "there is room again");
    assert_eq!(state.blocked_until(at(20)), None);
    hints.remaining.llm_tokens = Some(0);
    hints.reset.llm_tokens = Some(Span::from_secs(60));
    assert!(!state.on_hints(&hints, &LEARN, ceiling, at(30)), "a minute is the ledger's business");
    hints.reset.llm_tokens = Some(Span::from_secs(33_000));
    state.on_hints(&hints, &LEARN, CEILING, at(40));
    assert_eq!(state.blocked_until(at(40)), Some(at(99)));
}

#[test]
fn a_clock_set_back_does_not_prolong_a_pause() {
    let mut state = UpstreamState::default();
    state.on_throttle(&asked(30), &LEARN, CEILING, at(7_200));
    assert_eq!((state.blocked_until(at(0)), state.scale_permille(at(0))), (None, 1_000));
    state.on_throttle(&asked(30), &LEARN, CEILING, at(0));
    assert!(pause_seconds(&state, at(1)) <= 31);
}

#[test]
fn half_of_the_cap_used_by_somebody_else_costs_few_refusals() {
    for (limit, latency_ms) in [(60u64, 500u64), (600, 300), (3_000, 1_000)] {
        let (refused, used) = outsider(limit, latency_ms);
        assert!(refused <= 10, "{limit}/min: {refused} thousandths of the calls were refused");
        assert!(used >= 750, "{limit}/min: {used} thousandths of the other half were used");
    }
}

/// Thousandths of calls refused, and thousandths of the free half that were used, after the first minute of twenty, by a provider with a sliding minute whose half is used
/// from outside; the pool is saturated and paced at the effective limit with ten seconds' burst.
fn outsider(limit: u64, latency_ms: u64) -> (u64, u64) {
    let mut state = UpstreamState::default();
    let mut window = std::collections::VecDeque::new();
    let mut answers = std::collections::VecDeque::new();
    let (mut credit, mut outside) = (limit * 10_000, 0u64);
    let (mut calls, mut refusals) = (0u64, 0u64);
    for step in 0..120_000u64 {
        let now = at(0).after(Span::from_millis(step * 10));
        while window.front().is_some_and(|sent: &Timestamp| now.since(*sent) >= Span::from_secs(60)) {
            window.pop_front();
        }
        outside += limit * 10 / 2;
        if outside >= 60_000 {
            outside -= 60_000;
            if (window.len() as u64) < limit {
                window.push_back(now);
            }
        }
        while answers.front().is_some_and(|(due, _): &(Timestamp, bool)| *due <= now) {
            let (_, accepted) = answers.pop_front().unwrap();
            if accepted {
                state.on_success(&LEARN, now, now);
            } else {
                state.on_throttle(&silent(), &LEARN, CEILING, now);
            }
        }
        let scale = u64::from(state.scale_permille(now));
        credit =
            (credit + limit * 10 * scale / 1_000).min(limit * 10_000 * scale / 1_000).max(60_000.min(credit));
        if state.blocked_until(now).is_some() {
            continue;
        }
        while credit >= 60_000 {
            credit -= 60_000;
            let accepted = (window.len() as u64) < limit;
            if accepted {
                window.push_back(now);
            }
            answers.push_back((now.after(Span::from_millis(latency_ms)), accepted));
            if step >= 6_000 {
                calls += 1;
                refusals += u64::from(!accepted);
            }
        }
    }
    (refusals * 1_000 / calls.max(1), calls * 1_000 / (limit * 19 / 2))
}

proptest! {
    #[test]
    fn round_trip_bounds_and_totality(
        events in proptest::collection::vec((0u64..100_000_000, 0u8..6, proptest::option::of(any::<u64>())), 1..60),
        back in any::<bool>(),
    ) {
        let mut state = UpstreamState::default();
        let mut now = at(100_000);
        let mut newest = now;
        for (step, kind, wait) in events {
            now = if back && kind == 5 { now.before(Span::from_micros(step)) } else { now.after(Span::from_micros(step)) };
            let retry_after = wait.map(Span::from_micros);
            match kind {
                0 => { state.on_throttle(&Throttle { retry_after, kind: ThrottleKind::RateLimited }, &LEARN, CEILING, now); }
                1 => { state.on_throttle(&Throttle { retry_after, kind: ThrottleKind::Overloaded }, &LEARN, CEILING, now); }
                2 => { state.on_throttle(&Throttle { retry_after, kind: ThrottleKind::QuotaExhausted }, &LEARN, CEILING, now); }
                _ => { state.on_success(&LEARN, now, now); }
            }
            prop_assert!((1..=1_000).contains(&state.scale_permille(now)));
            prop_assert!(state.blocked_until(now).is_none_or(|until| until.since(now) <= CEILING));
            newest = newest.max(now);
            prop_assert_eq!(state.scale_permille(newest.after(Span::from_secs(360))), if state.quota_exhausted() { 100 } else { 1_000 });
            let mut bytes = Vec::new();
            state.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), UpstreamState::LEN);
            prop_assert_eq!(UpstreamState::decode(&bytes), Some(state));
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), now in any::<u64>()) {
        if let Some(state) = UpstreamState::decode(&bytes) {
            let now = Timestamp::from_micros(now);
            prop_assert!((1..=1_000).contains(&state.scale_permille(now)));
            let _ = state.blocked_until(now);
        }
    }
}
