//! Fleets in virtual time against the contract's figures; the large ones are played by `make simulate-fleet`.

use envoy_backpressure::sim::client::Client;
use envoy_backpressure::sim::fleet::suite::{self, ALONE, Bounds, RECOVERED, SLUGGISH, Scene};
use envoy_backpressure::sim::fleet::{FleetLoad, Routing, State, play};
use envoy_backpressure::units::Span;

#[track_caller]
fn holds(name: &'static str, fleet: FleetLoad, bounds: Bounds) -> Scene {
    let scene = Scene::play(name, fleet, 1);
    let missed = bounds.missed(&scene);
    assert!(missed.is_empty(), "{missed:?}\n{}", scene.line());
    scene
}

#[test]
fn the_same_seed_gives_the_same_fleet() {
    let fleet = FleetLoad::new(3, suite::load(3, false, true, 0.2));
    let (first, second) = (play(&fleet, 1), play(&fleet, 1));
    assert_eq!(first.outcome, second.outcome);
    assert_eq!(first.operations, second.operations);
    assert_ne!(first.outcome, play(&fleet, 2).outcome);
}

#[test]
fn ten_envoys_share_a_strict_cap_as_one_gate_would() {
    for requests_bind in [false, true] {
        let fleet = FleetLoad::new(10, suite::load(10, requests_bind, true, 1.0));
        let scene = holds("random", fleet, Bounds::of(10));
        // One answer in a hundred is lost; that costs hardly a booking.
        assert!(scene.outcome.count("fleet_unreachable") > 20);
        assert!(scene.outcome.outcome.kept() >= 0.98, "{}", scene.line());
    }
}

#[test]
fn ten_envoys_share_a_bucket_as_one_gate_would() {
    for requests_bind in [false, true] {
        holds("random", FleetLoad::new(10, suite::load(10, requests_bind, false, 1.0)), Bounds::of(10));
    }
}

#[test]
fn a_hundred_envoys_share_a_cap_as_one_gate_would() {
    let mut load = suite::load(10, false, true, 1.0);
    load.name = "LLM tokens bind, a small account";
    holds("random", FleetLoad::new(100, load), Bounds::of(100));
}

#[test]
fn it_does_not_matter_which_envoy_callers_reach() {
    for routing in [Routing::Skewed(0.9), Routing::Pinned { class: 0, replica: 1 }] {
        holds("uneven", suite::uneven(10, true, routing, 1.0), Bounds::of(10));
    }
}

#[test]
fn ten_seconds_after_an_outage_the_figures_are_as_before() {
    for strict in [true, false] {
        for state in [State::Down, State::Hangs] {
            let scene = holds("outage", suite::outage(3, strict, state), RECOVERED);
            let counted = &scene.outcome.anomalies;
            assert!(scene.outcome.count("fleet_alone") > 50, "{counted:?}");
            assert!(scene.outcome.count("fleet_unreachable") > 50, "{counted:?}");
        }
    }
    for (state, cause) in
        [(State::Full, "fleet_refused"), (State::Foreign, "fleet_foreign"), (State::Garbage, "fleet_garbled")]
    {
        let scene = holds("outage", suite::outage(3, true, state), RECOVERED);
        assert!(scene.outcome.count(cause) > 5, "{:?}", scene.outcome.anomalies);
    }
}

#[test]
fn in_an_outage_each_envoy_goes_on_with_its_part() {
    for strict in [true, false] {
        let mut fleet = suite::outage(10, strict, State::Hangs);
        fleet.load.until = Span::from_secs(131);
        let scene = Scene::play("outage", fleet, 1);
        let rate = |from: usize, to: usize| {
            let passed: u64 = scene.outcome.passed_llm_tokens[from..to].iter().sum();
            passed as f64 / (to - from) as f64
        };
        let limit = scene.fleet.load.limits.llm_tokens.unwrap_or(1) as f64 / 60.0;
        let during = rate(110, 130) / limit;
        assert!((0.8..=1.1).contains(&during), "{during:.2} of the limit, strict {strict}");
    }
}

#[test]
fn in_an_outage_an_envoy_holds_next_to_nothing_for_callers_that_go_to_another() {
    for strict in [true, false] {
        for (routing, client) in [
            (Routing::Next(1), Client::Obeys),
            (Routing::Next(1), Client::Sdk(1)),
            (Routing::Random, Client::Obeys),
        ] {
            let scene = holds("alone", suite::wandering(strict, routing, client, 30.0), ALONE);
            assert_eq!(scene.outcome.outcome.provider_429, 0, "{}", scene.line());
        }
    }
}

#[test]
fn callers_who_give_up_after_a_broken_promise_keep_no_full_bucket_from_those_who_come() {
    for strict in [true, false] {
        for seed in 1..=3 {
            let mut fleet = suite::wandering(strict, Routing::Random, Client::Sdk(1), 200.0);
            fleet.troubles.clear();
            fleet.replicas = 1;
            fleet.load.measure_from = Span::from_secs(20);
            let limit = fleet.load.limits.requests.unwrap_or(1) as f64;
            let scene = Scene::play("giving up", fleet, seed);
            // Calls are of 50 LLM tokens each.
            let passed =
                scene.outcome.passed_llm_tokens.chunks(30).map(|chunk| chunk.iter().sum::<u64>() / 50);
            let parts: Vec<f64> = passed.take(9).map(|calls| calls as f64 / (limit / 2.0)).collect();
            assert!(parts.iter().all(|part| *part > 0.7), "strict {strict}, seed {seed}: {parts:.2?}");
        }
    }
}

#[test]
fn a_store_that_flaps_and_envoys_that_die_or_are_cut_off_leave_nothing_behind() {
    for strict in [true, false] {
        holds("flapping", suite::flapping(3, strict), RECOVERED);
        holds("replaced", suite::replaced(3, strict), RECOVERED);
    }
}

#[test]
fn a_store_that_answers_about_the_timeout_costs_bookings_but_neither_fairness_nor_the_cap() {
    let millis = Span::from_millis;
    for strict in [true, false] {
        holds("jitter", suite::jittery(3, strict, millis(50), 3.0), SLUGGISH);
        holds("slow", suite::slow(3, strict, millis(40), millis(60), 3.0), SLUGGISH);
    }
}
