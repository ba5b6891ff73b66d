//! Replacing what was reserved by what was used.

use crate::units::{Cost, Resource, Span, Timestamp};
use crate::upstream::LONGEST_RESET;

use super::ledger::Ledger;
use super::meter::slot_of;
use super::queue::amounts_of;
use super::weight::{Pricing, Weights};
use super::{Policy, Reservation, Settled, Settlement};

/// Settles a reservation: less than reserved goes back to the moment it was taken from (nothing when that moment has
/// left the window), more is charged now, and the slot is given back. Call once per reservation.
///
/// A reservation older than `reservation_ttl` is settled already; then nothing changes.
pub fn settle(
    ledger: &mut Ledger,
    policy: &Policy,
    reservation: &Reservation,
    how: Settlement,
    now: Timestamp,
) -> Settled {
    let rules = ledger.advance(policy, now);
    let taken_at = reservation.taken_at.as_micros().min(ledger.last);
    if ledger.last.saturating_sub(taken_at) >= policy.reservation_ttl.as_micros() {
        return Settled { late: true, ..Settled::default() };
    }
    if reservation.cost.concurrency > 0 {
        ledger.in_flight.end(taken_at, ledger.last, matches!(how, Settlement::Actual(_)));
    }
    let actual = match how {
        Settlement::Actual(cost) => cost,
        Settlement::Unused => Cost::default(),
    };
    let slot = slot_of(taken_at);
    let mut settled = Settled::default();
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter_mut().zip(rules.meters))
    {
        let Some(rule) = rule else { continue };
        let (reserved, used) = (*reservation.cost.get(resource), *actual.get(resource));
        let less = reserved.saturating_sub(used);
        let more = used.saturating_sub(reserved);
        if less > 0 {
            *settled.refunded.get_mut(resource) = meter.give_back(rule, slot, less, ledger.last);
        }
        if more > 0 {
            meter.take(rule, more, ledger.last);
            *settled.overrun.get_mut(resource) = more;
        }
    }
    account(ledger, policy, reservation, &actual);
    settled
}

/// Corrects the flow's service by what it really used, and learns from the difference.
fn account(ledger: &mut Ledger, policy: &Policy, reservation: &Reservation, actual: &Cost) {
    let pricing = Pricing::new(&policy.limits, 0);
    let reserved = pricing.dominant(&amounts_of(&reservation.cost, &policy.limits));
    let used = pricing.dominant(&amounts_of(actual, &policy.limits));
    ledger.usage.settled(reserved, used);
    if let (false, Some(flow)) = (ledger.queue.is_empty(), ledger.queue.account(&reservation.flow)) {
        let weights = Weights::new(&ledger.queue, flow);
        let (more, less) = (used.saturating_sub(reserved), reserved.saturating_sub(used));
        ledger.queue.correct(&weights, flow, more, less);
    }
}

/// Adopts the provider's `remaining` amount of one per-minute resource when it is lower than what is available here:
/// others use the same cap.
///
/// The difference becomes free again evenly until the provider says that its limit is whole, after `reset`; all of it only
/// then, when a bucket of this limit would fill more slowly. Without a reset, or with one more than a minute away, it counts as
/// taken now.
pub fn adopt_remaining(
    ledger: &mut Ledger,
    policy: &Policy,
    resource: Resource,
    remaining: u64,
    reset: Option<Span>,
    now: Timestamp,
) {
    let rules = ledger.advance(policy, now);
    let at = ledger.last;
    let found = Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter_mut().zip(rules.meters));
    for (candidate, (meter, rule)) in found {
        if let (true, Some(rule)) = (candidate == resource, rule) {
            let available = if rule.strict {
                meter.window_left(rule)
            } else {
                let missing = meter.missing.checked_div(rule.period()).unwrap_or(0);
                rule.limit.saturating_sub(missing).saturating_sub(rule.lent)
            };
            let excess = available.saturating_sub(remaining);
            match reset.filter(|reset| *reset <= LONGEST_RESET).map(Span::as_micros) {
                Some(reset) if excess > 0 => meter.leave(rule, remaining, excess, at, reset),
                Some(_) => {}
                None => meter.take(rule, excess, at),
            }
        }
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
