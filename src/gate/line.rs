//! The queue as one call sees it: who goes before it, whether they can still be served in time, and when its turn is.

use crate::units::Cost;

use super::admit::LONGEST_WAIT;
use super::crowd::FIRST_CROWD;
use super::curve::Curve;
use super::horizon::Horizon;
use super::ledger::Ledger;
use super::queue::{ALL_RETURN, FlowState, MEMORY, Place, Queue, STEP};
use super::sums::{Prices, Sums, WHOLE_SLOT};
use super::weight::{Pricing, Weights};

/// Scale of ratios.
const RATIO_BITS: u32 = 16;
/// A flow is taken to ask for at most this many times what it asked for lately.
const GROWTH: u64 = 2;

/// What flows whose calls have one price are owed beyond whole calls counts up to so many calls like the asking one: a promise
/// without any slack breaks by a call's time again and again.
const SPARE: u64 = 2;

/// In a pool that limits slots, a promise counts as kept so much after its time, in microseconds: an idle slot is lost for
/// ever, while a bucket saves what nobody takes.
const SLOT_SLACK: u64 = 250_000;
/// One part in so many is added to the wait for a slot: what is told too soon can only be broken, and what comes back before
/// goes to whoever is there.
const SLOT_MARGIN: u64 = 7;
/// Longest that a caller is awaited for whom a slot is held, in milliseconds: those that read whole seconds are back by
/// then.
const AWAITED_MS: u64 = 1_100;
/// Who is later than that counts for this much from now, in milliseconds: should the caller come, the next slot is theirs.
const NEXT_MS: u64 = 1_000;

/// What stands before one call.
pub(crate) struct Line {
    /// The pool limits slots: see [`Line::new`].
    slots: bool,
    /// What this call needs of each resource, exactly.
    need: [u64; 5],
    /// What the calls with earlier tags need, by the time they were promised for; only when it may pass now.
    earlier: Option<Horizon>,
    /// Sum of the waiting calls before this one, as far as they come back.
    ahead: [u64; 5],
    others: Vec<Other>,
}

/// Whether the calls of a flow all have the same price.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnePrice {
    Unseen,
    Only(u64),
    Differs,
}

impl OnePrice {
    fn see(&mut self, price: u64) {
        *self = match *self {
            Self::Unseen => Self::Only(price),
            Self::Only(known) if known == price => Self::Only(price),
            _ => Self::Differs,
        };
    }

    /// Of the service owed to a flow, what further calls of this price take up, and of the rest what is `spare`. The rest is too little
    /// for another one to go first, and one that would end with the asking call's own tag comes after it. Else callers in step
    /// with each other would all be told the time at which the last of them is served.
    fn whole_calls(self, owed: u64, rounding: u64, spare: &mut u64) -> u64 {
        let Self::Only(price) = self else { return owed };
        let earlier = owed.saturating_sub(rounding).saturating_sub(1);
        let whole = earlier.saturating_sub(earlier.checked_rem(price).unwrap_or(0));
        let kept = owed.saturating_sub(whole).min(*spare);
        *spare = spare.saturating_sub(kept);
        whole.saturating_add(kept)
    }
}

/// Another flow that waits.
struct Other {
    /// Sum over its waiting calls.
    sums: [u64; 5],
    /// The same as time of the limit.
    dominant: u64,
    /// Service it is owed before this call's turn beyond what waits now, if it asks for that much.
    owed: u64,
    /// The same over `dominant`, see [`ratio`].
    all: u64,
    /// Service that its new calls lately asked for.
    asked: u64,
}

impl Line {
    /// The line before a call of flow number `flow` that costs `cost`, standing at `place` if it was told to come.
    /// `fits`: what it needs is there, so [`Line::all_kept`] will be asked.
    ///
    /// Slots come back when calls happen to end. Where they are limited, those whose time has come therefore go before all
    /// others, in the order of their times and whatever their tags: else a run of long calls would be at the cost of whoever
    /// has the latest tag, again and again.
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
        let slots = pricing.counts_slots();
        let mut line = Self { slots, need, earlier, ahead: [0; 5], others: Vec::new() };
        let queue = &ledger.queue;
        let Some(own) = queue.flows.get(flow) else { return line };
        let now = ledger.last / 1_000;
        let range = queue.range(flow);
        let before = place.map_or(range.end, |place| place.call);
        let own_due = place.and_then(|place| queue.calls.get(place.call)).map_or(u64::MAX, |call| call.due());
        let prices = Prices::new(&queue.calls, pricing);
        let due_of = |call: usize| queue.calls.get(call).map_or(0, |call| call.due());
        let by_time = slots && own_due <= now;
        let mut early = Sums::default();
        for call in range.start..before {
            if by_time && due_of(call) > own_due {
                continue;
            }
            early.add(&prices, call);
            if fits {
                line.before(queue, call, now, own.return_rate);
            }
        }
        line.put_ahead(&early.amounts(&prices), own);
        let own_price = pricing.dominant(&amounts);
        let whole = returning(early.price, own).saturating_add(own_price);
        let tag = own.finish.saturating_add(weights.of(own).virtual_span(whole));
        let company = range.len() > usize::from(place.is_some());
        let mut next = 0_usize;
        let mut spare = own_price.saturating_mul(SPARE);
        let mut weight = weights.of(own);
        let (mut alike, mut rounding) = (own.weights(), weight.rounding());
        for (index, state) in queue.flows.iter().enumerate() {
            let first = next;
            next = first.saturating_add(state.waiting.into());
            if index == flow {
                continue;
            }
            if state.waiting == 0 {
                // Its next call is likely to come in the middle of the wait that is told now.
                let idle = tag.saturating_sub(state.finish.max(queue.virtual_time));
                line.after(need, own_price, weights.of(state).service(idle), state);
                continue;
            }
            if state.weights() != alike {
                weight = weights.of(state);
                (alike, rounding) = (state.weights(), weight.rounding());
            }
            let owed = weight.service(tag.saturating_sub(state.finish));
            // Of two calls with the same tag the one that is due first goes first: never each before the other.
            let surely = owed.saturating_sub(rounding);
            let maybe = owed.saturating_add(rounding);
            let (mut all, mut late) = (Sums::default(), Sums::default());
            let mut one_price = OnePrice::Unseen;
            for call in first..next {
                // All that follow have later tags still, and the flow is owed nothing beyond its calls.
                let waiting = returning(all.price, state);
                if waiting > maybe && !slots {
                    break;
                }
                let price = all.add(&prices, call);
                one_price.see(price);
                let served = waiting.saturating_add(price);
                let later = if by_time {
                    due_of(call) > own_due
                } else {
                    served >= surely
                        && (served > maybe || due_of(call) >= own_due)
                        && !(slots && due_of(call) <= now)
                };
                if later {
                    late.add(&prices, call);
                } else if fits {
                    line.before(queue, call, now, state.return_rate);
                }
            }
            line.put_ahead(&all.without(&late).amounts(&prices), state);
            let owed = owed.saturating_sub(returning(all.price, state));
            // A single call says what the next one costs if it costs what this flow's do. A crowd's are of too many callers.
            let known = own.tenant < FIRST_CROWD
                && (state.waiting > 1 || company && one_price == OnePrice::Only(own_price));
            let owed = if known { one_price.whole_calls(owed, rounding, &mut spare) } else { owed };
            line.after(all.amounts(&prices), all.price, owed, state);
        }
        let [requests, ..] = &mut line.ahead;
        *requests = nearest(*requests);
        line
    }

    /// Takes note of a call that goes first.
    fn before(&mut self, queue: &Queue, call: usize, now: u64, return_rate: u16) {
        if let (Some(earlier), Some(call)) = (&mut self.earlier, queue.calls.get(call)) {
            let late = now.saturating_sub(call.due());
            let ahead =
                if self.slots && late > AWAITED_MS { NEXT_MS } else { call.due().saturating_sub(now) };
            earlier.add(ahead, &call.amounts, return_rate);
        }
    }

    /// Takes note of a flow that is owed service beyond the calls that it has waiting: `sums` with the price `dominant`.
    fn after(&mut self, sums: [u64; 5], dominant: u64, owed: u64, state: &FlowState) {
        if owed > 0 {
            let asked = u64::from(state.asked).saturating_mul(STEP);
            self.others.push(Other { sums, dominant, owed, all: ratio(owed, dominant), asked });
        }
    }

    /// Puts the calls of a flow with these sums before this one, as far as the flow's calls come back. Rounded once
    /// for all of them, so that a sum kept beside the calls gives the same; and requests only when all flows are there, since
    /// of a flow that has one call waiting, most of one is not nothing.
    fn put_ahead(&mut self, sums: &[u64; 5], state: &FlowState) {
        for (index, (ahead, &sum)) in self.ahead.iter_mut().zip(sums).enumerate() {
            let sum = if index == 0 { sum.saturating_mul(ALL_RETURN.into()) } else { sum };
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
                let wait = if index == 4 { wait.saturating_add(SLOT_SLACK) } else { wait };
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
        let mut wait = self.wait_given(ledger, curves, u64::MAX, broken);
        // Who was told too little once is not told too little again.
        if broken {
            return wait;
        }
        // What others will ask for until then depends on the wait: from above, two steps come close enough.
        for _ in 0..2 {
            wait = self.wait_given(ledger, curves, wait, broken);
        }
        wait
    }

    fn wait_given(&self, ledger: &Ledger, curves: &[Option<Curve>; 5], wait: u64, broken: bool) -> u64 {
        let mut ahead = self.ahead;
        for other in &self.others {
            let grown = other.asked.saturating_mul(wait / 1_000).saturating_mul(GROWTH) / (MEMORY / 1_000);
            let ratio = if wait == u64::MAX || grown >= other.owed {
                other.all
            } else {
                ratio(grown, other.dominant)
            };
            if ratio == 0 {
                continue;
            }
            for (sum, &amount) in ahead.iter_mut().zip(&other.sums) {
                *sum = sum.saturating_add(part(amount, ratio));
            }
        }
        let slots = slot_scale(ledger);
        let scales = [ledger.period, ledger.period, ledger.period, ledger.period, slots];
        let mut turn = 0_u64;
        let sums = ahead.into_iter().zip(self.need).zip(scales);
        for (index, (curve, ((ahead, own), scale))) in curves.iter().zip(sums).enumerate() {
            let Some(curve) = curve else { continue };
            let ahead = ledger.usage.expected(ahead);
            let least = curve.wait_for(scaled(ahead, scale), scaled(own, scale));
            turn = turn.max(if index == 4 && !broken {
                least.saturating_add(least / SLOT_MARGIN)
            } else {
                least
            });
        }
        turn.min(LONGEST_WAIT)
    }
}

/// Scale of the slots' curve per thousandth of a slot.
fn slot_scale(ledger: &Ledger) -> u64 {
    ledger.in_flight.mean().div_ceil(WHOLE_SLOT).max(1)
}

fn returning(amount: u64, state: &FlowState) -> u64 {
    amount.saturating_mul(state.return_rate.into()) >> ALL_RETURN.ilog2()
}

/// The whole amount that is nearest to `sum` parts of [`ALL_RETURN`].
fn nearest(sum: u64) -> u64 {
    sum.saturating_add(u64::from(ALL_RETURN) >> 1_u32) >> ALL_RETURN.ilog2()
}

/// `service` over `dominant`, in parts of 2^[`RATIO_BITS`].
fn ratio(service: u64, dominant: u64) -> u64 {
    service.saturating_mul(1 << RATIO_BITS).checked_div(dominant).unwrap_or(0)
}

/// `amount` times `ratio`, which is in parts of 2^[`RATIO_BITS`].
fn part(amount: u64, ratio: u64) -> u64 {
    match amount.checked_mul(ratio) {
        Some(product) => product >> RATIO_BITS,
        None => {
            let wide = u128::from(amount).saturating_mul(ratio.into()) >> RATIO_BITS;
            u64::try_from(wide).unwrap_or(u64::MAX)
        }
    }
}

fn scaled(amount: u64, scale: u64) -> i64 {
    i64::try_from(amount.saturating_mul(scale)).unwrap_or(i64::MAX)
}
