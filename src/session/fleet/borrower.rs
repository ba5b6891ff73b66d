//! What one worker borrows of one pool, so that its calls need not wait for the store.
//!
//! A lease is asked for at the tick, as large as what lately passed here in the time that it lasts, and only while calls come. It
//! lasts from the moment it was asked for, so that it ends here before it ends at the store.

use crate::gate::{Lease, PART_LENT};
use crate::units::{Cost, Limits, Resource, Span, Timestamp};

/// Calls of so long ago are no reason to borrow.
const RECENT: Span = Span::from_secs(2);
/// A lease is for so many times what passed lately, and for so many calls at least.
const PLENTY: u64 = 2;
/// The rest after a refusal doubles so often, from a third of a lease to some ten of them.
const MOST_REFUSED: u8 = 6;

/// A lease in hand.
#[derive(Clone, Copy, Debug)]
struct Held {
    from: Timestamp,
    until: Timestamp,
    left: Lease,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Borrower {
    /// Oldest first.
    held: Vec<Held>,
    /// A lease was asked for and its answer is awaited.
    asking: bool,
    asked_at: Timestamp,
    rests_until: Timestamp,
    /// Refusals one after another.
    refused: u8,
    last_call: Timestamp,
    /// Recent mean of a call.
    mean: Cost,
    /// What passed since `since`, and in the time of one lease before that.
    present: Cost,
    past: Cost,
    since: Timestamp,
}

impl Borrower {
    /// A call came, whoever decides on it. `life`: how long a lease lasts.
    pub(super) fn note(&mut self, cost: &Cost, life: Span, now: Timestamp) {
        self.roll(life, now);
        let first = self.mean == Cost::default();
        for resource in Resource::ALL {
            let amount = *cost.get(resource);
            let (sum, mean) = (self.present.get_mut(resource), self.mean.get_mut(resource));
            *sum = sum.saturating_add(amount);
            *mean = if first {
                amount
            } else {
                mean.saturating_sub(*mean / 4).saturating_add(amount.div_ceil(4))
            };
        }
        self.last_call = now;
    }

    fn roll(&mut self, life: Span, now: Timestamp) {
        let age = now.since(self.since);
        if age >= life || now < self.since {
            let past = core::mem::take(&mut self.present);
            self.past = if age < life.plus(life) { past } else { Cost::default() };
            self.since = now;
        }
    }

    /// Takes the cost of a call out of a lease that covers it, and says when that lease ends at the store.
    pub(super) fn draw(&mut self, cost: &Cost, limits: &Limits, now: Timestamp) -> Option<u64> {
        let lease = self.held.iter_mut().find(|held| held.lasts(now) && covers(&held.left, cost, limits))?;
        for resource in Resource::ALL {
            let left = lease.left.amounts.get_mut(resource);
            *left = left.saturating_sub(*cost.get(resource));
        }
        Some(lease.left.ends)
    }

    /// A lease, or the rest of one, that is to be given back: it ended, or (`calm` false) others want the pool.
    pub(super) fn surplus(&mut self, calm: bool, now: Timestamp) -> Option<Lease> {
        while let Some(at) = self.held.iter().position(|held| !calm || !held.lasts(now)) {
            let lease = self.held.remove(at).left;
            if lease.amounts != Cost::default() {
                return Some(lease);
            }
        }
        None
    }

    /// What to ask for now; `None`: nothing.
    pub(super) fn want(&mut self, limits: &Limits, life: Span, now: Timestamp) -> Option<Cost> {
        if self.asking || self.due(limits, life, now)? > now {
            return None;
        }
        self.roll(life, now);
        (self.asking, self.asked_at) = (true, now);
        let mut want = Cost::default();
        for resource in Resource::ALL {
            let Some(limit) = *limits.get(resource) else { continue };
            let (mean, held) = (*self.mean.get(resource), self.in_hand(resource, life, now));
            let plenty = self.lately(resource).max(mean).saturating_mul(PLENTY);
            *want.get_mut(resource) = plenty.saturating_sub(held).max(mean).min(limit / PART_LENT);
        }
        Some(want)
    }

    /// When a lease is to be asked for; `None`: not as things are.
    fn due(&self, limits: &Limits, life: Span, now: Timestamp) -> Option<Timestamp> {
        let recent = self.last_call > Timestamp::EPOCH && now.since(self.last_call) < RECENT.max(life);
        let fits = |resource: Resource| {
            limits.get(resource).is_none_or(|limit| *self.mean.get(resource) <= limit / PART_LENT)
        };
        if !recent || !Resource::ALL.into_iter().all(fits) {
            return None;
        }
        let useful = self.held.iter().filter(|held| covers(&held.left, &self.mean, limits));
        let due = useful.map(|held| held.until.before(part(life, 3))).max().unwrap_or(now);
        let short = |resource: Resource| {
            let soon = (self.lately(resource) / 3).saturating_add(*self.mean.get(resource));
            limits.get(resource).is_some() && self.in_hand(resource, life, now) < soon
        };
        // What is in hand may be used up before its time.
        let due = if Resource::ALL.into_iter().any(short) {
            due.min(self.asked_at.after(part(life, 6)))
        } else {
            due
        };
        Some(due.max(self.rests_until))
    }

    /// What is left of leases that do not end soon.
    fn in_hand(&self, resource: Resource, life: Span, now: Timestamp) -> u64 {
        let soon = now.after(part(life, 3));
        let lasting = self.held.iter().filter(|held| soon < held.until);
        lasting.fold(0, |sum, held| sum.saturating_add(*held.left.amounts.get(resource)))
    }

    /// What passed in the time of one lease.
    fn lately(&self, resource: Resource) -> u64 {
        (*self.present.get(resource)).max(*self.past.get(resource))
    }

    /// When something is to be done at a tick.
    pub(super) fn next_tick(
        &self,
        limits: &Limits,
        life: Span,
        calm: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let ends = self.held.iter().map(|held| if calm { held.until } else { now }).min();
        let due = if self.asking || !calm { None } else { self.due(limits, life, now) };
        ends.into_iter().chain(due).min()
    }

    /// A lease came that was asked for at `from`. Given back at once: one that is of no use.
    pub(super) fn lent(
        &mut self,
        lease: Lease,
        limits: &Limits,
        (from, life): (Timestamp, Span),
        now: Timestamp,
    ) -> Option<Lease> {
        self.asking = false;
        let held = Held { from, until: from.after(life), left: lease };
        if held.lasts(now) && covers(&lease, &self.mean, limits) {
            self.held.push(held);
            self.refused = 0;
            return None;
        }
        // Refused, or too small for a call.
        self.rest(life, now);
        (lease.amounts != Cost::default()).then_some(lease)
    }

    /// The answer to what was asked for will not come.
    pub(super) fn unheard(&mut self, life: Span, now: Timestamp) {
        self.asking = false;
        self.rest(life, now);
    }

    fn rest(&mut self, life: Span, now: Timestamp) {
        self.refused = self.refused.saturating_add(1).min(MOST_REFUSED);
        let rest = part(life, 6).as_micros().checked_shl(self.refused.into()).unwrap_or(0);
        self.rests_until = now.after(Span::from_micros(rest));
    }
}

impl Held {
    /// Ends also when the clock was set back before its beginning.
    fn lasts(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }
}

fn part(life: Span, of: u64) -> Span {
    Span::from_micros(life.as_micros().checked_div(of).unwrap_or(0))
}

fn covers(lease: &Lease, cost: &Cost, limits: &Limits) -> bool {
    lease.ends > 0
        && Resource::ALL.into_iter().all(|resource| {
            limits.get(resource).is_none() || cost.get(resource) <= lease.amounts.get(resource)
        })
}
