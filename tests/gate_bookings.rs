//! What a refused caller is told, and what becomes of it.

mod gate_support;

use envoy_backpressure::config::Learn;
use envoy_backpressure::gate::{
    Ask, Decision, Ledger, Policy, Settlement, WaitReason, admit, cancel, settle, summary,
};
use envoy_backpressure::units::{Limits, Span};
use envoy_backpressure::upstream::{Throttle, ThrottleKind};
use gate_support::*;

const NOBODY: u64 = u64::MAX;

/// Plays obedient callers: (time of the first try in ms, fingerprint). Gives per caller (tries, time of admission).
fn obey(pool: &mut Pool, callers: &[(u64, u64)], llm_tokens: u64, most_tries: u32) -> Vec<(u32, u64)> {
    let mut queue: std::collections::BTreeSet<(u64, u64, u32)> =
        callers.iter().map(|&(time, print)| (time, print, 1)).collect();
    let mut done = Vec::new();
    while let Some((time, print, tries)) = queue.pop_first() {
        match pool.try_one(print, llm_tokens, at(time)) {
            None => done.push((tries, time)),
            Some(wait) if tries < most_tries => {
                queue.insert((time + wait.as_millis_ceil(), print, tries + 1));
            }
            Some(_) => done.push((tries + 1, NOBODY)),
        }
    }
    done
}

#[test]
fn callers_refused_together_are_told_different_times_and_succeed() {
    let mut pool = Pool::new(policy(Some(60), None, 60, true));
    for call in 0..60 {
        assert_eq!(pool.try_one(1_000 + call, 1, at(0)), None);
    }
    let callers: Vec<_> = (0..300).map(|call| (call * 3, call)).collect();
    let told: std::collections::BTreeSet<_> = {
        let mut pool = Pool { ledger: pool.ledger.clone(), policy: pool.policy.clone() };
        callers
            .iter()
            .map(|&(time, print)| at(time).after(pool.try_one(print, 1, at(time)).unwrap()))
            .collect()
    };
    assert!(told.len() >= 298, "{} different times for 300", told.len());
    let done = obey(&mut pool, &callers, 1, 10);
    let first = done.iter().filter(|(tries, _)| *tries <= 2).count();
    assert!(first >= 285, "{first} of 300 at the first return");
    assert!(done.iter().all(|(_, time)| *time < 400_000), "drain time is about five minutes: {done:?}");
}

#[test]
fn refusals_never_postpone_recovery() {
    for (strict, burst) in [(true, 60), (true, 10), (false, 10)] {
        let mut pool = Pool::new(policy(Some(60), None, burst, strict));
        // 90 calls a minute, nobody listens to what it is told.
        let admitted = (0..900).filter(|i| pool.try_one(*i, 1, at(i * 667)).is_none()).count();
        assert!(admitted >= 570, "strict {strict}, burst {burst}: {admitted} in ten minutes");
    }
}

#[test]
fn a_booking_outlives_its_time_by_two_seconds_but_not_by_five() {
    for (late, kept) in [(0, true), (1_000, true), (2_000, true), (5_000, false)] {
        let mut pool = Pool::new(policy(Some(60), None, 1, false));
        assert_eq!(pool.try_one(1, 1, at(0)), None);
        let wait = pool.try_one(2, 1, at(0)).unwrap().as_millis_ceil();
        // Many newcomers knock before it comes: none of them may take its place.
        for newcomer in 0..40 {
            pool.try_one(100 + newcomer, 1, at(1 + newcomer));
        }
        let admitted = pool.try_one(2, 1, at(wait + late)).is_none();
        assert_eq!(admitted, kept, "{late} ms late");
    }
}

/// Whether a newcomer has to wait for who was refused at `start` and is a little late; all come in the end.
fn waits_for_another(ledger: &mut Ledger, strangers: bool, start: u64) -> bool {
    let policy = policy(None, Some(60_000), 1, false);
    let mut told = |print: u64, time: u64| {
        ledger.count_on_nobody(strangers);
        match admit(ledger, &policy, &ask(print, 900, 1), at(time)) {
            Decision::Admit(_) => None,
            Decision::Wait(booking, _) => Some(booking.told.as_millis_ceil()),
        }
    };
    assert_eq!(told(start, start), None);
    let due = start + told(start + 1, start).unwrap();
    let newcomer = told(start + 2, due + 200);
    assert_eq!(told(start + 1, due + if newcomer.is_some() { 300 } else { 1_300 }), None);
    if let Some(wait) = newcomer {
        assert_eq!(told(start + 2, due + 200 + wait.max(1_100)), None);
    }
    newcomer.is_some()
}

#[test]
fn where_callers_may_come_back_to_another_gate_nobody_is_held_up_for_them_before_some_came() {
    assert!(waits_for_another(&mut Ledger::new(at(0)), false, 0));
    let mut ledger = Ledger::new(at(0));
    // They do come back here, one every ten seconds: soon that is known, and it is not forgotten whenever nobody waits.
    let waits: Vec<bool> =
        (0..60).map(|round| waits_for_another(&mut ledger, true, round * 10_000)).collect();
    assert!(!waits[0], "{waits:?}");
    assert!(waits[10..].iter().all(|waits| *waits), "{waits:?}");
}

#[test]
fn no_longer_wait_is_told_than_asked_for_and_the_place_is_kept() {
    let mut pool = Pool::new(policy(Some(60), None, 1, false));
    let told = |pool: &mut Pool, print: u64, time: u64| {
        let ask = envoy_backpressure::gate::Ask { max_told: Span::from_secs(20), ..ask(print, 1, 1) };
        pool.try_ask(&ask, at(time))
    };
    assert_eq!(told(&mut pool, 0, 0), None);
    let mut times: Vec<_> = (1..100_u64).map(|print| (told(&mut pool, print, 0).unwrap(), print)).collect();
    assert!(times.iter().all(|(wait, _)| *wait <= Span::from_secs(20)));
    let far: std::collections::BTreeSet<_> = times.iter().skip(25).map(|(wait, _)| *wait).collect();
    assert!(far.len() > 10, "those who renew are spread");
    let mut admitted = Vec::new();
    let mut clock: Vec<(u64, u64)> =
        times.drain(..).map(|(wait, print)| (wait.as_millis_ceil(), print)).collect();
    while let Some(next) = clock.iter().copied().min() {
        clock.retain(|entry| *entry != next);
        match told(&mut pool, next.1, next.0) {
            None => admitted.push(next.1),
            Some(wait) => clock.push((next.0 + wait.as_millis_ceil(), next.1)),
        }
    }
    let sorted = admitted.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(sorted >= 96, "first come, first served within a flow: {admitted:?}");
}

#[test]
fn callers_that_look_the_same_are_served_as_many() {
    let mut pool = Pool::new(policy(Some(60), None, 1, false));
    let mut times: Vec<u64> = Vec::new();
    for _ in 0..20 {
        if let Some(wait) = pool.try_one(7, 1, at(0)) {
            times.push(wait.as_millis_ceil());
        }
    }
    let mut tries = 0;
    let mut last = 0;
    while let Some(next) = times.iter().copied().min() {
        times.remove(times.iter().position(|time| *time == next).unwrap());
        tries += 1;
        last = next;
        if let Some(wait) = pool.try_one(7, 1, at(next)) {
            times.push(next + wait.as_millis_ceil());
        }
    }
    assert!(tries <= 22, "{tries} returns for 19 callers");
    assert!(last <= 20_050, "the last was served after {last} ms");
}

#[test]
fn knocking_all_the_time_gains_nothing_and_keeps_the_state_small() {
    let mut pool = Pool::new(policy(Some(60), None, 1, false));
    pool.try_one(0, 1, at(0));
    // Ten obedient callers, then one that knocks every 100 ms.
    let mut obedient: Vec<_> = (1..=10_u64)
        .map(|print| (pool.try_one(print, 1, at(print)).unwrap().as_millis_ceil() + print, print))
        .collect();
    let mut knocker = None;
    for step in 0..600 {
        let time = 20 + step * 100;
        obedient.retain(|&(due, print)| due > time || pool.try_one(print, 1, at(time)).is_some());
        if knocker.is_none() && pool.try_one(99, 1, at(time)).is_none() {
            knocker = Some(time);
        }
    }
    assert!(obedient.is_empty());
    assert!(knocker.unwrap() >= 10_000, "the knocker was served at {knocker:?}");
    let mut bytes = Vec::new();
    pool.ledger.encode(&mut bytes);
    assert!(bytes.len() < 8_000, "{}", bytes.len());
}

#[test]
fn a_cancelled_booking_frees_its_place_and_says_nothing_of_the_others() {
    let policy = policy(Some(60), None, 1, false);
    let mut pool = Pool::new(policy.clone());
    pool.try_one(0, 1, at(0));
    let mut booked = Vec::new();
    for print in 1..=5 {
        if let Decision::Wait(booking, _) = admit(&mut pool.ledger, &policy, &ask(print, 1, 1), at(0)) {
            booked.push(booking);
        }
    }
    for booking in &booked[..4] {
        cancel(&mut pool.ledger, &policy, booking, at(1));
    }
    let seen = summary(&pool.ledger, &policy, at(2), 10);
    assert_eq!(seen.booked, 1);
    assert_eq!(seen.flows[0].returning_permille, 1_000);
    // Back before its time, it may go at once where the others would have gone.
    assert_eq!(pool.try_one(5, 1, at(1_080)), None);
}

#[test]
fn a_clock_set_back_or_forth_by_an_hour_starves_nobody_and_mints_nothing() {
    const HOUR: u64 = 3_600_000;
    for (strict, burst) in [(true, 60), (true, 10), (false, 10)] {
        let policy = policy(Some(60), None, burst, strict);
        let mut pool = Pool::new(policy);
        let base = 2 * HOUR;
        let mut admitted = 0;
        for step in 0..120_u64 {
            // Every ten seconds of true time the clock goes an hour back and forth.
            let shift = if (step / 20) % 2 == 0 { HOUR } else { 0 };
            admitted += u32::from(pool.try_one(step, 1, at(base + shift + step * 500)).is_none());
        }
        // 60 s passed; each step forth looks like an hour of rest and may give one burst anew.
        let burst = u32::try_from(burst).unwrap();
        assert!(admitted >= 50, "strict {strict} burst {burst}: {admitted}");
        assert!(admitted <= 62 + 3 * burst, "strict {strict} burst {burst}: {admitted}");
        let later =
            (0..240).filter(|i| pool.try_one(1_000 + i, 1, at(base + 60_000 + i * 500)).is_none()).count();
        assert!(later >= 58, "strict {strict} burst {burst}: {later} in two minutes");
    }
}

#[test]
fn after_a_pause_calls_are_spread_past_its_end_and_start_slowly() {
    let mut policy = policy(Some(60), None, 60, true);
    policy.limits.requests = Some(600);
    let mut pool = Pool::new(policy.clone());
    let learn = Learn { headers: false, pause_on_429: true, adapt: false };
    let throttle = Throttle { retry_after: Some(Span::from_secs(60)), kind: ThrottleKind::RateLimited };
    pool.try_one(0, 1, at(0));
    let time = pool.ledger.time(at(0));
    pool.ledger.upstream.on_throttle(&throttle, &learn, Span::from_secs(600), time);
    let refused = admit(&mut pool.ledger, &policy, &ask(5_000, 1, 1), at(10));
    assert!(matches!(refused, Decision::Wait(_, WaitReason::UpstreamPaused)), "{refused:?}");
    let callers: Vec<_> = (0..200).map(|call| (100 + call * 10, call)).collect();
    let done = obey(&mut pool, &callers, 1, 10);
    assert!(done.iter().all(|(_, time)| *time > 61_000), "nobody leaves before the pause is over");
    let early = done.iter().filter(|(_, time)| *time < 65_000).count();
    assert!(early <= 20, "{early} of 200 in the first seconds, where the whole rate would be 40");
    let first = done.iter().filter(|(tries, _)| *tries <= 2).count();
    assert!(first >= 180, "{first} of 200 at their first return");
}

#[test]
fn more_callers_than_are_kept_are_still_told_a_time() {
    let mut pool = Pool::new(policy(Some(60), Some(10_000), 10, true));
    let mut asks = (0..4_700_u64).map(|i| {
        let mut ask = ask(i, 100 + i % 900, 1);
        ask.flow = flow(u8::try_from(i % 3).unwrap(), u32::try_from(i % 1_100).unwrap(), 1);
        ask
    });
    let policy = pool.policy.clone();
    for (count, ask) in asks.by_ref().enumerate() {
        let decision = admit(&mut pool.ledger, &policy, &ask, at(count as u64 / 100));
        if count > 100 {
            assert!(matches!(decision, Decision::Wait(..)), "call {count}");
        }
    }
    let mut bytes = Vec::new();
    pool.ledger.encode(&mut bytes);
    assert!(bytes.len() <= 65_536, "{} bytes", bytes.len());
    let seen = summary(&pool.ledger, &policy, at(60), 2_000);
    assert!(
        seen.booked >= 4_000 && seen.flows.len() >= 1_000,
        "{} calls, {} flows",
        seen.booked,
        seen.flows.len()
    );
}

#[test]
fn small_calls_pass_beside_large_ones_of_their_flow_that_cannot_use_the_room() {
    let mut pool = Pool::new(policy(Some(10), Some(1_000), 60, true));
    assert_eq!(pool.try_one(1, 600, at(0)), None);
    for print in 2..32 {
        let large = Ask { max_told: Span::from_secs(59), ..ask(print, 600, 1) };
        assert!(pool.try_ask(&large, at(print)).is_some());
    }
    // 400 are free, and the first of the large ones has its turn when all of it is free again.
    for print in 100..103 {
        assert_eq!(pool.try_one(print, 10, at(1_000 + print)), None, "call {print}");
    }
}

#[test]
fn a_caller_that_passes_a_moment_before_its_time_leaves_no_booking_behind() {
    let limits = Limits { concurrency: Some(2), ..Limits::default() };
    let mut pool = Pool::new(Policy { limits, ..policy(None, None, 10, true) });
    let mut take = |print| admit(&mut pool.ledger, &pool.policy, &ask(print, 1, 1), at(0));
    let (Decision::Admit(first), Decision::Admit(second)) = (take(1), take(2)) else { panic!() };
    let told = pool.try_one(3, 1, at(0)).unwrap().as_millis_ceil();
    for held in [first, second] {
        settle(&mut pool.ledger, &pool.policy, &held, Settlement::Actual(cost(1)), at(told - 210));
    }
    assert_eq!(pool.try_one(3, 1, at(told - 200)), None);
    assert_eq!(summary(&pool.ledger, &pool.policy, at(told - 200), 10).booked, 0);
}

#[test]
fn callers_told_to_renew_are_all_told_different_times_near_the_longest() {
    for (requests, burst, longest, calls, alike) in [
        (60, 10, 59, 75, true),
        (10, 10, 59, 100, false),
        (10, 10, 1, 100, false),
        (10, 10, 1, 100, true),
        (10, 10, 2, 100, true),
        (10, 10, 120, 200, false),
        (10, 10, 3_600, 4_000, false),
    ] {
        let mut pool = Pool::new(policy(Some(requests), None, burst, true));
        let longest = Span::from_secs(longest);
        let mut told: Vec<Span> = Vec::new();
        for call in 0..calls {
            let print = if alike { 7 } else { call };
            let ask = Ask { max_told: longest, ..ask(print, 1, 1) };
            let decision = admit(&mut pool.ledger, &pool.policy, &ask, at(0));
            if let Decision::Wait(booking, _) = decision {
                told.push(booking.told);
                if booking.wait > longest {
                    let least = longest.as_micros()
                        - (longest.as_micros() / 8).max(longest.as_micros().min(2_000_000) / 2);
                    assert!(booking.told <= longest && booking.told.as_micros() >= least, "{booking:?}");
                }
            }
        }
        let different: std::collections::BTreeSet<_> = told.iter().copied().collect();
        // Those whose turn is told exactly may meet one of the others.
        assert!(
            different.len() * 100 >= told.len() * 97 && told.len() >= 65,
            "{requests} a minute, at most {longest:?}: {} different of {}",
            different.len(),
            told.len()
        );
    }
}

#[test]
fn those_who_renew_together_are_spread_evenly() {
    let mut pool = Pool::new(policy(Some(10), None, 10, true));
    let mut told: Vec<u64> = (0..200)
        .filter_map(|_| {
            let ask = Ask { max_told: Span::from_secs(59), ..ask(7, 1, 1) };
            match admit(&mut pool.ledger, &pool.policy, &ask, at(0)) {
                Decision::Wait(booking, _) if booking.wait > booking.told => {
                    Some(booking.told.as_millis_ceil())
                }
                _ => None,
            }
        })
        .collect();
    told.sort_unstable();
    assert!(told.len() > 180);
    let gaps: Vec<u64> = told.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let even = 7_375 / told.len() as u64;
    assert!(gaps.iter().all(|gap| (1..=even * 3).contains(gap)), "{gaps:?}");
}
