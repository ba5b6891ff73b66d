//! What the gate is compared with.

use std::collections::BTreeMap;

use crate::gate::{Policy, Reservation, Settlement};
use crate::sim::gatekeeper::{Answer, Gatekeeper, Knock, Turn};
use crate::units::{Cost, Resource, Span, Timestamp};

/// Nobody: every call reaches the provider, refused callers back off by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct NaiveRetry;

impl Gatekeeper for NaiveRetry {
    fn name(&self) -> &'static str {
        "naive retry"
    }

    fn call(&mut self, _: &Knock, _: Timestamp) -> Answer {
        Answer::Pass(None)
    }

    fn end(&mut self, _: usize, _: &Reservation, _: Settlement, _: Timestamp) {}

    fn reload(&mut self, _: &Policy, _: Timestamp) {}

    fn is_absent(&self) -> bool {
        true
    }
}

/// Levels of one bucket per limited resource, in amount x microseconds of a minute; may go below zero.
#[derive(Clone, Debug)]
struct Buckets {
    policy: Policy,
    levels: [i128; 4],
    seen: Timestamp,
}

impl Buckets {
    fn new(policy: Policy, now: Timestamp) -> Self {
        let mut buckets = Self { policy, levels: [0; 4], seen: now };
        buckets.levels = std::array::from_fn(|i| buckets.capacity(i));
        buckets
    }

    fn limit(&self, index: usize) -> Option<i128> {
        self.policy.limits.get(Resource::PER_MINUTE[index]).map(i128::from)
    }

    fn capacity(&self, index: usize) -> i128 {
        self.limit(index).unwrap_or(0) * i128::from(self.policy.burst.as_micros())
    }

    fn advance(&mut self, now: Timestamp) {
        let passed = i128::from(now.since(self.seen).as_micros());
        self.seen = self.seen.max(now);
        for i in 0..4 {
            self.levels[i] = (self.levels[i] + self.limit(i).unwrap_or(0) * passed).min(self.capacity(i));
        }
    }

    fn need(&self, index: usize, cost: &Cost) -> i128 {
        i128::from(*cost.get(Resource::PER_MINUTE[index])) * 60_000_000
    }

    fn take(&mut self, cost: &Cost) {
        for i in 0..4 {
            if self.limit(i).is_some() {
                self.levels[i] -= self.need(i, cost);
            }
        }
    }

    fn put_back(&mut self, cost: &Cost) {
        for i in 0..4 {
            self.levels[i] = (self.levels[i] + self.need(i, cost)).min(self.capacity(i));
        }
    }

    /// Time until every bucket holds the cost (or is full, for larger ones).
    fn wait(&self, cost: &Cost) -> Span {
        let longest = (0..4).filter_map(|i| {
            let limit = self.limit(i)?;
            let missing = self.need(i, cost).min(self.capacity(i)) - self.levels[i];
            u64::try_from((missing.max(0) + limit - 1) / limit).ok()
        });
        Span::from_micros(longest.max().unwrap_or(0))
    }
}

/// A plain token bucket that answers the time until it holds the refused amount: what rate limiters do today.
#[derive(Clone, Debug)]
pub struct TimeToRefill(Buckets);

impl TimeToRefill {
    /// Full buckets.
    pub fn new(policy: Policy, now: Timestamp) -> Self {
        Self(Buckets::new(policy, now))
    }
}

impl Gatekeeper for TimeToRefill {
    fn name(&self) -> &'static str {
        "token bucket"
    }

    fn call(&mut self, knock: &Knock, now: Timestamp) -> Answer {
        self.0.advance(now);
        let wait = self.0.wait(&knock.ask.cost);
        if wait == Span::ZERO {
            self.0.take(&knock.ask.cost);
            return Answer::Pass(None);
        }
        Answer::Later(Some(Turn { wait, told: wait.min(knock.ask.max_told) }))
    }

    fn end(&mut self, _: usize, _: &Reservation, _: Settlement, _: Timestamp) {}

    fn reload(&mut self, policy: &Policy, now: Timestamp) {
        self.0.advance(now);
        self.0.policy = policy.clone();
    }
}

/// First come, first served: each refused call takes its amount from the future at once and is told when that is.
/// The amount of who does not return within [`NO_SHOW`] of its time is put back.
#[derive(Clone, Debug)]
pub struct FirstCome {
    buckets: Buckets,
    due: BTreeMap<u64, Timestamp>,
    queue: BTreeMap<(Timestamp, u64), Cost>,
}

const NO_SHOW: Span = Span::from_secs(2);

impl FirstCome {
    /// Full buckets, nobody waiting.
    pub fn new(policy: Policy, now: Timestamp) -> Self {
        Self { buckets: Buckets::new(policy, now), due: BTreeMap::new(), queue: BTreeMap::new() }
    }

    fn forget_no_shows(&mut self, now: Timestamp) {
        while let Some(first) = self.queue.first_entry() {
            if first.key().0.after(NO_SHOW) >= now {
                break;
            }
            let ((_, fingerprint), cost) = first.remove_entry();
            self.due.remove(&fingerprint);
            self.buckets.put_back(&cost);
        }
    }
}

impl Gatekeeper for FirstCome {
    fn name(&self) -> &'static str {
        "first come, first served"
    }

    fn call(&mut self, knock: &Knock, now: Timestamp) -> Answer {
        self.buckets.advance(now);
        self.forget_no_shows(now);
        let ask = &knock.ask;
        let due = match self.due.get(&ask.fingerprint) {
            Some(due) => *due,
            None => {
                let due = now.after(self.buckets.wait(&ask.cost));
                self.buckets.take(&ask.cost);
                due
            }
        };
        let wait = due.since(now);
        if wait == Span::ZERO {
            self.due.remove(&ask.fingerprint);
            self.queue.remove(&(due, ask.fingerprint));
            return Answer::Pass(None);
        }
        self.due.insert(ask.fingerprint, due);
        self.queue.insert((due, ask.fingerprint), ask.cost);
        Answer::Later(Some(Turn { wait, told: wait.min(ask.max_told) }))
    }

    fn end(&mut self, _: usize, _: &Reservation, _: Settlement, _: Timestamp) {}

    fn reload(&mut self, policy: &Policy, now: Timestamp) {
        self.buckets.advance(now);
        self.buckets.policy = policy.clone();
    }
}
