//! One decision: admit, or book a time to come back.

use crate::units::{Cost, Resource, Span, Timestamp};

use super::calls::Call;
use super::compact::{low32, pack_byte};
use super::ledger::{Ledger, Rules};
use super::line::Line;
use super::queue::{Place, Recognised, amounts_of};
use super::weight::{Pricing, Weights};
use super::{Ask, Booking, Decision, Policy, Reservation, WaitReason};

/// Least wait ever booked, in microseconds.
const LEAST_WAIT: u64 = 20_000;
/// Different times told to those who come before their turn: as many as calls are kept.
const MAX_RENEWALS: u64 = 4_096;
/// What passed longer ago has left every window.
const OLDEST: Span = Span::from_secs(60);
/// Longest wait ever booked, in microseconds: a day. Nobody is told of it, and the sums hold it exactly.
pub(super) const LONGEST_WAIT: u64 = 86_400_000_000;

/// Decides on `ask` at `now`. An admission takes its cost; a refusal leaves nothing but the booking.
pub fn admit(ledger: &mut Ledger, policy: &Policy, ask: &Ask, now: Timestamp) -> Decision {
    let rules = ledger.advance(policy, now);
    let shortage = shortage(ledger, &rules, &ask.cost);
    if ledger.queue.is_empty() && shortage.is_none() {
        return Decision::Admit(take(ledger, &rules, ask, 1));
    }
    let print = print_of(ask.fingerprint);
    let Some(flow) = ledger.queue.entry(&ask.flow, print, ledger.last / 1_000) else {
        // The table is full of crowds, which cannot be: told a time, remembered nowhere.
        let wait = told(ledger, Span::MAX, ask);
        let booking = Booking { fingerprint: ask.fingerprint, flow: ask.flow, wait, told: wait };
        return Decision::Wait(booking, shortage.unwrap_or(WaitReason::OverShare));
    };
    let pricing = Pricing::new(&rules.limits, ledger.in_flight.mean());
    let weights = Weights::new(&ledger.queue, flow);
    let recognised = ledger.queue.recognise(flow, print, ask.parked, ledger.last / 1_000);
    let (place, twin, nearly) = match recognised {
        Recognised::Returning(place) => (Some(place), false, None),
        Recognised::New { twin, nearly } => (None, twin, nearly),
    };
    let service = pricing.dominant(&amounts_of(&ask.cost, &policy.limits));
    if let (None, Some(state)) = (place, ledger.queue.flows.get_mut(flow)) {
        state.ask(service);
    }
    let broken = place
        .and_then(|place| ledger.queue.calls.get(place.call))
        .is_some_and(|call| call.due() <= ledger.last.div_ceil(1_000));
    let line = Line::new(ledger, &pricing, &weights, flow, place, &ask.cost, shortage.is_none());
    let curves = ledger.curves(&rules);
    let reason = match shortage {
        None if line.all_kept(ledger, &curves) => {
            if let Some(place) = place.or(nearly) {
                ledger.queue.redeem(place);
            }
            ledger.queue.serve(&weights, flow, service);
            return Decision::Admit(take(ledger, &rules, ask, 1));
        }
        None => WaitReason::OverShare,
        Some(reason) => reason,
    };
    let mut wait = line.wait(ledger, &curves, broken);
    if broken && pricing.counts_slots() && reason != WaitReason::Exhausted {
        // The next slot may come at any moment, and a caller that is held here pays nothing for looking.
        let sooner = wait.saturating_mul(3) / 10;
        wait = if sooner <= ask.max_park.as_micros() { sooner } else { wait };
    }
    if pricing.counts_slots() && reason != WaitReason::Exhausted {
        wait = held_to_the_end(wait, ask.max_park.as_micros());
    }
    let wait = wait.clamp(LEAST_WAIT, LONGEST_WAIT);
    let wait = Span::from_millis(Span::from_micros(wait).as_millis_ceil());
    let told = told(ledger, wait, ask);
    let amounts = amounts_of(&ask.cost, &policy.limits);
    let call = Call { print, amounts, twin, broken, ..at_turn(ledger.last, wait, told) };
    book(ledger, &weights, flow, place, call);
    Decision::Wait(Booking { fingerprint: ask.fingerprint, flow: ask.flow, wait, told }, reason)
}

/// The margin in a promised time is for who has to travel for the slot. A call that would be held here without it is
/// held as long as it may be, in microseconds.
fn held_to_the_end(wait: u64, max_park: u64) -> u64 {
    let without_margin = wait.saturating_mul(7) / 8;
    if without_margin <= max_park { wait.min(max_park) } else { wait }
}

/// Takes the cost of `ask` whether it is there or not: a call that left without a decision (failed open, shadow mode),
/// or bytes that came after an early one. Holds as many slots as the cost says, so none for such bytes.
pub fn charge(ledger: &mut Ledger, policy: &Policy, ask: &Ask, now: Timestamp) -> Reservation {
    let rules = ledger.advance(policy, now);
    if !ledger.queue.is_empty() {
        credit(ledger, policy, &rules, ask);
    }
    take(ledger, &rules, ask, ask.cost.concurrency.min(1))
}

/// The same for a call that passed `age` ago, at most a minute: it leaves a trailing window as it would have, and what a
/// bucket regained since then is not missing in it. Else everything that passed in a long outage would be owed at once.
pub fn charge_late(
    ledger: &mut Ledger,
    policy: &Policy,
    ask: &Ask,
    age: Span,
    now: Timestamp,
) -> Reservation {
    let rules = ledger.advance(policy, now);
    if !ledger.queue.is_empty() {
        credit(ledger, policy, &rules, ask);
    }
    let at = ledger.last.saturating_sub(age.min(OLDEST).as_micros());
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter_mut().zip(rules.meters))
    {
        if let Some(rule) = rule {
            meter.take_late(rule, *ask.cost.get(resource), at, ledger.last);
        }
    }
    let slots = ask.cost.concurrency.min(1);
    if slots > 0 {
        ledger.in_flight.begin_at(at, ledger.last);
    }
    let cost = Cost { concurrency: slots, ..ask.cost };
    Reservation { taken_at: Timestamp::from_micros(at), flow: ask.flow, cost }
}

/// Counts a call that passed without a decision as service of its flow.
pub(super) fn credit(ledger: &mut Ledger, policy: &Policy, rules: &Rules, ask: &Ask) {
    let pricing = Pricing::new(&rules.limits, ledger.in_flight.mean());
    if let Some(flow) = ledger.queue.entry(&ask.flow, print_of(ask.fingerprint), ledger.last / 1_000) {
        let weights = Weights::new(&ledger.queue, flow);
        let service = pricing.dominant(&amounts_of(&ask.cost, &policy.limits));
        ledger.queue.serve(&weights, flow, service);
    }
}

/// Uses up the booking with which a call that passed without a decision came, if any.
pub(super) fn redeem(ledger: &mut Ledger, ask: &Ask) {
    let print = print_of(ask.fingerprint);
    let Some(flow) = ledger.queue.home(&ask.flow, print) else { return };
    match ledger.queue.recognise(flow, print, ask.parked, ledger.last / 1_000) {
        Recognised::Returning(place) | Recognised::New { nearly: Some(place), .. } => {
            ledger.queue.redeem(place);
        }
        Recognised::New { nearly: None, .. } => {}
    }
}

/// Forgets `booking`: its caller, parked here, went away. Says nothing about how many of the flow's callers return.
pub fn cancel(ledger: &mut Ledger, policy: &Policy, booking: &Booking, now: Timestamp) {
    ledger.advance(policy, now);
    let print = print_of(booking.fingerprint);
    let Some(flow) = ledger.queue.home(&booking.flow, print) else { return };
    let calls = ledger.queue.range(flow).filter_map(|call| Some((call, ledger.queue.calls.get(call)?)));
    // The latest of those that look alike: the others may be nearer their turn.
    let found = calls.filter(|(_, call)| call.print == print).max_by_key(|(_, call)| call.back);
    if let Some((call, _)) = found {
        ledger.queue.remove(Place { flow, call });
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
    let slots_used = ledger.slots_used(rules).saturating_add(cost.concurrency);
    rules
        .slots
        .is_some_and(|slots| slots_used > slots.max(cost.concurrency))
        .then_some(WaitReason::Concurrency)
}

pub(super) fn take(ledger: &mut Ledger, rules: &Rules, ask: &Ask, slots: u64) -> Reservation {
    for (resource, (meter, rule)) in
        Resource::PER_MINUTE.into_iter().zip(ledger.meters.iter_mut().zip(rules.meters))
    {
        if let Some(rule) = rule {
            meter.take(rule, *ask.cost.get(resource), ledger.last);
        }
    }
    if slots > 0 {
        ledger.in_flight.begin();
    }
    let cost = Cost { concurrency: slots, ..ask.cost };
    Reservation { taken_at: Timestamp::from_micros(ledger.last), flow: ask.flow, cost }
}

fn at_turn(now: u64, wait: Span, told: Span) -> Call {
    let back = now.saturating_add(told.as_micros()).div_ceil(1_000);
    let later = wait.minus(told).as_millis_ceil().div_ceil(Call::STEP);
    Call { back, later: pack_byte(u32::try_from(later).unwrap_or(u32::MAX)), ..Call::default() }
}

fn book(ledger: &mut Ledger, weights: &Weights, flow: usize, place: Option<Place>, call: Call) {
    let Some(place) = place else {
        ledger.queue.push(flow, &call, weights, ledger.last / 1_000);
        return;
    };
    if let Some(booked) = ledger.queue.calls.get(place.call) {
        ledger
            .queue
            .calls
            .set(place.call, &Call { twin: booked.twin, broken: call.broken || booked.broken, ..call });
    }
}

/// The wait to tell: the real one, or else a moment at the end of the longest that may be told. Each of these is another
/// one until all milliseconds there, or as many as calls are kept, have been told; neighbours are far apart.
fn told(ledger: &mut Ledger, wait: Span, ask: &Ask) -> Span {
    if wait <= ask.max_told.max(ask.max_park) {
        return wait;
    }
    let most = ask.max_told.as_micros() / 1_000;
    let end = (most / 8).max((most / 2).min(1_000));
    let times = 1_u64 << end.clamp(1, MAX_RENEWALS).ilog2();
    let stride = (times.saturating_mul(618) / 1_000) | 1;
    let step = u64::from(ledger.queue.renewals).saturating_mul(stride) & times.saturating_sub(1);
    ledger.queue.renewals = ledger.queue.renewals.wrapping_add(1);
    let before = step.saturating_mul(end).checked_div(times).unwrap_or(0);
    Span::from_millis(most.saturating_sub(before).max(1))
}

fn print_of(fingerprint: u64) -> u32 {
    low32(fingerprint & 0x007f_ffff)
}
