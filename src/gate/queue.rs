//! The virtual queue: flows, and the calls of each that were told to come back.
//!
//! The calls of a flow stand in the order in which they came. Their virtual finish tags are not stored: a call's tag
//! is its flow's finish plus the discounted cost of the flow's calls up to and including it, over the flow's weight.

use crate::units::{Cost, Limits, Resource};

use super::Flow;
use super::calls::{Call, Calls};
use super::codec_queue::{CALL_BYTES, FLOW_BYTES};
use super::compact::{pack, unpack};
pub(crate) use super::flow_state::{ALL_RETURN, FlowState, STEP};
use super::flow_state::{FIRST_TRUST, raised};
use super::weight::Weights;

/// Calls kept one by one.
pub(crate) const MAX_CALLS: usize = 4_096;
/// Entries of flows; when there are more, some stand together: see `crowd`.
pub(crate) const MAX_FLOWS: usize = 1_024;
/// How long past its time a booking is kept, in milliseconds: whole-second clients come up to 1 s late.
pub(crate) const GRACE_MS: u64 = 3_000;
/// A call this much before its time is still taken for the one that was told to come, in milliseconds. No more: where
/// many send the same body, one of them is always nearly due.
const EARLY_MS: u64 = 50;
/// One that passes this much before the time of a look-alike is taken for it after all: else its booking would hold room for
/// nobody. Should it have been another caller, that one comes when there is room anyway.
const NEARLY_MS: u64 = 250;
/// Milliseconds between two decays of what a flow asked for and received.
pub(crate) const DECAY_MS: u64 = 2_000;
/// A decay takes one part in this many (as a shift), so both sums look back over 16 decays, 32 s.
const DECAY_SHIFT: u32 = 4;
/// Time over which [`FlowState::asked`] and [`FlowState::received`] look back, in microseconds.
pub(crate) const MEMORY: u64 = 32_000_000;
/// How far a flow's finish may be below virtual time (refunds lower it) and above it: what the codec can say.
pub(crate) const MOST_BEHIND: u64 = 1 << 38;
const MOST_AHEAD: u64 = (1 << 40) - MOST_BEHIND - 1;
/// Virtual time above which all of it is lowered by half of that.
const REBASE: u64 = 1 << 45;
/// Calls kept of one flow: what the codec can say.
pub(crate) const MOST_OF_A_FLOW: u16 = (1 << 12) - 1;
/// Encoded bytes of flows and calls together at most: with the four rings of the window a ledger stays within 64 KiB.
const MAX_BYTES: usize = 62_800;
/// Amounts of the per-minute resources that are limited, as a waiting call carries them. Each is a request, so that calls that
/// wait already count when requests become limited.
pub(crate) fn amounts_of(cost: &Cost, limits: &Limits) -> [u32; 4] {
    let rounded = |amount: u64| unpack(pack(u32::try_from(amount).unwrap_or(u32::MAX)));
    Resource::PER_MINUTE.map(|resource| match (limits.get(resource), resource) {
        (_, Resource::Requests) => 1,
        (None, _) => 0,
        (Some(_), _) => rounded(*cost.get(resource)),
    })
}

/// Everybody who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Sorted by (class, tenant).
    pub(crate) flows: Vec<FlowState>,
    /// The calls of the first flow, then those of the second, ...
    pub(crate) calls: Calls,
    /// Virtual time.
    pub(crate) virtual_time: u64,
    /// Number of the last decay.
    pub(crate) decays: u64,
    /// Times told that are not the caller's turn, wrapping.
    pub(crate) renewals: u16,
    /// Refused callers may come back to another gate, so nobody is counted on here before some came. Each transaction says it;
    /// it is not encoded.
    pub(crate) strangers: bool,
}

/// Where a call stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) flow: usize,
    pub(crate) call: usize,
}

/// What the fingerprint of an asking call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recognised {
    /// It was told to come back.
    Returning(Place),
    /// Nobody knows it. `twin`: one that looks the same waits; `nearly`: it is the one that will be due in a moment, should
    /// this call pass.
    New { twin: bool, nearly: Option<Place> },
}

impl Queue {
    /// True when nothing waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// True when nothing is known of anybody.
    pub(crate) const fn is_forgotten(&self) -> bool {
        self.flows.is_empty()
    }

    /// Forgets everything, but keeps the memory.
    pub(crate) fn forget(&mut self) {
        self.flows.clear();
        self.calls.clear();
        (self.virtual_time, self.decays, self.renewals) = (0, 0, 0);
    }

    /// Index of the flow's entry, or where it would be.
    pub(crate) fn find(&self, flow: &Flow) -> Result<usize, usize> {
        self.flows.binary_search_by(|state| state.key().cmp(&(flow.class.0, flow.tenant.0)))
    }

    /// Range of a flow's calls.
    pub(crate) fn range(&self, flow: usize) -> core::ops::Range<usize> {
        let start = self.flows.iter().take(flow).map(|state| usize::from(state.waiting)).sum::<usize>();
        let len = self.flows.get(flow).map_or(0, |state| usize::from(state.waiting));
        start..start.saturating_add(len)
    }

    /// Whether a call of `flow` with `print` is one that was told to come back by `now` (milliseconds).
    ///
    /// Of several that look the same the earliest due is redeemed. A call well before any of their times is another
    /// caller, as long as such look-alikes do come back; else it is one caller that knocks too early. A `parked` call
    /// is known to hold one of them, and it does not matter which.
    pub(crate) fn recognise(&self, flow: usize, print: u32, parked: bool, now: u64) -> Recognised {
        let range = self.range(flow);
        let start = range.start;
        let mut earliest: Option<(u64, usize)> = None;
        let mut twins = 0_usize;
        for (index, call) in self.calls.range(range).enumerate() {
            twins = twins.saturating_add(usize::from(call.twin));
            if call.print == print {
                earliest = earliest.filter(|(back, _)| *back <= call.back).or(Some((call.back, index)));
            }
        }
        let Some((back, index)) = earliest else { return Recognised::New { twin: false, nearly: None } };
        let place = Place { flow, call: start.saturating_add(index) };
        let due_within = |millis: u64| now.saturating_add(millis) >= back;
        let most = self.flows.get(flow).map_or(0, FlowState::most_twins);
        if due_within(EARLY_MS) || parked || twins >= most {
            Recognised::Returning(place)
        } else {
            Recognised::New { twin: true, nearly: due_within(NEARLY_MS).then_some(place) }
        }
    }

    /// Takes a call out of the queue because it was admitted.
    pub(crate) fn redeem(&mut self, place: Place) {
        let twin = self.calls.get(place.call).is_some_and(|call| call.twin);
        self.remove(place);
        if let Some(state) = self.flows.get_mut(place.flow) {
            state.returned(twin);
        }
    }

    /// Takes a call out of the queue.
    pub(crate) fn remove(&mut self, place: Place) {
        self.calls.remove(place.call);
        if let Some(state) = self.flows.get_mut(place.flow) {
            state.waiting = state.waiting.saturating_sub(1);
        }
    }

    /// Puts a call at the end of its flow's. When the table is full, the flow with the most calls for its weight loses its
    /// last one; when that is this flow, the call is not remembered. `now` in milliseconds.
    pub(crate) fn push(&mut self, flow: usize, call: &Call, weights: &Weights, now: u64) {
        let width = call.amounts.iter().skip(1).filter(|amount| **amount > 0).count().saturating_mul(2);
        let flows = self.flows.len().saturating_mul(FLOW_BYTES);
        loop {
            let calls = self.calls.len().saturating_mul(width.saturating_add(CALL_BYTES));
            if self.calls.len() < MAX_CALLS && calls.saturating_add(flows) <= MAX_BYTES {
                break;
            }
            let most = self
                .flows
                .iter()
                .enumerate()
                .max_by_key(|(_, state)| weights.of(state).excess(state.waiting));
            match most.map(|(index, _)| index) {
                Some(most) if most != flow => {
                    let last = self.range(most).end.saturating_sub(1);
                    self.remove(Place { flow: most, call: last });
                }
                _ => return,
            }
        }
        let at = self.range(flow).end.min(self.calls.len());
        let Some(state) = self.flows.get_mut(flow).filter(|state| state.waiting < MOST_OF_A_FLOW) else {
            return;
        };
        state.waiting = state.waiting.saturating_add(1);
        self.calls.insert(at, call, now);
    }

    /// Forgets bookings whose time is past, and ages what flows asked for and received. `now` in milliseconds.
    ///
    /// A caller whose promise was broken is not blamed for staying away, unless what was held for it was held `in_vain`, because
    /// nothing was short: else callers who give up would keep an idle pool from those who come.
    pub(crate) fn age(&mut self, now: u64, in_vain: bool) {
        self.decay(now);
        let least = now.saturating_sub(GRACE_MS);
        if self.calls.all_from(least) {
            self.calls.move_epoch(now);
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
            let kept = call.back >= least;
            if let (false, Some(state)) = (kept, current.as_mut()) {
                state.waiting = state.waiting.saturating_sub(1);
                if !call.broken || in_vain {
                    state.abandoned(call.twin);
                }
            }
            kept
        });
        self.calls.move_epoch(now);
    }

    fn decay(&mut self, now: u64) {
        if self.flows.is_empty() {
            return;
        }
        let due = now / DECAY_MS;
        let missed = due.saturating_sub(self.decays).min(256);
        self.decays = due.max(self.decays);
        for _ in 0..missed {
            for state in &mut self.flows {
                state.asked = state.asked.saturating_sub(state.asked.div_ceil(1 << DECAY_SHIFT));
                state.received = state.received.saturating_sub(state.received.div_ceil(1 << DECAY_SHIFT));
            }
        }
    }

    /// Accounts `service` (microseconds of the limit) to a flow and moves virtual time on.
    pub(crate) fn serve(&mut self, weights: &Weights, flow: usize, service: u64) {
        let Some(state) = self.flows.get_mut(flow) else { return };
        let start = state.finish;
        state.finish = start.saturating_add(weights.of(state).virtual_span(service));
        state.finish = state.finish.min(self.virtual_time.saturating_add(MOST_AHEAD));
        state.received = raised(state.received, service);
        let least = self.flows.iter().filter(|state| state.waiting > 0).map(|state| state.finish).min();
        self.virtual_time = self.virtual_time.max(least.unwrap_or(start));
    }

    /// Corrects what was accounted to a flow.
    pub(crate) fn correct(&mut self, weights: &Weights, flow: usize, more: u64, less: u64) {
        let virtual_time = self.virtual_time;
        let Some(state) = self.flows.get_mut(flow) else { return };
        let weight = weights.of(state);
        state.received = raised(state.received, more).saturating_sub(raised(0, less));
        let finish =
            state.finish.saturating_add(weight.virtual_span(more)).saturating_sub(weight.virtual_span(less));
        let least = virtual_time.saturating_sub(MOST_BEHIND);
        state.finish = finish.clamp(least, virtual_time.saturating_add(MOST_AHEAD));
    }

    /// Drops flows that owe nothing and have nothing waiting, and keeps virtual time small.
    pub(crate) fn tidy(&mut self) {
        if self.flows.is_empty() {
            return;
        }
        let virtual_time = self.virtual_time;
        let nobody = self.calls.is_empty();
        self.flows.retain_mut(|state| {
            // No credit for a time in which nothing waits.
            if state.waiting == 0 {
                state.finish = state.finish.max(virtual_time);
            }
            let ahead = !nobody && state.finish > virtual_time;
            let learned = self.strangers || state.return_rate < ALL_RETURN - ALL_RETURN / 50;
            let remembered = learned || state.trust < FIRST_TRUST;
            state.waiting > 0 || ahead || ((remembered || !nobody) && state.asked > 0)
        });
        if self.flows.is_empty() {
            self.forget();
        } else if virtual_time > REBASE {
            for state in &mut self.flows {
                state.finish = state.finish.saturating_sub(REBASE / 2);
            }
            self.virtual_time = virtual_time.saturating_sub(REBASE / 2);
        }
    }
}
