//! The rule of the gate in its plainest form: floating point, unbounded state, one worker, true costs, no window.
//!
//! The real gate is bounded, exact in integers and shared; where both can play a load, they should agree. So this
//! tells a flaw of the rule from a flaw of its implementation.
//!
//! Three things go beyond the plain weighted-fair order; each was measured to keep more promises at no cost in
//! fairness. A caller that comes back in time and is refused all the same has a *firm* booking from then on: it
//! stands before everybody, in the order in which the firm bookings were made. If that one is not used, its flow is
//! not blamed. And a flow that was served lately counts as waiting when a time is told, as its next call is likely to
//! come before that time.

use std::collections::BTreeMap;

use crate::gate::{Flow, Policy, Reservation, Settlement};
use crate::sim::gatekeeper::{Answer, Gatekeeper, Knock, Turn};
use crate::units::{Resource, Span, Timestamp};

const GRACE: f64 = 2.0;
const SHORTEST_WAIT: f64 = 0.02;
const LEAST_RETURN_RATE: f64 = 0.05;
const EPSILON: f64 = 1e-9;
/// A flow served this lately is likely to ask again soon, in seconds.
const RECENT: f64 = 5.0;
/// A return this much before its time is in time.
const IN_TIME: f64 = 0.01;

type FlowKey = (u8, u32);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: FlowKey,
    due: f64,
    /// Told less than its wait: it comes back to renew.
    renews: bool,
    amounts: [f64; 4],
    tag: f64,
    /// Number of its firm booking.
    firm: Option<u64>,
}

impl Waiting {
    /// Where it stands: firm bookings first, then by tag.
    fn rank(&self) -> (bool, u64, f64) {
        (self.firm.is_none(), self.firm.unwrap_or(0), self.tag)
    }
}

#[derive(Clone, Copy, Debug)]
struct FlowState {
    weight: f64,
    served: f64,
    returning: f64,
    served_at: f64,
}

/// The rule on paper; per-minute limits only.
#[derive(Clone, Debug)]
pub struct Ideal {
    /// Amount per second, by resource; infinite when unlimited.
    rates: [f64; 4],
    burst: f64,
    levels: [f64; 4],
    start: Timestamp,
    seen: f64,
    virtual_time: f64,
    firm_bookings: u64,
    flows: BTreeMap<FlowKey, FlowState>,
    waiting: BTreeMap<u64, Waiting>,
}

fn seconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1e6
}

fn rates(policy: &Policy) -> [f64; 4] {
    std::array::from_fn(|i| {
        policy.limits.get(Resource::PER_MINUTE[i]).map_or(f64::INFINITY, |limit| limit as f64 / 60.0)
    })
}

impl Ideal {
    /// Full buckets, nobody waiting.
    pub fn new(policy: &Policy, now: Timestamp) -> Self {
        let (rates, burst) = (rates(policy), seconds(policy.burst));
        Self {
            rates,
            burst,
            levels: rates.map(|rate| rate * burst),
            start: now,
            seen: 0.0,
            virtual_time: 0.0,
            firm_bookings: 0,
            flows: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn dominant(&self, amounts: &[f64; 4]) -> f64 {
        amounts.iter().zip(self.rates).map(|(amount, rate)| amount / rate).fold(0.0, f64::max)
    }

    fn advance(&mut self, now: f64) {
        let passed = (now - self.seen).max(0.0);
        self.seen = now;
        for (level, rate) in self.levels.iter_mut().zip(self.rates) {
            *level = (*level + rate * passed).min(rate * self.burst);
        }
        let flows = &mut self.flows;
        self.waiting.retain(|_, waiting| {
            let stays = waiting.due + GRACE >= now;
            if let (false, None, Some(flow)) = (stays, waiting.firm, flows.get_mut(&waiting.flow)) {
                flow.returning = (flow.returning * 0.95).max(LEAST_RETURN_RATE);
            }
            stays
        });
    }

    fn returning(&self, flow: FlowKey) -> f64 {
        self.flows.get(&flow).map_or(1.0, |flow| flow.returning)
    }

    fn limited(&self) -> impl Iterator<Item = usize> + '_ {
        (0..4).filter(|i| self.rates[*i].is_finite())
    }

    /// What must be there for this amount: a call larger than the bucket passes on a full one.
    fn needed(&self, index: usize, amount: f64) -> f64 {
        amount.min(self.rates[index] * self.burst)
    }

    /// True when the amounts are there, and after them everybody who stands before `own` can be served when due.
    fn fits(&self, own: &Waiting, fingerprint: u64) -> bool {
        if self.limited().any(|i| self.levels[i] < self.needed(i, own.amounts[i]) - EPSILON) {
            return false;
        }
        let others = self.waiting.iter().filter(|(id, _)| **id != fingerprint).map(|(_, other)| other);
        let mut before: Vec<&Waiting> = others.filter(|other| other.rank() < own.rank()).collect();
        before.sort_by(|a, b| a.due.total_cmp(&b.due));
        let mut taken = own.amounts;
        for waiting in before {
            let part = self.returning(waiting.flow);
            let ahead = (waiting.due - self.seen).max(0.0);
            let short = |i: usize| {
                let need = taken[i] + self.needed(i, waiting.amounts[i]) * part;
                self.levels[i] + self.rates[i] * ahead < need - EPSILON
            };
            if self.limited().any(short) {
                return false;
            }
            for (sum, amount) in taken.iter_mut().zip(waiting.amounts) {
                *sum += amount * part;
            }
        }
        true
    }

    /// Service given to others before a call of `own` with `tag` is through: what waits with an earlier tag, and whole
    /// calls like those after it, as every flow that waits or lately did is taken to go on.
    fn owed(&self, tag: f64, own: FlowKey, fingerprint: u64) -> f64 {
        struct Queue {
            last: f64,
            before: f64,
            sum: f64,
            count: f64,
        }
        let mut queues: BTreeMap<FlowKey, Queue> = BTreeMap::new();
        for (id, waiting) in &self.waiting {
            if *id == fingerprint {
                continue;
            }
            let cost = self.dominant(&waiting.amounts);
            let queue =
                queues.entry(waiting.flow).or_insert(Queue { last: 0.0, before: 0.0, sum: 0.0, count: 0.0 });
            queue.last = queue.last.max(waiting.tag);
            queue.sum += cost;
            queue.count += 1.0;
            if waiting.tag < tag {
                queue.before += cost * self.returning(waiting.flow);
            }
        }
        let owed = |(key, flow): (&FlowKey, &FlowState)| {
            if let Some(queue) = queues.get(key) {
                let mean = queue.sum / queue.count;
                let more = if *key == own {
                    0.0
                } else {
                    flow.weight * (tag - queue.last.max(flow.served)).max(0.0)
                };
                queue.before + (more / mean + 1e-6).floor() * mean
            } else if *key != own && self.seen - flow.served_at < RECENT {
                flow.weight * (tag - flow.served.max(self.virtual_time)).max(0.0)
            } else {
                0.0
            }
        };
        self.flows.iter().map(owed).sum()
    }

    /// Time until `own` is through.
    fn wait(&self, own: &Waiting, fingerprint: u64) -> f64 {
        let mut before = [0.0; 4];
        for (_, other) in self.waiting.iter().filter(|(id, _)| **id != fingerprint) {
            if own.firm.is_some() && other.rank() < own.rank() {
                for (sum, amount) in before.iter_mut().zip(other.amounts) {
                    *sum += amount;
                }
            }
        }
        let lacking =
            |i: usize| (before[i] + self.needed(i, own.amounts[i]) - self.levels[i]) / self.rates[i];
        let freed = self.limited().map(lacking).fold(SHORTEST_WAIT, f64::max);
        if own.firm.is_some() {
            return freed;
        }
        let available = self.limited().map(|i| self.levels[i] / self.rates[i]).fold(f64::INFINITY, f64::min);
        let need = self.limited().map(|i| self.needed(i, own.amounts[i]) / self.rates[i]).fold(0.0, f64::max);
        freed.max(self.owed(own.tag, own.flow, fingerprint) + need - available)
    }

    fn entered(&mut self, flow: &Flow) -> FlowKey {
        let key = (flow.class.0, flow.tenant.0);
        let weight = f64::from(flow.class_weight) * f64::from(flow.tenant_weight);
        let idle = !self.waiting.values().any(|waiting| waiting.flow == key);
        let virtual_time = self.virtual_time;
        let state = self.flows.entry(key).or_insert(FlowState {
            weight,
            served: 0.0,
            returning: 1.0,
            served_at: 0.0,
        });
        state.weight = weight;
        if idle {
            state.served = state.served.max(virtual_time);
        }
        key
    }

    fn admit(&mut self, key: FlowKey, amounts: &[f64; 4], fingerprint: u64) {
        for (level, amount) in self.levels.iter_mut().zip(amounts) {
            *level -= amount;
        }
        let redeemed = self.waiting.remove(&fingerprint).is_some();
        let cost = self.dominant(amounts);
        let Some(flow) = self.flows.get_mut(&key) else { return };
        if redeemed {
            flow.returning += 0.05 * (1.0 - flow.returning);
        }
        let began = flow.served;
        flow.served_at = self.seen;
        flow.served += cost / flow.weight;
        let least = self.waiting.values().filter_map(|w| self.flows.get(&w.flow)).map(|flow| flow.served);
        let least = least.fold(f64::INFINITY, f64::min);
        self.virtual_time = self.virtual_time.max(if least.is_finite() { least } else { began });
    }
}

impl Gatekeeper for Ideal {
    fn name(&self) -> &'static str {
        "the rule on paper"
    }

    fn call(&mut self, knock: &Knock, now: Timestamp) -> Answer {
        let ask = &knock.ask;
        self.advance(seconds(now.since(self.start)));
        let amounts: [f64; 4] = std::array::from_fn(|i| {
            if self.rates[i].is_finite() { *ask.cost.get(Resource::PER_MINUTE[i]) as f64 } else { 0.0 }
        });
        let key = self.entered(&ask.flow);
        let Some(flow) = self.flows.get(&key).copied() else { return Answer::Pass(None) };
        let found = self.waiting.get(&ask.fingerprint).copied();
        let mut own = found.unwrap_or_else(|| {
            let mine = self.waiting.values().filter(|waiting| waiting.flow == key);
            let ahead: f64 = mine.map(|waiting| self.dominant(&waiting.amounts)).sum();
            let tag = flow.served + (ahead * flow.returning + self.dominant(&amounts)) / flow.weight;
            Waiting { flow: key, due: 0.0, renews: false, amounts, tag, firm: None }
        });
        if self.fits(&own, ask.fingerprint) {
            self.admit(key, &amounts, ask.fingerprint);
            return Answer::Pass(None);
        }
        let broken = found.is_some_and(|booked| !booked.renews && booked.due <= self.seen + IN_TIME);
        if broken && own.firm.is_none() {
            self.firm_bookings += 1;
            own.firm = Some(self.firm_bookings);
        }
        let wait = self.wait(&own, ask.fingerprint);
        let told = wait.min(seconds(ask.max_told));
        own.due = self.seen + told;
        own.renews = told < wait;
        self.waiting.insert(ask.fingerprint, own);
        let span = |value: f64| Span::from_micros((value * 1e6).ceil() as u64);
        Answer::Later(Some(Turn { wait: span(wait), told: span(told) }))
    }

    fn end(&mut self, _: usize, _: &Reservation, _: Settlement, _: Timestamp) {}

    fn reload(&mut self, policy: &Policy, now: Timestamp) {
        self.advance(seconds(now.since(self.start)));
        self.rates = rates(policy);
    }
}
