//! The whole shared state of one pool: one value, read and written as one.

use crate::units::{Limits, PerResource, Resource, Span, Timestamp};
use crate::upstream::UpstreamState;

use super::Policy;
use super::curve::{Curve, Opening};
use super::lease::Lent;
use super::meter::{MINUTE, Meter, STRETCHED, slot_of};
use super::queue::Queue;
use super::rule::Rule;
use super::slots::InFlight;
use super::usage::Usage;

pub use super::codec::LedgerError;

/// The host's clock may be this much behind the ledger (workers race) before it counts as set back.
const SKEW: u64 = 5_000_000;
/// A provider's second is not ours: nothing is promised this soon after a pause, in microseconds.
const PAUSE_MARGIN: u64 = 1_000_000;

/// Seconds after which a gradual re-opening is over.
const REOPENED: u64 = 20;

/// State of one pool.
///
/// Counts absolute amounts, so a changed limit applies to what is already counted. Keeps its own time, which never
/// runs back: when the host's clock is set back, ledger time goes on from where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// Ledger time of the last use, microseconds.
    pub(crate) last: u64,
    /// What is added to the host's clock to get ledger time, microseconds.
    pub(crate) shift: i64,
    /// Scale of the buckets.
    pub(crate) period: u64,
    pub(crate) meters: [Meter; 4],
    pub(crate) in_flight: InFlight,
    pub(crate) queue: Queue,
    pub(crate) usage: Usage,
    /// What is lent. Only the ledger of a fleet lends, and it is kept elsewhere; so this is not encoded.
    pub(crate) lent: Lent,
    /// What was learned from the provider. Its times are ledger times: see [`Ledger::time`].
    pub upstream: UpstreamState,
}

/// The limits in force at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) meters: [Option<Rule>; 4],
    pub(crate) slots: Option<u64>,
    pub(crate) slots_lent: u64,
    /// Limits after the provider's adaptation, for pricing.
    pub(crate) limits: Limits,
    /// End of the provider's pause.
    pub(crate) paused_until: Option<u64>,
    /// From when on and how slowly calls are served.
    pub(crate) opening: Opening,
}

impl Rules {
    fn note_lent(&mut self, lent: &Lent) {
        if lent.is_empty() {
            return;
        }
        for (resource, rule) in Resource::PER_MINUTE.into_iter().zip(&mut self.meters) {
            if let Some(rule) = rule {
                rule.lent = lent.sum(resource);
            }
        }
        self.slots_lent = lent.sum(Resource::Concurrency);
    }
}

impl Ledger {
    /// A pool that was never used.
    pub fn new(now: Timestamp) -> Self {
        let last = now.as_micros();
        Self {
            last,
            shift: 0,
            period: MINUTE,
            meters: core::array::from_fn(|_| Meter::new(slot_of(last))),
            in_flight: InFlight::new(),
            queue: Queue::default(),
            usage: Usage::default(),
            lent: Lent::new(),
            upstream: UpstreamState::default(),
        }
    }

    /// Makes this a pool that was never used; keeps its memory.
    pub(crate) fn reset(&mut self, now: Timestamp) {
        let last = now.as_micros();
        (self.last, self.shift, self.period) = (last, 0, MINUTE);
        self.meters.iter_mut().for_each(|meter| meter.reset_to(slot_of(last)));
        self.in_flight.reset();
        self.queue.forget();
        self.usage = Usage::default();
        self.lent.clear();
        self.upstream = UpstreamState::default();
    }

    /// Ledger time for the host's `now`: the time to show to [`Ledger::upstream`].
    pub const fn time(&self, now: Timestamp) -> Timestamp {
        let shifted = now.as_micros().saturating_add_signed(self.shift);
        Timestamp::from_micros(if shifted > self.last { shifted } else { self.last })
    }

    /// True when [`Ledger::advance`] would change nothing that is told.
    pub(crate) fn is_at(&self, policy: &Policy, now: Timestamp) -> bool {
        self.time(now).as_micros() == self.last && policy.strict_window == (self.period == STRETCHED)
    }

    /// A copy of everything but who waits.
    pub(crate) fn without_queue(&self) -> Self {
        Self {
            last: self.last,
            shift: self.shift,
            period: self.period,
            meters: self.meters.clone(),
            in_flight: self.in_flight.clone(),
            queue: Queue::default(),
            usage: self.usage,
            lent: self.lent.clone(),
            upstream: self.upstream,
        }
    }

    /// Begins anew unless the ledger was used within `span`: what it counted and promised then is counted, or was
    /// promised, elsewhere. Calls in progress stay, and so does what was learned of the provider.
    pub fn leave_behind(&mut self, now: Timestamp, span: Span) {
        if self.time(now).as_micros().saturating_sub(self.last) > span.as_micros() {
            self.queue.forget();
            self.lent.clear();
            let head = slot_of(self.last);
            self.meters.iter_mut().for_each(|meter| meter.reset_to(head));
        }
    }

    /// Says whether callers that are refused here may come back to another gate, which has its own ledger. Then a new flow
    /// begins as one of which nearly nobody comes back: room held for those who do not come is lost for good, while its lack costs those
    /// who do a further try. Not encoded, so each transaction has to say it.
    pub const fn count_on_nobody(&mut self, strangers: bool) {
        self.queue.strangers = strangers;
    }

    /// Brings everything up to `now` and returns the rules in force.
    pub(crate) fn advance(&mut self, policy: &Policy, now: Timestamp) -> Rules {
        let shifted = now.as_micros().saturating_add_signed(self.shift);
        if self.last.saturating_sub(shifted) > SKEW {
            // Told by the clock and not by what was kept: a damaged shift must not hold time still.
            let signed = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
            self.shift = signed(self.last).saturating_sub(signed(now.as_micros()));
        }
        let (from, to) = (self.last, shifted.max(self.last));
        let mut rules = self.rules_unlent(policy, to);
        let period = if policy.strict_window { STRETCHED } else { MINUTE };
        if period != self.period {
            for meter in &mut self.meters {
                meter.rescale(self.period, period);
            }
            self.period = period;
        }
        let mut at = from;
        while let Some((edge, amounts)) = self.lent.next_ended(to) {
            self.advance_meters(&rules, at, edge);
            for (resource, (meter, rule)) in
                Resource::PER_MINUTE.into_iter().zip(self.meters.iter_mut().zip(rules.meters))
            {
                if let Some(rule) = rule {
                    meter.take(rule, *amounts.get(resource), edge);
                }
            }
            at = edge.max(at);
        }
        self.advance_meters(&rules, at, to);
        rules.note_lent(&self.lent);
        self.in_flight.advance(policy.reservation_ttl, to);
        self.last = to;
        self.queue.age(to / 1_000, self.is_idle(&rules));
        self.queue.tidy();
        rules
    }

    fn advance_meters(&mut self, rules: &Rules, from: u64, to: u64) {
        // Nothing refills during a pause, so that its end releases no burst.
        let pause_end = self.upstream.blocked_until(Timestamp::from_micros(from)).map(Timestamp::as_micros);
        for (meter, rule) in self.meters.iter_mut().zip(rules.meters) {
            match (pause_end.map(|end| end.min(to)), rule) {
                (Some(end), Some(rule)) => {
                    meter.advance(Some(rule), from, end);
                    meter.drain(rule);
                    meter.advance(Some(rule), end, to);
                }
                _ => meter.advance(rule, from, to),
            }
        }
    }

    /// True when every bucket is full and at least half of the slots are free.
    fn is_idle(&self, rules: &Rules) -> bool {
        let is_full = |(meter, rule): (&Meter, &Option<Rule>)| rule.is_none() || meter.missing == 0;
        let slots = self.slots_used(rules);
        rules.paused_until.is_none()
            && self.meters.iter().zip(&rules.meters).all(is_full)
            && rules.slots.is_none_or(|most| slots.saturating_mul(2) <= most)
    }

    /// Slots that are in use or lent.
    pub(crate) fn slots_used(&self, rules: &Rules) -> u64 {
        u64::from(self.in_flight.total()).saturating_add(rules.slots_lent)
    }

    /// The rules in force at `at`, with what is lent.
    pub(crate) fn rules(&self, policy: &Policy, at: u64) -> Rules {
        let mut rules = self.rules_unlent(policy, at);
        rules.note_lent(&self.lent);
        rules
    }

    fn rules_unlent(&self, policy: &Policy, at: u64) -> Rules {
        let now = Timestamp::from_micros(at);
        if self.upstream == UpstreamState::default() {
            let meters = Resource::PER_MINUTE.map(|resource| {
                let limit = (*policy.limits.get(resource))?.max(1);
                Some(Rule::new(limit, limit, policy.burst, policy.strict_window))
            });
            let (slots, limits) = (policy.limits.concurrency, policy.limits);
            return Rules {
                meters,
                slots,
                slots_lent: 0,
                limits,
                paused_until: None,
                opening: Opening::OPEN,
            };
        }
        let pace = self.upstream.scale_permille(now);
        let paused_until = self.upstream.blocked_until(now).map(Timestamp::as_micros);
        let opened_at = paused_until.unwrap_or(at);
        let (mut settled, mut opening) = (pace, Opening::OPEN);
        if paused_until.is_some() || pace < 1_000 {
            settled = self.scale_at(opened_at, REOPENED);
            let seconds = (0..REOPENED).find(|&second| self.scale_at(opened_at, second) >= settled);
            let from = u64::from(self.scale_at(opened_at, 0)).saturating_mul(1_000);
            let margin = if paused_until.is_some() { PAUSE_MARGIN } else { 0 };
            opening = Opening {
                delay: opened_at.saturating_sub(at).saturating_add(margin),
                from: from.checked_div(settled.into()).unwrap_or(1_000).min(1_000),
                over: seconds.unwrap_or(REOPENED).saturating_mul(1_000_000),
            };
        }
        let scale = |limit: u64, permille: u32| {
            limit.saturating_mul(permille.into()).checked_div(1_000).unwrap_or(0).max(1)
        };
        let limits = PerResource::from_fn(|resource| match resource {
            Resource::Concurrency => policy.limits.concurrency,
            _ => policy.limits.get(resource).map(|limit| scale(limit, settled)),
        });
        let meters = Resource::PER_MINUTE.map(|resource| {
            let limit = (*limits.get(resource))?;
            let whole = (*policy.limits.get(resource))?;
            Some(Rule::new(limit, scale(whole, pace), policy.burst, policy.strict_window))
        });
        Rules { meters, slots: policy.limits.concurrency, slots_lent: 0, limits, paused_until, opening }
    }

    fn scale_at(&self, opened_at: u64, second: u64) -> u32 {
        let at = opened_at.saturating_add(second.saturating_mul(1_000_000));
        self.upstream.scale_permille(Timestamp::from_micros(at))
    }

    /// Time until all that `meter` may let pass at once is there again, if nobody takes any.
    pub(crate) fn reset_of(&self, meter: &Meter, rule: Rule, rules: &Rules) -> u64 {
        let rule = Rule { rate: rule.limit, ..rule };
        match self.after_pause(meter, rule, rules) {
            Some((later, _)) => later.reset(rule, self.last, rules.opening),
            None => meter.reset(rule, self.last, rules.opening),
        }
    }

    /// What becomes of `meter` until the end of the provider's pause, and when that is.
    fn after_pause(&self, meter: &Meter, rule: Rule, rules: &Rules) -> Option<(Meter, u64)> {
        let end = rules.paused_until?;
        let mut later = meter.clone();
        later.advance(Some(rule), self.last, end);
        later.drain(rule);
        Some((later, end))
    }

    /// What can be served by when, for each per-minute limit and for the slots.
    pub(crate) fn curves(&self, rules: &Rules) -> [Option<Curve>; 5] {
        let mut curves = [const { None }; 5];
        for (place, (meter, rule)) in curves.iter_mut().zip(self.meters.iter().zip(rules.meters)) {
            *place = rule.map(|rule| {
                // The pace that will hold once the pause has been left.
                let rule = Rule { rate: rule.limit, ..rule };
                match self.after_pause(meter, rule, rules) {
                    Some((later, end)) => Curve::new(&later, rule, end, rules.opening),
                    None => Curve::new(meter, rule, self.last, rules.opening),
                }
            });
        }
        if let ([.., place], Some(slots)) = (&mut curves, rules.slots) {
            let mean = self.in_flight.mean().div_ceil(1_000).max(1).saturating_mul(1_000);
            let free =
                i64::try_from(slots).unwrap_or(i64::MAX).saturating_sub_unsigned(self.slots_used(rules));
            let scaled = free.saturating_mul(i64::try_from(mean).unwrap_or(i64::MAX));
            *place = Some(Curve::steady(scaled, slots, rules.opening));
        }
        curves
    }
}
