//! A provider that enforces the same limits never refuses what the gate let go, as long as calls are on their way for less than 50 ms.
#![allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::panic)]

mod gate_support;

use envoy_backpressure::gate::{Decision, Ledger, Settlement, admit, settle, standings};
use envoy_backpressure::sim::provider::{Measure, Provider};
use envoy_backpressure::units::Span;
use gate_support::*;

#[test]
fn calls_on_their_way_for_less_than_50_ms_are_not_overtaken_by_what_refilled_meanwhile() {
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
                        arrived(&mut provider, now.max(45));
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
        let take = |ledger: &mut Ledger, print, amount, now| match admit(
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
