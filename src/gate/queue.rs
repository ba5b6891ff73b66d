//! The virtual queue: flows, and the calls of each that were told to come back.
//!
//! The calls of a flow stand in the order in which they came. Their virtual finish tags are not stored: a call's tag
//! is its flow's finish plus the discounted cost of the flow's calls up to and including it, over the flow's weight.

use crate::config::ClassId;
use crate::units::{Cost, Limits, Resource};

use super::{Flow, TenantKey};

/// Calls kept one by one; beyond this a flow's newest calls are told a time but not remembered.
pub(crate) const MAX_CALLS: usize = 4_096;
/// Flows kept.
pub(crate) const MAX_FLOWS: usize = 1_024;
/// How long past its time a booking is kept, in milliseconds.
pub(crate) const GRACE_MS: u64 = 3_000;
/// A call this much before its time is still taken for the one that was told to come, in milliseconds.
pub(crate) const EARLY_MS: u64 = 1_000;
/// The whole of a return rate.
pub(crate) const ALL_RETURN: u16 = 10_000;
const LEAST_RETURN: u16 = 500;
/// Virtual time per microsecond of service at weight 1.
const FINE: u64 = 256;

/// A call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Low 32 bits of its fingerprint.
    pub(crate) print: u32,
    /// When its turn is, ledger time in milliseconds.
    pub(crate) due: u64,
    /// When it was told to come back, at most `due`.
    pub(crate) back: u64,
    /// Requests, LLM tokens, input, output; of limited resources, rounded up to what the codec can say.
    pub(crate) amounts: [u32; 4],
}

/// One (class, tenant) pair that waits, or lately did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowState {
    pub(crate) class: u8,
    pub(crate) tenant: u32,
    pub(crate) class_weight: u16,
    pub(crate) tenant_weight: u16,
    /// Service received over weight, in virtual time.
    pub(crate) finish: u64,
    /// Share of its refused calls that come back, ten-thousandths.
    pub(crate) return_rate: u16,
    /// Calls it has in the queue.
    pub(crate) waiting: u16,
}

impl FlowState {
    pub(crate) fn key(&self) -> (u8, u32) {
        (self.class, self.tenant)
    }

    pub(crate) fn new(flow: &Flow, finish: u64) -> Self {
        let mut state = Self {
            class: flow.class.0,
            tenant: flow.tenant.0,
            class_weight: 1,
            tenant_weight: 1,
            finish,
            return_rate: ALL_RETURN,
            waiting: 0,
        };
        state.reweigh(flow);
        state
    }

    /// Takes over the weights of the present configuration.
    pub(crate) fn reweigh(&mut self, flow: &Flow) {
        self.class_weight = u16::try_from(flow.class_weight.clamp(1, 1_000)).unwrap_or(1);
        self.tenant_weight = u16::try_from(flow.tenant_weight.clamp(1, 1_000)).unwrap_or(1);
    }

    pub(crate) fn flow(&self) -> Flow {
        Flow {
            class: ClassId(self.class),
            tenant: TenantKey(self.tenant),
            class_weight: self.class_weight.into(),
            tenant_weight: self.tenant_weight.into(),
        }
    }

    /// A refused call came back.
    pub(crate) fn returned(&mut self) {
        let missing = ALL_RETURN.saturating_sub(self.return_rate);
        self.return_rate = self.return_rate.saturating_add(missing.div_ceil(20)).min(ALL_RETURN);
    }

    /// A refused call did not come back.
    pub(crate) fn abandoned(&mut self) {
        self.return_rate = self.return_rate.saturating_sub(self.return_rate / 20).max(LEAST_RETURN);
    }
}

/// Converts amounts to time of the limit: microseconds for which the limit's pace would be used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pricing {
    /// Microseconds per unit, times 2^20, rounded up; 0 for what is not limited.
    factors: [u64; 4],
    /// Microseconds for the slot a call holds.
    slot: u64,
}

const FACTOR_BITS: u32 = 20;

impl Pricing {
    pub(crate) fn new(limits: &Limits, mean_duration: u64) -> Self {
        let factor = |limit: Option<u64>| {
            limit.map_or(0, |limit| (60_000_000_u64 << FACTOR_BITS).div_ceil(limit.max(1)))
        };
        Self {
            factors: [
                factor(limits.requests),
                factor(limits.llm_tokens),
                factor(limits.input),
                factor(limits.output),
            ],
            slot: limits.concurrency.map_or(0, |slots| mean_duration.div_ceil(slots.max(1))),
        }
    }

    /// The dominant share of a call, as time of its most demanding limit; at least 1.
    pub(crate) fn dominant(&self, amounts: &[u32; 4]) -> u64 {
        let per_minute = amounts.iter().zip(&self.factors).map(|(&amount, &factor)| {
            u64::from(amount).saturating_mul(factor).saturating_add((1 << FACTOR_BITS) - 1) >> FACTOR_BITS
        });
        per_minute.max().unwrap_or(0).max(self.slot).max(1)
    }
}

/// Amounts of the per-minute resources that are limited, as a waiting call carries them.
pub(crate) fn amounts_of(cost: &Cost, limits: &Limits) -> [u32; 4] {
    Resource::PER_MINUTE.map(|resource| match limits.get(resource) {
        Some(_) => u32::try_from(*cost.get(resource)).unwrap_or(u32::MAX),
        None => 0,
    })
}

/// Everybody who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Sorted by (class, tenant).
    pub(crate) flows: Vec<FlowState>,
    /// The calls of the first flow, then those of the second, ...
    pub(crate) calls: Vec<Call>,
    /// Virtual time.
    pub(crate) virtual_time: u64,
}

/// Where a call stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) flow: usize,
    pub(crate) call: usize,
}

impl Queue {
    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn find(&self, flow: &Flow) -> Result<usize, usize> {
        self.flows.binary_search_by(|state| state.key().cmp(&(flow.class.0, flow.tenant.0)))
    }

    /// Index of the flow's entry, made when there is none. `None` when the table is full.
    pub(crate) fn entry(&mut self, flow: &Flow) -> Option<usize> {
        let at = match self.find(flow) {
            Ok(at) => at,
            Err(_) if self.flows.len() >= MAX_FLOWS => {
                let idle = self.flows.iter().position(|state| state.waiting == 0)?;
                self.flows.remove(idle);
                return self.entry(flow);
            }
            Err(at) => {
                self.flows.insert(at, FlowState::new(flow, self.virtual_time));
                at
            }
        };
        let virtual_time = self.virtual_time;
        let state = self.flows.get_mut(at)?;
        state.reweigh(flow);
        if state.waiting == 0 {
            state.finish = state.finish.max(virtual_time);
        }
        Some(at)
    }

    /// Range of a flow's calls.
    pub(crate) fn range(&self, flow: usize) -> core::ops::Range<usize> {
        let start = self.flows.iter().take(flow).map(|state| usize::from(state.waiting)).sum::<usize>();
        let len = self.flows.get(flow).map_or(0, |state| usize::from(state.waiting));
        start..start.saturating_add(len)
    }

    /// The booking that a call of `flow` with `print` redeems at `now` (milliseconds): the earliest due.
    pub(crate) fn redeemable(&self, flow: usize, print: u32, now: u64) -> Option<Place> {
        let range = self.range(flow);
        let start = range.start;
        self.calls
            .get(range)?
            .iter()
            .enumerate()
            .filter(|(_, call)| call.print == print && now.saturating_add(EARLY_MS) >= call.back)
            .min_by_key(|(_, call)| call.due)
            .map(|(index, _)| Place { flow, call: start.saturating_add(index) })
    }

    pub(crate) fn remove(&mut self, place: Place) {
        if place.call < self.calls.len() {
            self.calls.remove(place.call);
        }
        if let Some(state) = self.flows.get_mut(place.flow) {
            state.waiting = state.waiting.saturating_sub(1);
        }
    }

    /// Puts a call at the end of its flow's. `None` when the table is full.
    pub(crate) fn push(&mut self, flow: usize, call: Call) -> Option<Place> {
        if self.calls.len() >= MAX_CALLS {
            return None;
        }
        let at = self.range(flow).end;
        let state = self.flows.get_mut(flow)?;
        state.waiting = state.waiting.checked_add(1)?;
        self.calls.insert(at.min(self.calls.len()), call);
        Some(Place { flow, call: at })
    }

    /// Forgets bookings whose time is past.
    pub(crate) fn forget(&mut self, now: u64) {
        if self.calls.iter().all(|call| call.back.saturating_add(GRACE_MS) >= now) {
            return;
        }
        let mut flows = self.flows.iter_mut();
        let mut current = flows.next();
        let mut left = current.as_ref().map_or(0, |state| state.waiting);
        self.calls.retain(|call| {
            while left == 0 {
                current = flows.next();
                match &current {
                    Some(state) => left = state.waiting,
                    None => return false,
                }
            }
            left = left.saturating_sub(1);
            let kept = call.back.saturating_add(GRACE_MS) >= now;
            if let (false, Some(state)) = (kept, current.as_mut()) {
                state.waiting = state.waiting.saturating_sub(1);
                state.abandoned();
            }
            kept
        });
    }

    /// Drops flows that owe nothing and have nothing waiting, and keeps virtual time small.
    pub(crate) fn tidy(&mut self) {
        let virtual_time = self.virtual_time;
        let nobody = self.calls.is_empty();
        self.flows.retain(|state| {
            state.waiting > 0 || ((!nobody && state.finish > virtual_time) || state.return_rate < 9_800)
        });
        if virtual_time > 1 << 45 || self.flows.is_empty() {
            for state in &mut self.flows {
                state.finish = state.finish.saturating_sub(virtual_time);
            }
            self.virtual_time = 0;
        }
    }

    /// Effective weight of each flow as (numerator, denominator): class weight times its part of the class.
    pub(crate) fn weights(&self, also: usize) -> Vec<Weight> {
        let mut totals = [0_u64; 256];
        for (index, state) in self.flows.iter().enumerate() {
            let active = state.waiting > 0 || index == also;
            if let (true, Some(total)) = (active, totals.get_mut(usize::from(state.class))) {
                *total = total.saturating_add(state.tenant_weight.into());
            }
        }
        self.flows
            .iter()
            .map(|state| Weight {
                of: u64::from(state.class_weight).saturating_mul(state.tenant_weight.into()),
                over: totals
                    .get(usize::from(state.class))
                    .copied()
                    .unwrap_or(0)
                    .max(state.tenant_weight.into()),
            })
            .collect()
    }
}

/// A flow's effective weight, the fraction `of / over`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    of: u64,
    over: u64,
}

impl Weight {
    /// The fraction in millionths.
    pub(crate) fn parts_per_million(self) -> u64 {
        self.of.saturating_mul(1_000_000).checked_div(self.over).unwrap_or(0)
    }

    /// Virtual time for `service` microseconds of the limit.
    pub(crate) fn virtual_span(self, service: u64) -> u64 {
        service.saturating_mul(FINE).saturating_mul(self.over).div_ceil(self.of.max(1))
    }

    /// Service in microseconds of the limit over a span of virtual time.
    pub(crate) fn service(self, span: u64) -> u64 {
        let whole = u128::from(span).saturating_mul(u128::from(self.of));
        let per = u128::from(FINE).saturating_mul(u128::from(self.over.max(1)));
        u64::try_from(whole.checked_div(per).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// `rate` ten-thousandths of `amount`, rounded up.
pub(crate) fn discounted(amount: u64, rate: u16) -> u64 {
    amount.saturating_mul(rate.into()).div_ceil(ALL_RETURN.into())
}
