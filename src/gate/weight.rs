//! Weights on two levels, and the price of a call in time of its most demanding limit.

use crate::units::Limits;

use super::queue::{FlowState, Queue};

/// Virtual time per microsecond of service at weight 1 (as a shift).
const FINE_BITS: u32 = 8;
const FACTOR_BITS: u32 = 20;

/// Sum of the tenant weights of every class's flows that wait.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    totals: [u32; 256],
}

impl Weights {
    /// Of the flows that wait, and of flow number `also`.
    pub(crate) fn new(queue: &Queue, also: usize) -> Self {
        let mut totals = [0_u32; 256];
        for (index, state) in queue.flows.iter().enumerate() {
            let active = state.waiting > 0 || index == also;
            if let (true, Some(total)) = (active, totals.get_mut(usize::from(state.class))) {
                *total = total.saturating_add(state.tenant_weight.into());
            }
        }
        Self { totals }
    }

    /// Effective weight of a flow: its class's weight times its part of the class.
    pub(crate) fn of(&self, state: &FlowState) -> Weight {
        let total = self.totals.get(usize::from(state.class)).copied().unwrap_or(0);
        Weight {
            of: u64::from(state.class_weight).saturating_mul(state.tenant_weight.into()).max(1),
            over: u64::from(total).max(state.tenant_weight.into()).max(1),
        }
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
    pub(crate) fn millionths(self) -> u64 {
        self.of.saturating_mul(1_000_000).checked_div(self.over).unwrap_or(0)
    }

    /// Virtual time for `service` microseconds of the limit, rounded up.
    pub(crate) fn virtual_span(self, service: u64) -> u64 {
        let fine = u128::from(service) << FINE_BITS;
        let span = fine.saturating_mul(self.over.into()).div_ceil(u128::from(self.of.max(1)));
        u64::try_from(span).unwrap_or(u64::MAX)
    }

    /// How many calls a flow has waiting for its weight, scaled.
    pub(crate) fn excess(self, waiting: u16) -> u64 {
        (u64::from(waiting) << FINE_BITS).saturating_mul(self.over).checked_div(self.of).unwrap_or(0)
    }

    /// Service by which rounding may have moved a tag, in microseconds of the limit.
    pub(crate) fn rounding(self) -> u64 {
        self.of.checked_div(self.over).unwrap_or(0).saturating_add(2)
    }

    /// Service in microseconds of the limit over a span of virtual time, rounded down.
    pub(crate) fn service(self, span: u64) -> u64 {
        (span >> FINE_BITS).saturating_mul(self.of).checked_div(self.over).unwrap_or(0)
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

impl Pricing {
    /// For `limits`, with calls that last `mean_duration` microseconds.
    pub(crate) fn new(limits: &Limits, mean_duration: u64) -> Self {
        let factor = |limit: Option<u64>| {
            limit.map_or(0, |limit| (60_000_000_u64 << FACTOR_BITS).div_ceil(limit.max(1)))
        };
        Self {
            factors: [limits.requests, limits.llm_tokens, limits.input, limits.output].map(factor),
            slot: limits.concurrency.map_or(0, |slots| mean_duration.div_ceil(slots.max(1))),
        }
    }

    /// Whether concurrent requests are limited.
    pub(crate) const fn counts_slots(&self) -> bool {
        self.slot > 0
    }

    /// The dominant share of a call, as time of its most demanding limit; at least 1 microsecond.
    pub(crate) fn dominant(&self, amounts: &[u32; 4]) -> u64 {
        let prices = amounts.iter().zip(&self.factors).map(|(&amount, &factor)| Self::price(amount, factor));
        prices.fold(self.slot.max(1), u64::max)
    }

    /// Time of one limit that `amount` takes, with the factor of that limit.
    pub(crate) fn price(amount: u32, factor: u64) -> u64 {
        let scaled = u64::from(amount).saturating_mul(factor);
        scaled.saturating_add((1 << FACTOR_BITS) - 1) >> FACTOR_BITS
    }

    /// See [`Pricing::price`]: requests, LLM tokens, input, output.
    pub(crate) const fn factors(&self) -> [u64; 4] {
        self.factors
    }
}
