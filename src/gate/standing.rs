//! What may be told of a pool: to a caller in headers, to an operator on the status page and in gauges.

use crate::units::{PerResource, Resource, Span, Timestamp};

use super::ledger::Ledger;
use super::queue::Pricing;
use super::{FlowShare, Policy, Standing, Standings, Summary, Upcoming};

/// Limit, remainder and reset of every limited resource. Changes nothing.
pub fn standings(ledger: &Ledger, policy: &Policy, now: Timestamp) -> Standings {
    let mut ledger = ledger.clone();
    let rules = ledger.advance(policy, now);
    let mut standings: Standings = PerResource::from_fn(|_| None);
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter().zip(rules.meters))
    {
        let (Some(rule), Some(limit)) = (rule, *policy.limits.get(resource)) else { continue };
        let paused = rules.paused_until.map_or(0, |end| end.saturating_sub(ledger.last));
        *standings.get_mut(resource) = Some(Standing {
            limit,
            remaining: if paused > 0 { 0 } else { meter.available(rule) },
            reset: Span::from_micros(meter.reset(rule, ledger.last).max(paused)),
        });
    }
    if let Some(limit) = rules.slots {
        let used = u64::from(ledger.in_flight.total());
        let reset = if used == 0 { 0 } else { ledger.in_flight.mean() };
        standings.concurrency =
            Some(Standing { limit, remaining: limit.saturating_sub(used), reset: Span::from_micros(reset) });
    }
    standings
}

/// The pool at a glance, with at most `most` flows and bookings. Changes nothing.
pub fn summary(ledger: &Ledger, policy: &Policy, now: Timestamp, most: usize) -> Summary {
    let mut ledger = ledger.clone();
    let rules = ledger.advance(policy, now);
    let mut summary = Summary {
        in_flight: ledger.in_flight.total(),
        booked: u32::try_from(ledger.queue.calls.len()).unwrap_or(u32::MAX),
        mean_duration: ledger.in_flight.observed_mean().map(Span::from_micros),
        paused: rules.paused_until.map(|end| Span::from_micros(end.saturating_sub(ledger.last))),
        scale_permille: ledger.upstream.scale_permille(Timestamp::from_micros(ledger.last)),
        jain_permille: 1_000,
        ..Summary::default()
    };
    let _pricing = Pricing::new(&rules.limits, ledger.in_flight.mean());
    let weights = ledger.queue.weights(usize::MAX);
    let waiting = || ledger.queue.flows.iter().zip(&weights).filter(|(state, _)| state.waiting > 0);
    let total: u64 = waiting().map(|(_, weight)| weight.parts_per_million()).sum();
    for (state, weight) in waiting().take(most) {
        let entitled = weight.parts_per_million().saturating_mul(1_000).checked_div(total).unwrap_or(0);
        let entitled = u32::try_from(entitled).unwrap_or(0);
        summary.flows.push(FlowShare {
            flow: state.flow(),
            waiting: state.waiting.into(),
            entitled_permille: entitled,
            received_permille: entitled,
            returning_permille: u32::from(state.return_rate) / 10,
        });
    }
    let mut calls = ledger.queue.calls.iter();
    let mut upcoming: Vec<Upcoming> = Vec::new();
    for state in &ledger.queue.flows {
        for call in calls.by_ref().take(state.waiting.into()) {
            let wait = Span::from_micros(call.due.saturating_mul(1_000).saturating_sub(ledger.last));
            upcoming.push(Upcoming { flow: state.flow(), wait });
        }
    }
    upcoming.sort_by_key(|next| next.wait);
    upcoming.truncate(most);
    summary.upcoming = upcoming;
    summary
}
