//! The queue as one call sees it: who goes before it, whether they can still be served in time, and when its turn is.

use crate::units::Cost;

use super::calls::Call;
use super::curve::Curve;
use super::horizon::Horizon;
use super::ledger::Ledger;
use super::queue::{ALL_RETURN, FlowState, MEMORY, Place, STEP};
use super::weight::{Pricing, Weights};

/// Thousandths of a slot that one call holds.
const WHOLE_SLOT: u64 = 1_000;
/// Scale of ratios.
const RATIO_BITS: u32 = 16;
/// A flow is taken to ask for at most this many times what it asked for lately.
const GROWTH: u64 = 2;

/// What stands before one call.
pub(crate) struct Line {
    /// What this call needs of each resource, exactly.
    need: [u64; 5],
    /// What the calls with earlier tags need, by the time they were promised for; only when it may pass now.
    earlier: Option<Horizon>,
    /// Sum of the waiting calls before this one, as far as they come back.
    ahead: [u64; 5],
    others: Vec<Other>,
}

/// Another flow that waits.
struct Other {
    /// Sum over its waiting calls.
    sums: [u64; 5],
    /// The same as time of the limit.
    dominant: u64,
    /// Service it is owed before this call's turn beyond what waits now, if it asks for that much.
    owed: u64,
    /// Service that its new calls lately asked for.
    asked: u64,
}

impl Line {
    /// The line before a call of flow number `flow` that costs `cost`, standing at `place` if it was told to come.
    /// `fits`: what it needs is there, so [`Line::all_kept`] will be asked.
    pub(crate) fn new(
        ledger: &Ledger,
        pricing: &Pricing,
        weights: &Weights,
        flow: usize,
        place: Option<Place>,
        cost: &Cost,
        fits: bool,
    ) -> Self {
        let need = [cost.requests, cost.llm_tokens, cost.input, cost.output, WHOLE_SLOT];
        let amounts =
            [0, 1, 2, 3].map(|at| need.get(at).map_or(0, |&need| u32::try_from(need).unwrap_or(u32::MAX)));
        let earlier = fits.then(Horizon::new);
        let mut line = Self { need, earlier, ahead: [0; 5], others: Vec::new() };
        let queue = &ledger.queue;
        let Some(own) = queue.flows.get(flow) else { return line };
        let now = ledger.last / 1_000;
        let range = queue.range(flow);
        let before = place.map_or(range.end, |place| place.call);
        let own_due = place.and_then(|place| queue.calls.get(place.call)).map_or(u64::MAX, |call| call.due());
        let (mut ahead, mut sums) = (0_u64, [0; 5]);
        for call in queue.calls.range(range.start..before) {
            ahead = ahead.saturating_add(pricing.dominant(&call.amounts));
            add(&mut sums, &call.amounts);
            line.before(&call, now, own.return_rate);
        }
        line.put_ahead(&sums, own);
        let whole = returning(ahead, own).saturating_add(pricing.dominant(&amounts));
        let tag = own.finish.saturating_add(weights.of(own).virtual_span(whole));
        let mut next = 0_usize;
        for (index, state) in queue.flows.iter().enumerate() {
            let first = next;
            next = first.saturating_add(state.waiting.into());
            if index == flow {
                continue;
            }
            if state.waiting == 0 {
                // Its next call is likely to come in the middle of the wait that is told now.
                let idle = tag.saturating_sub(state.finish.max(queue.virtual_time));
                line.others.push(Other {
                    sums: need,
                    dominant: pricing.dominant(&amounts),
                    owed: weights.of(state).service(idle),
                    asked: u64::from(state.asked).saturating_mul(STEP),
                });
                continue;
            }
            let weight = weights.of(state);
            let owed = weight.service(tag.saturating_sub(state.finish));
            // Of two calls with the same tag the one that is due first goes first: never each before the other.
            let surely = owed.saturating_sub(weight.rounding());
            let maybe = owed.saturating_add(weight.rounding());
            let mut other = Other {
                sums: [0; 5],
                dominant: 0,
                owed: 0,
                asked: u64::from(state.asked).saturating_mul(STEP),
            };
            let mut sums = [0; 5];
            for call in queue.calls.range(first..next) {
                // All that follow have later tags still, and the flow is owed nothing beyond its calls.
                let waiting = returning(other.dominant, state);
                if waiting > maybe {
                    break;
                }
                let cost = pricing.dominant(&call.amounts);
                let served = waiting.saturating_add(cost);
                if served < surely || (served <= maybe && call.due() < own_due) {
                    add(&mut sums, &call.amounts);
                    line.before(&call, now, state.return_rate);
                }
                other.dominant = other.dominant.saturating_add(cost);
                add(&mut other.sums, &call.amounts);
            }
            line.put_ahead(&sums, state);
            other.owed = owed.saturating_sub(returning(other.dominant, state));
            if other.owed > 0 {
                line.others.push(other);
            }
        }
        line
    }

    /// Takes note of a call that goes first.
    fn before(&mut self, call: &Call, now: u64, return_rate: u16) {
        if let Some(earlier) = &mut self.earlier {
            earlier.add(call.due().saturating_sub(now), &call.amounts, return_rate);
        }
    }

    /// Puts the calls of a flow with these sums before this one, as far as the flow's calls come back. Rounded once
    /// for all of them, so that a sum kept beside the calls gives the same.
    fn put_ahead(&mut self, sums: &[u64; 5], state: &FlowState) {
        for (ahead, &sum) in self.ahead.iter_mut().zip(sums) {
            *ahead = ahead.saturating_add(returning(sum, state));
        }
    }

    /// True when after this call every waiting call with an earlier tag can still be served when promised.
    pub(crate) fn all_kept(&self, ledger: &Ledger, curves: &[Option<Curve>; 5]) -> bool {
        let scales = [ledger.period, ledger.period, ledger.period, ledger.period, slot_scale(ledger)];
        let mut sums = [0_u64; 5];
        for (wait, slot) in self.earlier.iter().flat_map(Horizon::iter) {
            for (sum, &need) in sums.iter_mut().zip(&slot.needs) {
                *sum = sum.saturating_add(need);
            }
            let [requests, llm_tokens, input, output] = slot.largest.map(u64::from);
            let largest = [requests, llm_tokens, input, output, 0];
            let kept =
                curves.iter().zip(sums.into_iter().zip(largest)).zip(self.need.into_iter().zip(scales));
            let kept = kept.enumerate().all(|(index, ((curve, (sum, last)), (own, scale)))| {
                let Some(curve) = curve else { return true };
                let sum = if index == 4 { sum.saturating_mul(WHOLE_SLOT) } else { sum } >> ALL_RETURN.ilog2();
                let others = ledger.usage.expected(sum);
                let last = ledger.usage.expected(last).min(others);
                curve.allows(wait, scaled(own.saturating_add(others), scale), scaled(last, scale))
            });
            if !kept {
                return false;
            }
        }
        true
    }

    /// Microseconds until this call's turn, if those who wait keep asking as they lately did.
    pub(crate) fn wait(&self, ledger: &Ledger, curves: &[Option<Curve>; 5], broken: bool) -> u64 {
        let mut wait = self.wait_given(ledger, curves, u64::MAX);
        // Who was told too little once is not told too little again.
        if broken {
            return wait;
        }
        // What others will ask for until then depends on the wait: from above, two steps come close enough.
        for _ in 0..2 {
            wait = self.wait_given(ledger, curves, wait);
        }
        wait
    }

    fn wait_given(&self, ledger: &Ledger, curves: &[Option<Curve>; 5], wait: u64) -> u64 {
        let mut ahead = self.ahead;
        for other in &self.others {
            let grown = other.asked.saturating_mul(wait / 1_000).saturating_mul(GROWTH) / (MEMORY / 1_000);
            let service = other.owed.min(if wait == u64::MAX { u64::MAX } else { grown });
            let ratio = service.saturating_mul(1 << RATIO_BITS).checked_div(other.dominant).unwrap_or(0);
            for (sum, &amount) in ahead.iter_mut().zip(&other.sums) {
                if amount > 0 {
                    let part = u128::from(amount).saturating_mul(ratio.into()) >> RATIO_BITS;
                    *sum = sum.saturating_add(u64::try_from(part).unwrap_or(u64::MAX));
                }
            }
        }
        let slots = slot_scale(ledger);
        let scales = [ledger.period, ledger.period, ledger.period, ledger.period, slots];
        let mut turn = 0_u64;
        for (curve, ((ahead, own), scale)) in curves.iter().zip(ahead.into_iter().zip(self.need).zip(scales))
        {
            if let Some(curve) = curve {
                let ahead = ledger.usage.expected(ahead);
                turn = turn.max(curve.wait_for(scaled(ahead, scale), scaled(own, scale)));
            }
        }
        turn
    }
}

/// Scale of the slots' curve per thousandth of a slot.
fn slot_scale(ledger: &Ledger) -> u64 {
    ledger.in_flight.mean().div_ceil(WHOLE_SLOT).max(1)
}

fn returning(amount: u64, state: &FlowState) -> u64 {
    amount.saturating_mul(state.return_rate.into()) >> ALL_RETURN.ilog2()
}

fn add(sums: &mut [u64; 5], amounts: &[u32; 4]) {
    let [requests, llm_tokens, input, output, slots] = sums;
    for (sum, &amount) in [requests, llm_tokens, input, output].into_iter().zip(amounts) {
        *sum = sum.saturating_add(amount.into());
    }
    *slots = slots.saturating_add(WHOLE_SLOT);
}

fn scaled(amount: u64, scale: u64) -> i64 {
    i64::try_from(amount.saturating_mul(scale)).unwrap_or(i64::MAX)
}
