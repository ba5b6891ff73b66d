//! Amounts withdrawn ahead: what an Envoy may let pass by itself for a moment, while nobody waits for the pool.
//!
//! What is *lent* was used by nobody yet: it holds a bucket or a window back like what was taken, but it neither
//! refills nor stands in a slot. A call that passes on it is *drawn*: charged when the ledger hears of it, in exchange for
//! its part of the lease. What is neither drawn nor given back counts as taken at the moment the lease ended, which is after
//! every call that passed on it: so a minute never holds more than its limit, whatever becomes of the borrower.

use crate::units::{Cost, Resource, Span, Timestamp};

use super::admit::{credit, redeem, take};
use super::ledger::{Ledger, Rules};
use super::meter::{SLOT, slot_of};
use super::{Ask, Policy, Reservation};

/// One part in this many of each limit may be lent at a time, to all borrowers together.
pub const PART_LENT: u64 = 25;
/// One part in this many of what may be taken at once must be left after a grant: who comes to the ledger finds it there.
const PART_LEFT: u64 = 4;
/// No lease lasts longer.
const LONGEST: Span = Span::from_secs(5);

/// An amount that may pass without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Number of the half second, of ledger time, at whose beginning what is left of it counts as taken.
    pub ends: u64,
    /// How much. Nothing at all: refused.
    pub amounts: Cost,
}

/// Amounts lent, in the order in which they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lent {
    parts: Vec<Lease>,
}

impl Lent {
    /// Nothing lent.
    pub(crate) const fn new() -> Self {
        Self { parts: Vec::new() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }

    /// All that is lent of one resource.
    pub(crate) fn sum(&self, resource: Resource) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part.amounts.get(resource)))
    }

    /// Takes out the first part that ends at `to` or before, with the time (microseconds) of its end.
    pub(crate) fn next_ended(&mut self, to: u64) -> Option<(u64, Cost)> {
        self.parts.first().filter(|part| part.ends <= slot_of(to))?;
        let part = self.parts.remove(0);
        Some((part.ends.saturating_mul(SLOT), part.amounts))
    }

    fn add(&mut self, lease: Lease) {
        let at = self.parts.partition_point(|part| part.ends < lease.ends);
        match self.parts.get_mut(at).filter(|part| part.ends == lease.ends) {
            Some(part) => {
                for resource in Resource::ALL {
                    let sum = part.amounts.get_mut(resource);
                    *sum = sum.saturating_add(*lease.amounts.get(resource));
                }
            }
            None => self.parts.insert(at, lease),
        }
    }

    fn reduce(&mut self, by: &Lease) {
        let Some(at) = self.parts.iter().position(|part| part.ends == by.ends) else { return };
        if let Some(part) = self.parts.get_mut(at) {
            for resource in Resource::ALL {
                let left = part.amounts.get_mut(resource);
                *left = left.saturating_sub(*by.amounts.get(resource));
            }
            if part.amounts == Cost::default() {
                self.parts.remove(at);
            }
        }
    }
}

/// Lends up to `want` for `life`, at most 5 s: nothing while anybody waits, while the provider holds the pool back, or
/// when one of the wanted amounts is not there in plenty.
pub fn lend(ledger: &mut Ledger, policy: &Policy, want: &Cost, life: Span, now: Timestamp) -> Lease {
    let rules = ledger.advance(policy, now);
    let at = Timestamp::from_micros(ledger.last);
    let calm = rules.paused_until.is_none() && ledger.upstream.scale_permille(at) == 1_000;
    if !ledger.queue.is_empty() || !calm {
        return Lease::default();
    }
    let end = ledger.last.saturating_add(life.min(LONGEST).as_micros());
    let mut lease = Lease { ends: slot_of(end).saturating_add(1), amounts: Cost::default() };
    for resource in Resource::ALL {
        let Some(room) = room(ledger, &rules, resource) else { continue };
        let wanted = *want.get(resource);
        let granted = wanted.min(room);
        if granted < wanted.min(1) {
            return Lease::default();
        }
        *lease.amounts.get_mut(resource) = granted;
    }
    if lease.amounts == Cost::default() {
        return Lease::default();
    }
    ledger.lent.add(lease);
    lease
}

/// What may still be lent of one resource; `None` when it is not limited.
fn room(ledger: &Ledger, rules: &Rules, resource: Resource) -> Option<u64> {
    let (limit, whole, free, lent) = if resource == Resource::Concurrency {
        let slots = rules.slots?;
        (slots, slots, slots.saturating_sub(ledger.slots_used(rules)), rules.slots_lent)
    } else {
        let mut found = Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter().zip(rules.meters));
        let (_, (meter, rule)) = found.find(|(one, _)| *one == resource)?;
        let rule = rule?;
        let at_once = rule.capacity.checked_div(rule.period()).unwrap_or(0);
        (rule.limit, rule.limit.min(at_once), meter.available(rule), rule.lent)
    };
    let unlent = (limit / PART_LENT).saturating_sub(lent);
    Some(unlent.min(free.saturating_sub(whole.div_ceil(PART_LEFT))))
}

/// Charges a call that passed on a lease which ends at `ends`, in exchange for its part of it. A booking that the caller had
/// elsewhere is used up.
pub fn draw(ledger: &mut Ledger, policy: &Policy, ask: &Ask, ends: u64, now: Timestamp) -> Reservation {
    let rules = ledger.advance(policy, now);
    let slots = ask.cost.concurrency.min(1);
    reduce(ledger, &rules, &Lease { ends, amounts: Cost { concurrency: slots, ..ask.cost } });
    if !ledger.queue.is_empty() {
        redeem(ledger, ask);
        credit(ledger, policy, &rules, ask);
    }
    take(ledger, &rules, ask, slots)
}

/// Gives back a lease, or what is left of it.
pub fn give_back(ledger: &mut Ledger, policy: &Policy, lease: &Lease, now: Timestamp) {
    let rules = ledger.advance(policy, now);
    reduce(ledger, &rules, lease);
}

/// Takes `lease` out of what is lent, or, when its end has passed, out of the slot that it was then counted in.
fn reduce(ledger: &mut Ledger, rules: &Rules, lease: &Lease) {
    if lease.ends > slot_of(ledger.last) {
        ledger.lent.reduce(lease);
        return;
    }
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter_mut().zip(rules.meters))
    {
        if let Some(rule) = rule {
            meter.give_back(rule, lease.ends, *lease.amounts.get(resource), ledger.last);
        }
    }
}
