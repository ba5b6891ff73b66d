//! The rule of the gate in its plainest form: floating point, unbounded state, one worker, true costs, no window.
//!
//! The real gate is bounded, exact in integers and shared; where both can play a load, they should agree. So this
//! tells a flaw of the rule from a flaw of its implementation.

use std::collections::BTreeMap;

use crate::gate::{Flow, Policy, Reservation, Settlement};
use crate::sim::gatekeeper::{Answer, Gatekeeper, Knock, Turn};
use crate::units::{Resource, Span, Timestamp};

const GRACE: f64 = 2.0;
const SHORTEST_WAIT: f64 = 0.02;
const LEAST_RETURN_RATE: f64 = 0.05;
const EPSILON: f64 = 1e-9;

type FlowKey = (u8, u32);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: FlowKey,
    due: f64,
    amounts: [f64; 4],
    tag: f64,
}

#[derive(Clone, Copy, Debug)]
struct FlowState {
    weight: f64,
    served: f64,
    returning: f64,
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
            if let (false, Some(flow)) = (stays, flows.get_mut(&waiting.flow)) {
                flow.returning = (flow.returning * 0.95).max(LEAST_RETURN_RATE);
            }
            stays
        });
    }

    fn returning(&self, flow: FlowKey) -> f64 {
        self.flows.get(&flow).map_or(1.0, |flow| flow.returning)
    }

    fn fits(&self, amounts: &[f64; 4], tag: f64, fingerprint: u64) -> bool {
        let limited = || (0..4).filter(|i| self.rates[*i].is_finite());
        let full = |i: usize| self.rates[i] * self.burst;
        if limited().any(|i| self.levels[i] < amounts[i].min(full(i)) - EPSILON) {
            return false;
        }
        let mut earlier: Vec<&Waiting> = self
            .waiting
            .iter()
            .filter(|(id, w)| **id != fingerprint && w.tag < tag)
            .map(|(_, w)| w)
            .collect();
        earlier.sort_by(|a, b| a.due.total_cmp(&b.due));
        let mut need = *amounts;
        for waiting in earlier {
            let part = self.returning(waiting.flow);
            for (sum, amount) in need.iter_mut().zip(waiting.amounts) {
                *sum += amount * part;
            }
            let ahead = (waiting.due - self.seen).max(0.0);
            if limited().any(|i| self.levels[i] + self.rates[i] * ahead < need[i] - EPSILON) {
                return false;
            }
        }
        true
    }

    /// Service owed to the waiting flows, this one included, until each has received `tag`.
    fn owed(&self, tag: f64, own: FlowKey) -> f64 {
        let mut keys: Vec<FlowKey> = self.waiting.values().map(|waiting| waiting.flow).chain([own]).collect();
        keys.sort_unstable();
        keys.dedup();
        let flows = keys.iter().filter_map(|key| self.flows.get(key));
        flows.map(|flow| flow.weight * (tag - flow.served).max(0.0)).sum()
    }

    fn entered(&mut self, flow: &Flow) -> FlowKey {
        let key = (flow.class.0, flow.tenant.0);
        let weight = f64::from(flow.class_weight) * f64::from(flow.tenant_weight);
        let idle = !self.waiting.values().any(|waiting| waiting.flow == key);
        let virtual_time = self.virtual_time;
        let state = self.flows.entry(key).or_insert(FlowState { weight, served: 0.0, returning: 1.0 });
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
        let tag = match self.waiting.get(&ask.fingerprint) {
            Some(waiting) => waiting.tag,
            None => {
                let mine = self.waiting.values().filter(|waiting| waiting.flow == key);
                let ahead: f64 = mine.map(|waiting| self.dominant(&waiting.amounts)).sum();
                flow.served + (ahead * flow.returning + self.dominant(&amounts)) / flow.weight
            }
        };
        if self.fits(&amounts, tag, ask.fingerprint) {
            self.admit(key, &amounts, ask.fingerprint);
            return Answer::Pass(None);
        }
        let limited = || (0..4).filter(|i| self.rates[*i].is_finite());
        let available = limited().map(|i| self.levels[i] / self.rates[i]).fold(f64::INFINITY, f64::min);
        let missing =
            |i: usize| (amounts[i].min(self.rates[i] * self.burst) - self.levels[i]) / self.rates[i];
        let freed = limited().map(missing).fold(0.0, f64::max);
        let wait = (self.owed(tag, key) - available).max(freed).max(SHORTEST_WAIT);
        let told = wait.min(seconds(ask.max_told));
        self.waiting.insert(ask.fingerprint, Waiting { flow: key, due: self.seen + told, amounts, tag });
        let span = |value: f64| Span::from_micros((value * 1e6).ceil() as u64);
        Answer::Later(Some(Turn { wait: span(wait), told: span(told) }))
    }

    fn end(&mut self, _: usize, _: &Reservation, _: Settlement, _: Timestamp) {}

    fn reload(&mut self, policy: &Policy, now: Timestamp) {
        self.advance(seconds(now.since(self.start)));
        self.rates = rates(policy);
    }
}
