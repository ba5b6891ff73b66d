//! One decision: admit, or book a time to come back.

use crate::units::{Cost, Resource, Span, Timestamp};

use super::curve::Curve;
use super::ledger::{Ledger, Rules};
use super::queue::{ALL_RETURN, Call, Place, Pricing, amounts_of, discounted};
use super::{Ask, Booking, Decision, Policy, Reservation, WaitReason};

/// Least wait ever booked, in microseconds.
const LEAST_WAIT: u64 = 20_000;

/// Decides on `ask` at `now`. An admission takes its cost; a refusal leaves nothing but the booking.
pub fn admit(ledger: &mut Ledger, policy: &Policy, ask: &Ask, now: Timestamp) -> Decision {
    let rules = ledger.advance(policy, now);
    let shortage = shortage(ledger, &rules, &ask.cost);
    if ledger.queue.is_empty() && shortage.is_none() {
        return Decision::Admit(take(ledger, &rules, ask));
    }
    let amounts = amounts_of(&ask.cost, &policy.limits);
    let pricing = Pricing::new(&rules.limits, ledger.in_flight.mean());
    let Some(flow) = ledger.queue.entry(&ask.flow) else {
        // More flows wait than are kept: told a time at random, remembered nowhere.
        return overflow(ask, shortage.unwrap_or(WaitReason::OverShare));
    };
    let now_ms = ledger.last / 1_000;
    let place = ledger.queue.redeemable(flow, print_of(ask), now_ms);
    let line = Line::new(ledger, &pricing, flow, place, amounts);
    let curves = ledger.curves(&rules);
    let owed = shortage.is_none() && !line.all_kept(ledger, &curves, place);
    let reason = match shortage {
        None if !owed => {
            if let Some(place) = place {
                ledger.queue.remove(place);
                if let Some(state) = ledger.queue.flows.get_mut(flow) {
                    state.returned();
                }
            }
            serve(ledger, &pricing, flow, amounts);
            let reservation = take(ledger, &rules, ask);
            ledger.queue.tidy();
            return Decision::Admit(reservation);
        }
        None => WaitReason::OverShare,
        Some(reason) => reason,
    };
    let wait = line.wait(ledger, &curves).max(LEAST_WAIT);
    book(ledger, ask, flow, place, amounts, wait, reason)
}

/// Takes the cost of `ask` whether it is there or not: a call that left without a decision (failed open, shadow mode),
/// or bytes that came after an early one.
pub fn charge(ledger: &mut Ledger, policy: &Policy, ask: &Ask, now: Timestamp) -> Reservation {
    let rules = ledger.advance(policy, now);
    if !ledger.queue.is_empty() {
        let amounts = amounts_of(&ask.cost, &policy.limits);
        let pricing = Pricing::new(&rules.limits, ledger.in_flight.mean());
        if let Some(flow) = ledger.queue.entry(&ask.flow) {
            serve(ledger, &pricing, flow, amounts);
            ledger.queue.tidy();
        }
    }
    take(ledger, &rules, ask)
}

/// Forgets `booking`: its caller, parked here, went away. Says nothing about how many of the flow's callers return.
pub fn cancel(ledger: &mut Ledger, policy: &Policy, booking: &Booking, now: Timestamp) {
    ledger.advance(policy, now);
    let Ok(flow) = ledger.queue.find(&booking.flow) else { return };
    let range = ledger.queue.range(flow);
    let print = low_bits(booking.fingerprint);
    let mine = range.clone().filter_map(|call| Some((call, ledger.queue.calls.get(call)?)));
    // The latest of those that look alike: the others may be nearer their turn.
    let found = mine.filter(|(_, call)| call.print == print).max_by_key(|(_, call)| call.due);
    if let Some((call, _)) = found {
        ledger.queue.remove(Place { flow, call });
        ledger.queue.tidy();
    }
}

/// Why `cost` is not there now; `None` when it is.
fn shortage(ledger: &Ledger, rules: &Rules, cost: &Cost) -> Option<WaitReason> {
    if rules.paused_until.is_some() {
        return Some(WaitReason::UpstreamPaused);
    }
    let short = Resource::PER_MINUTE
        .iter()
        .zip(ledger.meters.iter().zip(rules.meters))
        .any(|(&resource, (meter, rule))| rule.is_some_and(|rule| !meter.fits(rule, *cost.get(resource))));
    if short {
        return Some(WaitReason::Exhausted);
    }
    let slots_used = u64::from(ledger.in_flight.total()).saturating_add(cost.concurrency);
    rules
        .slots
        .is_some_and(|slots| slots_used > slots.max(cost.concurrency))
        .then_some(WaitReason::Concurrency)
}

fn take(ledger: &mut Ledger, rules: &Rules, ask: &Ask) -> Reservation {
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter_mut().zip(rules.meters))
    {
        if let Some(rule) = rule {
            meter.take(rule, *ask.cost.get(resource));
        }
    }
    ledger.in_flight.begin();
    Reservation { taken_at: Timestamp::from_micros(ledger.last), flow: ask.flow, cost: ask.cost }
}

/// Accounts service to a flow and moves virtual time on.
fn serve(ledger: &mut Ledger, pricing: &Pricing, flow: usize, amounts: [u32; 4]) {
    let weight = ledger.queue.weights(flow).get(flow).copied();
    let queue = &mut ledger.queue;
    let (Some(weight), Some(state)) = (weight, queue.flows.get_mut(flow)) else { return };
    let start = state.finish;
    state.finish = start.saturating_add(weight.virtual_span(pricing.dominant(&amounts)));
    let least = queue.flows.iter().filter(|state| state.waiting > 0).map(|state| state.finish).min();
    queue.virtual_time = queue.virtual_time.max(least.unwrap_or(start));
}

fn book(
    ledger: &mut Ledger,
    ask: &Ask,
    flow: usize,
    place: Option<Place>,
    amounts: [u32; 4],
    wait: u64,
    reason: WaitReason,
) -> Decision {
    let wait = Span::from_millis(Span::from_micros(wait).as_millis_ceil());
    let told = told(wait, ask);
    let at = |span: Span| ledger.last.saturating_add(span.as_micros()).div_ceil(1_000);
    let (due, back) = (at(wait), at(told));
    match place {
        Some(place) => {
            if let Some(call) = ledger.queue.calls.get_mut(place.call) {
                (call.due, call.back, call.amounts) = (due, back, amounts);
            }
        }
        None => {
            ledger.queue.push(flow, Call { print: print_of(ask), due, back, amounts });
        }
    }
    Decision::Wait(Booking { fingerprint: ask.fingerprint, flow: ask.flow, wait, told }, reason)
}

/// The wait to tell: the real one, or else a moment in the last quarter of the longest that may be told.
fn told(wait: Span, ask: &Ask) -> Span {
    if wait <= ask.max_told {
        return wait;
    }
    let most = ask.max_told.as_micros();
    let spread = most.saturating_mul(ask.fingerprint % 64) / 256;
    Span::from_millis(Span::from_micros(most.saturating_sub(spread)).as_micros() / 1_000)
        .max(Span::from_millis(1))
}

fn overflow(ask: &Ask, reason: WaitReason) -> Decision {
    let wait = told(Span::MAX, ask);
    Decision::Wait(Booking { fingerprint: ask.fingerprint, flow: ask.flow, wait, told: wait }, reason)
}

fn print_of(ask: &Ask) -> u32 {
    low_bits(ask.fingerprint)
}

#[allow(clippy::cast_possible_truncation)]
const fn low_bits(fingerprint: u64) -> u32 {
    (fingerprint & 0xffff_ffff) as u32
}

/// The queue as one call sees it.
struct Line {
    /// Virtual finish tag of the call.
    tag: u64,
    amounts: [u32; 4],
    /// Tag of every waiting call, in the queue's order.
    tags: Vec<u64>,
    /// Cost in time of the limit of every waiting call.
    costs: Vec<u64>,
    flow: usize,
    place: Option<Place>,
}

impl Line {
    fn new(ledger: &Ledger, pricing: &Pricing, flow: usize, place: Option<Place>, amounts: [u32; 4]) -> Self {
        let queue = &ledger.queue;
        let weights = queue.weights(flow);
        let mut tags = Vec::with_capacity(queue.calls.len());
        let mut costs = Vec::with_capacity(queue.calls.len());
        let mut calls = queue.calls.iter();
        let mut own_tag = None;
        let mut tail = 0;
        for (index, (state, weight)) in queue.flows.iter().zip(&weights).enumerate() {
            let mut ahead = 0_u64;
            for call in calls.by_ref().take(state.waiting.into()) {
                let cost = pricing.dominant(&call.amounts);
                let here = Some(tags.len()) == place.map(|place| place.call);
                let whole = ahead.saturating_add(cost);
                let tag = state.finish.saturating_add(weight.virtual_span(whole));
                if here {
                    own_tag = Some(tag);
                }
                tags.push(tag);
                costs.push(cost);
                ahead = ahead.saturating_add(discounted(cost, state.return_rate));
            }
            if index == flow {
                let whole = ahead.saturating_add(pricing.dominant(&amounts));
                tail = state.finish.saturating_add(weight.virtual_span(whole));
            }
        }
        Self { tag: own_tag.unwrap_or(tail), amounts, tags, costs, flow, place }
    }

    /// True when after this call every waiting call with an earlier tag can still be served when promised.
    fn all_kept(&self, ledger: &Ledger, curves: &[Option<Curve>; 5], place: Option<Place>) -> bool {
        let queue = &ledger.queue;
        let mut earlier: Vec<(u64, [u64; 4], u64)> = Vec::new();
        let mut index = 0_usize;
        let mut calls = queue.calls.iter();
        for (flow, state) in queue.flows.iter().enumerate() {
            for call in calls.by_ref().take(state.waiting.into()) {
                let mine = Some(index) == place.map(|place| place.call);
                let before_mine = flow == self.flow && place.is_none_or(|place| index < place.call);
                let tag = self.tags.get(index).copied().unwrap_or(u64::MAX);
                if !mine && (tag < self.tag || before_mine) {
                    let rate = u64::from(state.return_rate);
                    let amounts = call.amounts.map(|amount| u64::from(amount).saturating_mul(rate));
                    earlier.push((call.due, amounts, rate));
                }
                index = index.saturating_add(1);
            }
        }
        earlier.sort_unstable_by_key(|(due, ..)| *due);
        let whole = u64::from(ALL_RETURN);
        let mut need = self.amounts.map(|amount| u64::from(amount).saturating_mul(whole));
        let mut slots = whole;
        for (due, amounts, rate) in earlier {
            for (sum, amount) in need.iter_mut().zip(amounts) {
                *sum = sum.saturating_add(amount);
            }
            slots = slots.saturating_add(rate);
            let wait = due.saturating_mul(1_000).saturating_sub(ledger.last);
            if !reachable(ledger, curves, &need, slots, wait) {
                return false;
            }
        }
        true
    }

    /// Time until this call's turn, if all who wait keep coming.
    fn wait(&self, ledger: &Ledger, curves: &[Option<Curve>; 5]) -> u64 {
        let queue = &ledger.queue;
        let weights = queue.weights(self.flow);
        let mut ahead = [0_u64; 5];
        let (mut calls, mut costs) = (queue.calls.iter(), self.costs.iter());
        let mut index = 0_usize;
        for (flow, (state, weight)) in queue.flows.iter().zip(&weights).enumerate() {
            let mut sums = [0_u64; 4];
            let (mut dominant, mut own) = (0_u64, 0_u64);
            let mut own_sums = [0_u64; 4];
            for call in calls.by_ref().take(state.waiting.into()) {
                let cost = costs.next().copied().unwrap_or(0);
                let mine = self.place.is_some_and(|place| index >= place.call);
                if flow == self.flow && !mine {
                    own = own.saturating_add(discounted(1_000, state.return_rate));
                    for (sum, amount) in own_sums.iter_mut().zip(call.amounts) {
                        *sum = sum.saturating_add(discounted(amount.into(), state.return_rate));
                    }
                }
                dominant = dominant.saturating_add(cost);
                for (sum, amount) in sums.iter_mut().zip(call.amounts) {
                    *sum = sum.saturating_add(amount.into());
                }
                index = index.saturating_add(1);
            }
            if flow == self.flow {
                for (sum, amount) in ahead.iter_mut().zip(own_sums) {
                    *sum = sum.saturating_add(amount);
                }
                {
                    let [.., slots] = &mut ahead;
                    *slots = slots.saturating_add(own);
                }
            } else if state.waiting > 0 {
                // The flow is taken to stay backlogged, with calls like those that wait now.
                let owed = weight.service(self.tag.saturating_sub(state.finish));
                let part = |sum: u64| {
                    let product = u128::from(sum).saturating_mul(u128::from(owed));
                    u64::try_from(product.checked_div(u128::from(dominant.max(1))).unwrap_or(0))
                        .unwrap_or(u64::MAX)
                };
                for (sum, amount) in ahead.iter_mut().zip(sums) {
                    *sum = sum.saturating_add(part(amount));
                }
                {
                    let [.., slots] = &mut ahead;
                    *slots = slots.saturating_add(part(u64::from(state.waiting).saturating_mul(1_000)));
                }
            }
        }
        let [requests, llm_tokens, input, output, slots] = ahead;
        let per_minute = [requests, llm_tokens, input, output];
        let mut wait = 0_u64;
        for (curve, (ahead, own)) in curves.iter().zip(per_minute.into_iter().zip(self.amounts)) {
            if let Some(curve) = curve {
                wait = wait.max(curve.wait_for_units(ledger.period, ahead, own.into()));
            }
        }
        if let [.., Some(curve)] = curves {
            wait = wait.max(curve.wait_for_slots(ledger.in_flight.mean(), slots));
        }
        wait
    }
}

fn reachable(ledger: &Ledger, curves: &[Option<Curve>; 5], need: &[u64; 4], slots: u64, wait: u64) -> bool {
    let scale = |amount: u64, period: u64| {
        let scaled = u128::from(amount).saturating_mul(u128::from(period)).div_ceil(u128::from(ALL_RETURN));
        i64::try_from(scaled).unwrap_or(i64::MAX)
    };
    let per_minute = curves.iter().zip(need).all(|(curve, &need)| {
        curve.as_ref().is_none_or(|curve| scale(need, ledger.period) <= curve.at(wait))
    });
    let [.., last] = curves;
    per_minute && last.as_ref().is_none_or(|curve| scale(slots, ledger.in_flight.mean()) <= curve.at(wait))
}
