//! One tenant misbehaves in every way that a caller can; what the nine others wait stays what it was. Same simulator and
//! seed with and without: the misbehaving tenant always wants far more than its share, only its manners differ.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::sync::OnceLock;

use envoy_backpressure::sim::client::Client;
use envoy_backpressure::sim::load::{Arrival, Group, secs};
use envoy_backpressure::sim::outcome::quantile;
use envoy_backpressure::sim::suite::Kind;
use envoy_backpressure::sim::{Load, loads};
use envoy_backpressure::units::Span;

/// Ten tenants with two callers each, the first of which has fifty.
fn others(kind: Kind, change: impl Fn(&mut Group)) -> (f64, f64) {
    let load: Load = loads::flooded(25).with(|load| {
        load.until = Span::from_secs(780);
        change(&mut load.groups[0]);
    });
    let run = kind.play(&load, 3);
    assert_eq!(run.outcome.provider_429, 0, "{}", run.line());
    let waits: Vec<Span> =
        run.outcome.groups[1..].iter().flat_map(|group| group.waits.iter().copied()).collect();
    assert!(waits.len() > 500, "{}", run.line());
    let mean = waits.iter().map(|wait| wait.as_micros() as f64 / 1e6).sum::<f64>() / waits.len() as f64;
    (mean, quantile(&waits, 0.9))
}

/// The others wait at most a tenth longer than beside a tenant that wants as much and behaves.
fn unchanged(what: &str, change: impl Fn(&mut Group) + Copy) {
    static HONEST: OnceLock<[(f64, f64); 2]> = OnceLock::new();
    let honest = HONEST.get_or_init(|| [Kind::Gate, Kind::Strict].map(|kind| others(kind, |_| {})));
    for (kind, (mean, tail)) in [Kind::Gate, Kind::Strict].into_iter().zip(*honest) {
        let (mean_then, tail_then) = others(kind, change);
        println!(
            "{what}, {kind:?}: mean {mean:.2} s, then {mean_then:.2} s; p90 {tail:.2} s, then {tail_then:.2} s"
        );
        assert!(mean_then <= mean * 1.1, "{what}: mean {mean:.2} s, then {mean_then:.2} s");
        assert!(tail_then <= tail * 1.1, "{what}: p90 {tail:.2} s, then {tail_then:.2} s");
    }
}

#[test]
fn knocking_without_end_costs_the_others_no_wait() {
    unchanged("knocks every half second", |group| group.client = Client::Hammers(secs(0.5)));
}

#[test]
fn coming_early_costs_the_others_no_wait() {
    unchanged("comes after half the time", |group| group.client = Client::Early(0.5));
}

#[test]
fn bookings_that_nobody_redeems_cost_the_others_no_wait() {
    unchanged("never returns", |group| {
        group.arrival = Arrival::Open { per_second: 5.0 };
        group.never_return = 1.0;
    });
}

#[test]
fn colliding_fingerprints_cost_the_others_no_wait() {
    unchanged("all calls look the same", |group| group.same_body = true);
    unchanged("all look the same and knock", |group| {
        group.same_body = true;
        group.client = Client::Hammers(secs(0.5));
    });
}

#[test]
fn a_flood_of_calls_costs_the_others_no_wait() {
    unchanged("ten calls a second", |group| {
        group.arrival = Arrival::Open { per_second: 10.0 };
        group.never_return = 0.9;
    });
}
