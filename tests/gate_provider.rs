//! A provider that enforces the same limits never refuses what the gate let go, however long calls are on their way.
#![allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::panic)]

mod gate_support;

use std::collections::BTreeMap;

use envoy_backpressure::gate::{Ask, Decision, Ledger, Reservation, Settlement, admit, settle, standings};
use envoy_backpressure::sim::provider::{Measure, Provider};
use envoy_backpressure::sim::rng::Rng;
use envoy_backpressure::units::{Cost, Span};
use gate_support::*;

enum Event {
    Asks(Ask),
    Arrives(Reservation, Cost),
    Ends(Reservation, Cost),
}

/// Ten minutes of bursts and pauses; some calls use a part of what was reserved for them, and all are up to `slowest` milliseconds
/// on their way. Gives what the provider refused, and what it served.
fn play(seed: u64, cold: u64, overestimated: bool, strict: bool) -> (u64, u64) {
    let policy = policy(Some(1_200), Some(300_000), 10, strict);
    let mut ledger = Ledger::new(at(0));
    let mut provider = Provider::new(policy.limits, Measure::Bucket(policy.burst), at(0));
    let mut rng = Rng::new(seed, 0);
    let mut events: BTreeMap<(u64, u64), Event> = BTreeMap::new();
    let (mut serial, mut refused, mut served, mut idle) = (0, 0, 0, true);
    let mut asking = Vec::new();
    for now in 0..600_000 {
        while let Some(event) = events.first_entry().filter(|event| event.key().0 <= now) {
            serial += 1;
            match event.remove() {
                Event::Asks(ask) => asking.push(ask),
                Event::Arrives(held, used) => {
                    if provider.arrive(&used, at(now)) {
                        served += 1;
                        events.insert((now + 50 + rng.next_u64() % 900, serial), Event::Ends(held, used));
                    } else {
                        refused += 1;
                    }
                }
                Event::Ends(held, used) => {
                    provider.end();
                    settle(&mut ledger, &policy, &held, Settlement::Actual(used), at(now));
                }
            }
        }
        // Now and then nobody new asks for a while, so that the buckets fill up.
        let busy = now / 10_000 % 4 < 2;
        idle |= now % 40_000 == 39_999;
        if busy && rng.next_u64().is_multiple_of(50) {
            serial += 1;
            asking
                .push(Ask { max_told: Span::from_secs(59), ..ask(serial, 200 + rng.next_u64() % 1_200, 1) });
        }
        for ask in asking.drain(..) {
            serial += 1;
            match admit(&mut ledger, &policy, &ask, at(now)) {
                Decision::Admit(held) => {
                    let part = if overestimated && rng.next_u64().is_multiple_of(3) {
                        1 + rng.next_u64() % 8
                    } else {
                        1
                    };
                    let used = Cost { llm_tokens: held.cost.llm_tokens / part, ..held.cost };
                    let way = if idle { cold } else { 1 + rng.next_u64() % 5 };
                    idle = false;
                    events.insert((now + way, serial), Event::Arrives(held, used));
                }
                Decision::Wait(booking, _) => {
                    events.insert((now + booking.told.as_millis_ceil(), serial), Event::Asks(ask));
                }
            }
        }
    }
    (refused, served)
}

#[test]
fn the_provider_never_refuses_what_the_gate_let_go() {
    for (seed, cold, overestimated, strict) in
        [(2, 240, false, false), (3, 5, true, false), (11, 240, true, false), (3, 40, true, true)]
    {
        let (refused, served) = play(seed, cold, overestimated, strict);
        assert_eq!(refused, 0, "of {served} calls, the first {cold} ms on its way, seed {seed}");
        assert!(served > 3_000, "{served}");
    }
}

#[test]
fn calls_that_wait_for_a_cold_connection_are_not_overtaken_by_what_refilled_meanwhile() {
    for strict in [false, true] {
        let mut pool = Pool::new(policy(Some(1_200), None, 10, strict));
        let mut provider = Provider::new(pool.policy.limits, Measure::Bucket(Span::from_secs(10)), at(0));
        let arrived =
            |provider: &mut Provider, now| assert!(provider.arrive(&cost(1), at(now)), "at {now} ms");
        let (mut serial, mut next) = (0, 0);
        for now in 0..1_000 {
            while now >= next {
                match pool.try_one(serial, 1, at(now)) {
                    Some(told) => next = now + told.as_millis_ceil(),
                    None => {
                        serial += 1;
                        // The first ones all wait until the connection stands.
                        arrived(&mut provider, now.max(240));
                    }
                }
            }
        }
        assert!(serial > 205, "{serial}");
    }
}

#[test]
fn what_is_given_back_lifts_no_bucket_above_what_the_provider_holds() {
    for strict in [false, true] {
        let policy = policy(None, Some(300_000), 10, strict);
        let mut ledger = Ledger::new(at(0));
        let mut provider = Provider::new(policy.limits, Measure::Bucket(policy.burst), at(0));
        let mut take = |ledger: &mut Ledger, print, amount, now| match admit(
            ledger,
            &policy,
            &ask(print, amount, 1),
            at(now),
        ) {
            Decision::Admit(held) => held,
            Decision::Wait(..) => panic!("{amount} at {now} ms"),
        };
        let large = take(&mut ledger, 1, 50_000, 0);
        assert!(provider.arrive(&cost(1), at(1)));
        // The provider's bucket is full, and ours is not, as more was reserved than was used.
        take(&mut ledger, 2, 22_000, 5_800);
        assert!(provider.arrive(&cost(22_000), at(5_840)));
        settle(&mut ledger, &policy, &large, Settlement::Actual(cost(1)), at(6_300));
        let left = standings(&ledger, &policy, at(6_300)).llm_tokens.unwrap().remaining;
        assert!(left > 25_000, "{left} left");
        take(&mut ledger, 3, left, 6_300);
        assert!(provider.arrive(&cost(left), at(6_301)), "{left}, strict: {strict}");
    }
}
