//! Pools that limit concurrent requests: whose slot it is, and for how long one is kept for whoever stays away.
#![allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod gate_support;

use envoy_backpressure::gate::{Ask, Decision, Policy, Reservation, Settlement, admit, settle};
use envoy_backpressure::units::{Limits, Span};
use gate_support::*;

fn slots(count: u64) -> Pool {
    let limits = Limits { concurrency: Some(count), ..Limits::default() };
    Pool::new(Policy { limits, ..policy(None, None, 10, true) })
}

fn of_class(class: u8, weight: u32, print: u64) -> Ask {
    Ask { flow: flow(class, 0, weight), ..ask(print, 1, weight) }
}

/// Takes all slots and gives the reservations.
fn fill(pool: &mut Pool, count: u64) -> Vec<Reservation> {
    let taken = |print| match admit(&mut pool.ledger, &pool.policy, &of_class(1, 1, print), at(0)) {
        Decision::Admit(reservation) => reservation,
        Decision::Wait(..) => panic!("call {print} waits"),
    };
    (1..=count).map(taken).collect()
}

fn end(pool: &mut Pool, held: &Reservation, millis: u64) {
    settle(&mut pool.ledger, &pool.policy, held, Settlement::Actual(cost(1)), at(millis));
}

#[test]
fn a_caller_whose_time_has_come_goes_before_newcomers_of_any_weight() {
    let mut pool = slots(1);
    let held = fill(&mut pool, 1);
    let low = of_class(1, 1, 50);
    let told = pool.try_ask(&low, at(0)).unwrap().as_millis_ceil();
    end(&mut pool, &held[0], told + 20);
    assert!(pool.try_ask(&of_class(0, 1_000, 60), at(told + 30)).is_some(), "its slot was given away");
    assert_eq!(pool.try_ask(&low, at(told + 40)), None);
}

#[test]
fn of_two_callers_whose_time_has_come_the_one_told_the_earlier_time_goes_first() {
    let mut pool = slots(1);
    let held = fill(&mut pool, 1);
    let first = of_class(1, 1, 50);
    let due = pool.try_ask(&first, at(0)).unwrap().as_millis_ceil();
    let second = of_class(0, 1_000, 60);
    let later = pool.try_ask(&second, at(due - 10)).unwrap().as_millis_ceil() + due - 10;
    assert!(later > due && later < due + 2_900, "told {due} and {later}");
    end(&mut pool, &held[0], later + 10);
    assert!(pool.try_ask(&second, at(later + 20)).is_some());
    assert_eq!(pool.try_ask(&first, at(later + 30)), None);
}

#[test]
fn a_slot_that_comes_back_soon_is_not_kept_for_who_stays_away() {
    for (count, kept) in [(1, true), (20, false)] {
        let mut pool = slots(count);
        let held = fill(&mut pool, count);
        let told = pool.try_ask(&of_class(1, 1, 50), at(0)).unwrap().as_millis_ceil();
        end(&mut pool, &held[0], told);
        let newcomer = pool.try_ask(&of_class(1, 1, 60), at(told + 1_300));
        assert_eq!(newcomer.is_some(), kept, "{count} slots");
        // Who comes all the same has the place that was promised: the next slot.
        if !kept {
            end(&mut pool, &held[1], told + 1_400);
        }
        assert_eq!(pool.try_ask(&of_class(1, 1, 50), at(told + 1_500)), None, "{count} slots");
    }
}

#[test]
fn a_held_caller_looks_for_the_next_slot_sooner_than_it_is_expected() {
    let wait = |max_park| {
        let mut pool = slots(4);
        fill(&mut pool, 4);
        let told = pool.try_ask(&of_class(1, 1, 50), at(0)).unwrap().as_millis_ceil();
        let again = Ask { max_park, ..of_class(1, 1, 50) };
        pool.try_ask(&again, at(told)).unwrap()
    };
    let (told, held) = (wait(Span::ZERO), wait(Span::from_secs(1)));
    assert!(held.as_micros() * 3 < told.as_micros() + 20_000, "{held:?} when held, else {told:?}");
}
