//! One per-minute limit: a pacing bucket, and the trailing window under it.
//!
//! The bucket is kept as what is *missing* from it, in amount times microseconds of its refill period, so that a
//! refill over any time is one exact product, frequent updates lose nothing, and a changed limit takes effect at
//! once on what is already counted. The window is a ring of half-second slots; what a slot holds is counted until
//! a full minute after the slot's end, so that a trailing minute never holds more than the limit.
//!
//! Without the window the same ring says how full the bucket got: the least that was missing in each slot. What is
//! given back later may not lift the bucket above full at any moment since it was taken: that much had been lost anyway.

use super::compact::low32;
use super::curve::Opening;
use super::rule::{LUMP, Rule};

mod window;

/// Length of a window slot in microseconds.
pub(crate) const SLOT: u64 = 500_000;
/// Slots that count: a minute's worth, and the one still being filled.
pub(crate) const WINDOW_SLOTS: u64 = 121;
/// One minute in microseconds.
pub(crate) const MINUTE: u64 = 60_000_000;
/// A minute plus a slot: the time in which a strict limit is surely free again.
pub(crate) const STRETCHED: u64 = 60_500_000;
/// Longest that a call is taken to be on its way to the provider, in microseconds. A provider's bucket that is full stays full
/// until the call arrives, so ours does not refill in that time. Else the provider's would stay behind for good, and refuse a
/// call that is faster than that one. Measured on a machine with several times as much to do as it can: of 94 starts with 90
/// calls at once, 19 were refused a call because the first was later than 50 ms, and two of those because it was later than 80.
const ON_THE_WAY: u64 = 80_000;
/// Slots kept: a power of two.
pub(crate) const RING: usize = 128;

/// State of one per-minute limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Missing from the full bucket, scaled by the period; above the capacity it is debt.
    pub(crate) missing: u64,
    /// Unless everything may be taken at once: nothing refills before this time (microseconds); of a full bucket,
    /// [`ON_THE_WAY`] after it became full. 0 when that is past.
    pub(crate) refills_from: u64,
    /// With a window: what was taken in each slot; without: the least that was missing in it, in whole units.
    /// At `slot number % 128`.
    ring: [u32; RING],
    /// The slots that are not 0, a bit each at the same place; those that do not count are 0.
    filled: u128,
    /// Sum of the slots that count.
    used: u64,
    /// Newest slot number.
    head: u64,
}

impl Meter {
    /// Nothing taken, as of slot `head`.
    pub(crate) const fn new(head: u64) -> Self {
        Self { missing: 0, refills_from: 0, ring: [0; RING], filled: 0, used: 0, head }
    }

    /// Makes this a new meter as of slot `head`.
    pub(crate) fn reset_to(&mut self, head: u64) {
        self.clear();
        (self.missing, self.refills_from, self.head) = (0, 0, head);
    }

    fn clear(&mut self) {
        if self.filled != 0 {
            self.ring = [0; RING];
        }
        self.filled = 0;
        self.used = 0;
    }

    /// Taken in the slots that still count.
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// True when nothing distinguishes this from a new meter.
    pub(crate) const fn is_idle(&self) -> bool {
        self.missing == 0 && self.used == 0 && self.refills_from == 0
    }

    /// Newest slot number.
    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    /// Moves from time `from` to `to` (microseconds), refilling the bucket and forgetting old slots.
    ///
    /// While the window leaves less than the bucket holds, the bucket is lowered to that: what the window frees
    /// later in one lump is then paced instead of passing at once.
    pub(crate) fn advance(&mut self, rule: Option<Rule>, from: u64, to: u64) {
        let Some(rule) = rule else {
            (self.missing, self.refills_from) = (0, 0);
            self.move_head(slot_of(to));
            return;
        };
        if self.is_idle() {
            self.head = slot_of(to).max(self.head);
            return;
        }
        if !rule.strict || rule.unpaced {
            self.refill(rule, from, to);
            let before = self.head;
            self.move_head(slot_of(to));
            if !rule.strict {
                self.note_low(rule, before);
            }
            return;
        }
        let mut at = from;
        // Once the window is empty it holds nothing down, and the rest of the time is one refill, however long.
        while slot_of(at) < slot_of(to) && self.used > 0 {
            let boundary = slot_of(at).saturating_add(1).saturating_mul(SLOT);
            self.refill(rule, at, boundary);
            self.hold_to_window(rule);
            self.move_head(slot_of(boundary));
            at = boundary;
        }
        self.refill(rule, at, to);
        self.hold_to_window(rule);
        self.move_head(slot_of(to));
    }

    /// Changes the scale of the bucket from one period to another, when the policy switched.
    /// What the ring held is forgotten: it meant something else.
    pub(crate) fn rescale(&mut self, from: u64, to: u64) {
        self.clear();
        self.refills_from = 0;
        let scaled =
            u128::from(self.missing).saturating_mul(u128::from(to)).div_ceil(u128::from(from.max(1)));
        self.missing = u64::try_from(scaled).unwrap_or(u64::MAX);
    }

    /// Empties the bucket: nothing is left to be taken at once.
    pub(crate) fn drain(&mut self, rule: Rule) {
        self.missing = self.missing.max(rule.capacity);
    }

    /// What may be taken now, in whole units.
    pub(crate) fn available(&self, rule: Rule) -> u64 {
        let missing = self.missing.saturating_add(rule.scaled(rule.lent));
        let bucket = rule.capacity.saturating_sub(missing).checked_div(rule.period()).unwrap_or(0);
        if rule.strict { bucket.min(self.window_left(rule)) } else { bucket }
    }

    /// True when `amount` may be taken now.
    pub(crate) fn fits(&self, rule: Rule, amount: u64) -> bool {
        let bucket = rule.scaled(amount).min(rule.capacity);
        let window = amount.min(rule.limit);
        let missing = self.missing.saturating_add(rule.scaled(rule.lent));
        missing.saturating_add(bucket) <= rule.capacity && (!rule.strict || window <= self.window_left(rule))
    }

    /// Takes `amount` in the newest slot at `now` (microseconds), whether it is there or not.
    pub(crate) fn take(&mut self, rule: Rule, amount: u64, now: u64) {
        if self.missing == 0 && amount > 0 && !rule.unpaced {
            let full_for = ON_THE_WAY.saturating_sub(self.refills_from.saturating_sub(now));
            self.refills_from = if full_for > 0 { now.saturating_add(full_for) } else { 0 };
        }
        self.missing = self.missing.saturating_add(rule.scaled(amount));
        if rule.strict {
            self.add(self.head, amount);
        }
    }

    /// Takes what passed at `at`, earlier than `now` (microseconds), unless a whole bucket was regained since.
    pub(crate) fn take_late(&mut self, rule: Rule, amount: u64, at: u64, now: u64) {
        if rule.rate.saturating_mul(now.saturating_sub(at)) < rule.capacity {
            self.missing = self.missing.saturating_add(rule.scaled(amount));
        }
        if rule.strict {
            self.add(slot_of(at), amount);
        }
    }

    /// Leaves `remaining`, by taking `excess` that is free again `reset` microseconds after `now`, at most a minute: evenly
    /// until then, as a provider's bucket fills. Where that is sooner than a bucket of this limit could be full, it is the end
    /// of a window, and nothing is free before it. Our bucket is lowered to what remains and refills at its own rate, but not
    /// before it would have regained the excess too, up to [`LUMP`]: whoever took that may still be there, and then the
    /// provider's refills more slowly than ours.
    pub(crate) fn leave(&mut self, rule: Rule, remaining: u64, excess: u64, now: u64, reset: u64) {
        let least = rule.capacity.saturating_sub(rule.scaled(remaining));
        let regained = if rule.unpaced { rule.rate.saturating_mul(reset) } else { least };
        self.missing = self.missing.max(least.min(regained));
        if !rule.strict {
            return;
        }
        // A bucket with less than the provider's left holds calls back already.
        if (1..=least).contains(&self.missing) {
            let worth = rule.scaled(excess).checked_div(rule.rate).unwrap_or(0);
            let from = self.refills_from.max(now).saturating_add(worth);
            self.refills_from = from.min(now.saturating_add(LUMP));
        }
        let evenly = rule.scaled(excess) <= rule.limit.saturating_mul(reset.saturating_add(LUMP));
        let (mut slot, mut freed) = (self.head.saturating_add(1), 0);
        while freed < excess {
            let since = slot.saturating_mul(SLOT).saturating_sub(now);
            let part = excess.saturating_mul(since).checked_div(reset);
            let by_then = if since < reset { part.filter(|_| evenly).unwrap_or(0) } else { excess };
            self.add(slot.saturating_sub(WINDOW_SLOTS), by_then.saturating_sub(freed));
            (slot, freed) = (slot.saturating_add(1), by_then);
        }
    }

    /// Gives `amount` back to the slot it was taken from, and says how much that was: nothing when the slot no longer
    /// counts.
    pub(crate) fn give_back(&mut self, rule: Rule, slot: u64, amount: u64, now: u64) -> u64 {
        if !rule.strict {
            return self.lift(rule, slot, amount);
        }
        let held = self.slot(slot);
        let amount = amount.min(held);
        if amount > 0 {
            self.lower(slot, amount);
            let least = if rule.unpaced { 0 } else { self.least_missing(rule, slot, now) };
            let before = self.missing;
            self.restore_level(rule, amount);
            self.missing = self.missing.max(least.min(before));
        }
        amount
    }

    /// What is missing at least from a bucket that was full at any moment since `slot`: what was taken after that
    /// moment, less what has refilled since it can have arrived. With a window.
    fn least_missing(&self, rule: Rule, slot: u64, now: u64) -> u64 {
        let (mut taken, mut least) = (0_u64, 0_u64);
        let mut at = self.head;
        while at > slot && self.head.saturating_sub(at) < WINDOW_SLOTS {
            taken = taken.saturating_add(self.slot(at));
            let end = at.saturating_add(1).saturating_mul(SLOT);
            let since = now.saturating_sub(end.saturating_add(ON_THE_WAY));
            least = least.max(rule.scaled(taken).saturating_sub(rule.rate.saturating_mul(since)));
            at = at.saturating_sub(1);
        }
        least
    }

    /// Time until everything is available again if nobody takes any, served as `opening` says.
    pub(crate) fn reset(&self, rule: Rule, now: u64, opening: Opening) -> u64 {
        // An unpaced bucket is larger than the limit; what is missing of that part holds nothing back.
        let beyond = if rule.unpaced { rule.capacity.saturating_sub(rule.scaled(rule.limit)) } else { 0 };
        let missing = self.missing.saturating_sub(beyond);
        let bucket = opening.until_served(missing.div_ceil(rule.limit.max(1)));
        if !rule.strict || self.used == 0 {
            return bucket;
        }
        // The newest filled slot: the first bit set below the head's place, going round.
        let aligned = self.filled.rotate_right(low32(self.head.saturating_add(1) & 127));
        let newest = self.head.saturating_sub(aligned.leading_zeros().into());
        let window = if self.filled == 0 { 0 } else { leaves_at(newest).saturating_sub(now) };
        bucket.max(window)
    }

    /// What the window leaves, in whole units.
    pub(crate) const fn window_left(&self, rule: Rule) -> u64 {
        rule.limit.saturating_sub(self.used).saturating_sub(rule.lent)
    }

    /// Gives back up to `amount` taken in `slot`, without a window.
    fn lift(&mut self, rule: Rule, slot: u64, amount: u64) -> u64 {
        if self.head.saturating_sub(slot) >= WINDOW_SLOTS {
            return 0;
        }
        let since = || slot.saturating_add(1)..=self.head;
        let missing = self.missing.checked_div(rule.period()).unwrap_or(0);
        // The provider's bucket may have been full when the calls after this one arrived, on their way for so long.
        let lag = rule.rate.saturating_mul(ON_THE_WAY).checked_div(rule.period()).unwrap_or(0);
        let room = since().map(|slot| self.slot(slot).saturating_sub(lag));
        let amount = room.fold(amount.min(missing), u64::min);
        if amount > 0 {
            for slot in since() {
                self.lower(slot, amount);
            }
            self.restore_level(rule, amount);
        }
        amount
    }

    fn restore_level(&mut self, rule: Rule, amount: u64) {
        self.missing = self.missing.saturating_sub(rule.scaled(amount));
        if self.missing == 0 {
            self.refills_from = 0;
        }
    }

    /// Notes in the slots after `before` what is missing now; in the newest one no more than was noted already.
    fn note_low(&mut self, rule: Rule, before: u64) {
        let missing = self.missing.checked_div(rule.period()).unwrap_or(0);
        if self.head == before {
            let noted = self.slot(self.head);
            self.lower(self.head, noted.saturating_sub(missing));
        }
        let first = before.saturating_add(1).max(self.head.saturating_sub(WINDOW_SLOTS.saturating_sub(1)));
        for slot in first..=self.head {
            self.add(slot, missing);
        }
        if missing == 0 && self.used > 0 {
            self.clear();
        }
    }

    fn refill(&mut self, rule: Rule, from: u64, to: u64) {
        if self.missing > 0 {
            let elapsed = to.saturating_sub(from.max(self.refills_from));
            let gained = rule.rate.saturating_mul(elapsed);
            if gained >= self.missing && !rule.unpaced {
                let over = gained.saturating_sub(self.missing).checked_div(rule.rate).unwrap_or(0);
                self.refills_from = to.saturating_sub(over).saturating_add(ON_THE_WAY);
            }
            self.missing = self.missing.saturating_sub(gained);
        }
        if self.refills_from <= to {
            self.refills_from = 0;
        }
    }

    /// What will not have refilled by `now` plus any time, because the call that began it is on its way (scaled).
    pub(crate) const fn unborn(&self, rule: Rule, now: u64) -> u64 {
        if self.missing == 0 { 0 } else { self.refills_from.saturating_sub(now).saturating_mul(rule.rate) }
    }

    fn hold_to_window(&mut self, rule: Rule) {
        let left = rule.limit.saturating_sub(self.used);
        let held = rule.scaled(left).saturating_add(rule.lump());
        self.missing = self.missing.max(rule.capacity.saturating_sub(held));
    }
}

/// Number of the slot that holds time `at` (microseconds).
pub(crate) const fn slot_of(at: u64) -> u64 {
    at / SLOT
}

/// Time at which `slot` no longer counts.
pub(crate) const fn leaves_at(slot: u64) -> u64 {
    slot.saturating_add(WINDOW_SLOTS).saturating_mul(SLOT)
}
