//! How much of one resource can be served by when, if nothing but what already waits is served.
//!
//! For a plain bucket that is what it holds plus the refill. Under a strict window it is what the window lets go,
//! slot by slot, and never faster than the limit's pace: after a lump leaves the window, those who wait for it are
//! told times spread over the pace, not all the same moment.

use super::meter::{Meter, SLOT, WINDOW_SLOTS, leaves_at};
use super::rule::Rule;

/// Cumulative amount, scaled by the rule's period, over the time from now.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Refill per microsecond, scaled: the limit itself.
    rate: u64,
    /// When serving begins, and how slowly.
    opening: Opening,
    /// Scaled amount that could be served at once; negative while in debt.
    start: i64,
    /// One step at time 0, one at the first slot boundary, then one each slot. Empty when there is no window.
    steps: Vec<Step>,
    /// What is there may all be taken at once.
    unpaced: bool,
    /// Room of the bucket: a call larger than it passes when the bucket is full.
    full: i64,
    /// How far the pace may be ahead of the window.
    lump: i64,
}

/// A pause and the gradual re-opening after it: the pace grows evenly to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Time in which nothing is served, in microseconds.
    pub(crate) delay: u64,
    /// Pace when serving begins, in thousandths of the whole.
    pub(crate) from: u64,
    /// Time until the whole pace, in microseconds.
    pub(crate) over: u64,
}

impl Opening {
    /// Open: no pause, the whole pace.
    pub(crate) const OPEN: Self = Self { delay: 0, from: 1_000, over: 0 };

    /// Time at the whole pace in which as much is served as in `wait`; `None` before serving begins.
    fn served_as(self, wait: u64) -> Option<u64> {
        let wait = wait.checked_sub(self.delay)?;
        let lost = 1_000_u64.saturating_sub(self.from);
        if wait >= self.over {
            return Some(wait.saturating_sub(lost.saturating_mul(self.over) / 2_000));
        }
        let grown =
            lost.saturating_mul(wait.saturating_mul(wait).checked_div(self.over).unwrap_or(0)) / 2_000;
        Some((self.from.saturating_mul(wait) / 1_000).saturating_add(grown))
    }

    /// Least wait in which as much is served as in `served` at the whole pace.
    pub(crate) fn until_served(self, served: u64) -> u64 {
        let (mut low, mut high) = (self.delay, self.delay.saturating_add(served).saturating_add(self.over));
        if self.over == 0 || served == 0 {
            return low.saturating_add(served);
        }
        while low < high {
            let middle = low.saturating_add(high.saturating_sub(low) / 2);
            if self.served_as(middle).is_some_and(|reached| reached >= served) {
                high = middle;
            } else {
                low = middle.saturating_add(1);
            }
        }
        low
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    at: u64,
    /// Served at most by then at the limit's pace.
    paced: i64,
    /// Freed by the window by then.
    freed: i64,
}

impl Curve {
    /// Curve of `meter` under `rule` at time `now`; `opening` says from when and how slowly it is served.
    pub(crate) fn new(meter: &Meter, rule: Rule, now: u64, opening: Opening) -> Self {
        let lent = rule.scaled(rule.lent);
        let missing = meter.missing.saturating_add(meter.unborn(rule, now)).saturating_add(lent);
        let bucket = signed(rule.capacity).saturating_sub(signed(missing));
        let mut freed = signed(rule.scaled(rule.limit)).saturating_sub(signed(rule.scaled(meter.used())));
        freed = freed.saturating_sub(signed(lent));
        let start = if rule.strict && meter.used() == 0 { bucket.min(freed) } else { bucket };
        // An unpaced bucket that still holds back more than the window does is in debt, and then it sets the pace.
        let unpaced = rule.unpaced && bucket >= freed;
        let (full, lump) = (signed(rule.capacity), signed(rule.lump()));
        let mut curve = Self { rate: rule.rate, opening, start, steps: Vec::new(), unpaced, full, lump };
        if !rule.strict || meter.used() == 0 {
            return curve;
        }
        curve.steps.reserve_exact(usize::try_from(WINDOW_SLOTS).unwrap_or(0).saturating_add(1));
        // What may all be taken at once is paced too while others wait: else whoever knocks first takes it.
        let paced = if unpaced { start.min(lump) } else { start };
        let mut last = Step { at: 0, paced, freed };
        curve.steps.push(last);
        for age in (0..WINDOW_SLOTS).rev() {
            let slot = meter.head().saturating_sub(age);
            let at = leaves_at(slot).saturating_sub(now);
            // Up to the boundary the window stands; at it, one slot's amount is freed.
            let paced = last.paced.saturating_add(gain(rule.rate, at.saturating_sub(last.at)));
            freed = freed.saturating_add(signed(rule.scaled(meter.slot(slot))));
            let held = last.freed.saturating_add(curve.lump);
            last = Step { at, paced: paced.min(held).max(last.paced), freed };
            curve.steps.push(last);
        }
        curve
    }

    /// A curve that starts with `start` and gains `rate` per microsecond, for slots in use.
    pub(crate) const fn steady(start: i64, rate: u64, opening: Opening) -> Self {
        Self { rate, opening, start, steps: Vec::new(), unpaced: false, full: i64::MAX, lump: 0 }
    }

    /// Whether `all` (scaled) can have been served after `wait` microseconds, the last of it a call of `last`: the pace
    /// asks for no more of a call than the bucket holds, the window for all of it.
    pub(crate) fn allows(&self, wait: u64, all: i64, last: i64) -> bool {
        let beyond = if self.unpaced { last } else { last.saturating_sub(self.full).max(0) };
        let paced = all.saturating_sub(beyond);
        let Some(wait) = self.opening.served_as(wait) else { return paced <= self.start.min(0) };
        let Some((step, is_last)) = self.step_before(wait) else {
            return paced <= self.start.saturating_add(gain(self.rate, wait));
        };
        let reached = step.paced.saturating_add(gain(self.rate, wait.saturating_sub(step.at)));
        paced <= reached && (is_last || all <= step.freed)
    }

    /// Least wait in microseconds after which `own` (scaled) can be served behind `ahead` (scaled).
    pub(crate) fn wait_for(&self, ahead: i64, own: i64) -> u64 {
        let all = ahead.saturating_add(own);
        let paced = ahead.saturating_add(own.min(self.full));
        let wait = if self.steps.is_empty() {
            self.time_for(paced.saturating_sub(self.start))
        } else {
            let turn = self.paced_at(if self.unpaced { ahead } else { paced });
            turn.max(self.freed_at(all))
        };
        self.opening.until_served(wait)
    }

    /// First moment at which the window has freed `need`; after its last step it is taken to free at the pace.
    fn freed_at(&self, need: i64) -> u64 {
        let Some(last) = self.steps.last() else { return 0 };
        let found = self.steps.iter().find(|step| need <= step.freed);
        found.map_or_else(
            || last.at.saturating_add(self.time_for(need.saturating_sub(last.freed))),
            |step| step.at,
        )
    }

    /// First moment at which `need` can have been served at the limit's pace.
    fn paced_at(&self, need: i64) -> u64 {
        let mut steps = self.steps.iter().peekable();
        while let Some(step) = steps.next() {
            let reached = step.at.saturating_add(self.time_for(need.saturating_sub(step.paced)));
            let held = need > step.freed.saturating_add(self.lump);
            if steps.peek().is_none_or(|next| reached <= next.at && !held) {
                return reached;
            }
        }
        0
    }

    fn time_for(&self, lacking: i64) -> u64 {
        unsigned(lacking).div_ceil(self.rate.max(1))
    }

    /// The step in force at `wait`, and whether it is the last one.
    fn step_before(&self, wait: u64) -> Option<(&Step, bool)> {
        let first = self.steps.get(1)?.at;
        let index = match wait.checked_sub(first) {
            None => 0,
            Some(since) => usize::try_from(since / SLOT).unwrap_or(usize::MAX).saturating_add(1),
        };
        let last = self.steps.len().saturating_sub(1);
        self.steps.get(index.min(last)).map(|step| (step, index >= last))
    }
}

fn gain(rate: u64, elapsed: u64) -> i64 {
    signed(rate.saturating_mul(elapsed))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn unsigned(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}
