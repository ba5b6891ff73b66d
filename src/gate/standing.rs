//! What may be told of a pool: to a caller in headers, to an operator on the status page and in gauges.

use crate::units::{PerResource, Resource, Span, Timestamp};

use super::ledger::Ledger;
use super::queue::ALL_RETURN;
use super::weight::Weights;
use super::{FlowShare, Policy, Standing, Standings, Summary, Upcoming};

/// Limit, remainder and reset of every limited resource. Changes nothing.
pub fn standings(ledger: &Ledger, policy: &Policy, now: Timestamp) -> Standings {
    let aged;
    let (ledger, rules) = if ledger.is_at(policy, now) {
        (ledger, ledger.rules(policy, ledger.last))
    } else {
        let mut copy = ledger.without_queue();
        let rules = copy.advance(policy, now);
        aged = copy;
        (&aged, rules)
    };
    let mut standings: Standings = PerResource::from_fn(|_| None);
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter().zip(rules.meters))
    {
        let (Some(rule), Some(limit)) = (rule, *policy.limits.get(resource)) else { continue };
        let paused = rules.paused_until.is_some();
        *standings.get_mut(resource) = Some(Standing {
            limit,
            remaining: if paused { 0 } else { meter.available(rule) },
            reset: Span::from_micros(ledger.reset_of(meter, rule, &rules)),
        });
    }
    if let Some(limit) = rules.slots {
        let used = ledger.slots_used(&rules);
        let reset = if ledger.in_flight.total() == 0 { 0 } else { ledger.in_flight.mean() };
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
    let weights = Weights::new(&ledger.queue, usize::MAX);
    let waiting = || ledger.queue.flows.iter().filter(|state| state.waiting > 0);
    let entitled: u64 = waiting().map(|state| weights.of(state).millionths()).sum();
    let received: u64 = waiting().map(|state| u64::from(state.received)).sum();
    let (mut sum, mut squares, mut count) = (0_u64, 0_u64, 0_u64);
    for state in waiting() {
        let part = |amount: u64, of: u64| amount.saturating_mul(1_000).checked_div(of).unwrap_or(0);
        let due = part(weights.of(state).millionths(), entitled);
        let had = part(state.received.into(), received);
        let ratio = part(had, due.max(1)).min(1_000_000);
        (sum, squares, count) = (
            sum.saturating_add(ratio),
            squares.saturating_add(ratio.saturating_mul(ratio)),
            count.saturating_add(1),
        );
        if summary.flows.len() >= most {
            continue;
        }
        summary.flows.push(FlowShare {
            flow: state.flow(),
            waiting: state.waiting.into(),
            entitled_permille: u32::try_from(due).unwrap_or(0),
            received_permille: u32::try_from(had).unwrap_or(0),
            returning_permille: u32::from(state.return_rate).saturating_mul(1_000) >> ALL_RETURN.ilog2(),
        });
    }
    if count > 1 && squares > 0 {
        let jain = u128::from(sum).saturating_mul(u128::from(sum)).saturating_mul(1_000);
        let jain = jain.checked_div(u128::from(count).saturating_mul(squares.into())).unwrap_or(0);
        summary.jain_permille = u32::try_from(jain).unwrap_or(1_000).min(1_000);
    }
    let mut calls = ledger.queue.calls.range(0..ledger.queue.calls.len());
    let mut upcoming: Vec<Upcoming> = Vec::new();
    for state in &ledger.queue.flows {
        for call in calls.by_ref().take(state.waiting.into()) {
            let wait = Span::from_micros(call.due().saturating_mul(1_000).saturating_sub(ledger.last));
            let at = upcoming.partition_point(|next| next.wait <= wait);
            if at < most {
                upcoming.truncate(most.saturating_sub(1));
                upcoming.insert(at, Upcoming { flow: state.flow(), wait });
            }
        }
    }
    summary.upcoming = upcoming;
    summary
}
