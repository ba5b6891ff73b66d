//! One per-minute limit: a pacing bucket, and the trailing window under it.
//!
//! The bucket is kept as what is *missing* from it, in amount times microseconds of its refill period, so that a
//! refill over any time is one exact product, frequent updates lose nothing, and a changed limit takes effect at
//! once on what is already counted. The window is a ring of half-second slots; what a slot holds is counted until
//! a full minute after the slot's end, so that a trailing minute never holds more than the limit.
//!
//! Without the window the same ring says how full the bucket got: the least that was missing in each slot. What is
//! given back later may not lift the bucket above full at any moment since it was taken: that much had been lost anyway.

use crate::units::Span;

/// Length of a window slot in microseconds.
pub(crate) const SLOT: u64 = 500_000;
/// Slots that count: a minute's worth, and the one still being filled.
pub(crate) const WINDOW_SLOTS: u64 = 121;
/// One minute in microseconds.
pub(crate) const MINUTE: u64 = 60_000_000;
/// A minute plus a slot: the time in which a strict limit is surely free again.
pub(crate) const STRETCHED: u64 = 60_500_000;
/// Limits above this are treated as this: a slot then holds 32 bits, and the products stay within 63.
const LARGEST_LIMIT: u64 = 4_000_000_000;
/// Lumps of up to this many microseconds' worth may pass as they come.
pub(crate) const LUMP: u64 = 2_000_000;
const RING: usize = 128;

/// How one resource is limited at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Most in a trailing minute, at least 1.
    pub(crate) limit: u64,
    /// Amount the bucket regains per period, at least 1; below `limit` while a provider's pause is being left.
    pub(crate) rate: u64,
    /// A trailing minute never holds more than `limit`.
    pub(crate) strict: bool,
    /// Everything may be taken at once; the bucket only remembers debt.
    pub(crate) unpaced: bool,
    /// Room of the bucket, scaled.
    pub(crate) capacity: u64,
}

impl Rule {
    /// Derives the rule for a limit and a pace (after any scaling) from the pool's policy.
    pub(crate) fn new(limit: u64, rate: u64, burst: Span, strict: bool) -> Self {
        let limit = limit.clamp(1, LARGEST_LIMIT);
        let rate = rate.clamp(1, limit);
        let burst = burst.as_micros().min(MINUTE);
        let unpaced = strict && burst >= MINUTE;
        let capacity = if unpaced {
            // A slot may leave the window up to one slot length before its amount has drained from the bucket.
            limit.saturating_mul(STRETCHED.saturating_add(SLOT))
        } else if strict {
            // `burst` seconds of the limit itself, though the refill is a little slower.
            let plain = limit.saturating_mul(burst);
            (plain / 120).saturating_mul(121).saturating_add((plain % 120).saturating_mul(121) / 120)
        } else {
            limit.saturating_mul(burst)
        };
        Self { limit, rate, strict, unpaced, capacity }
    }

    /// Scale of the bucket: time in which it refills by the whole limit.
    pub(crate) const fn period(self) -> u64 {
        if self.strict { STRETCHED } else { MINUTE }
    }

    /// How far the bucket may be ahead of the window, scaled: lumps up to this size are not smoothed. Holding it closer
    /// wastes what the window frees in steps of whole calls; farther, and callers who wait see the lumps.
    pub(crate) fn lump(self) -> u64 {
        self.rate.saturating_mul(LUMP)
    }

    /// `amount` in the bucket's scale.
    pub(crate) const fn scaled(self, amount: u64) -> u64 {
        amount.saturating_mul(self.period())
    }
}

/// State of one per-minute limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Missing from the full bucket, scaled by the period; above the capacity it is debt.
    pub(crate) missing: u64,
    /// With a window: what was taken in each slot; without: the least that was missing in it, in whole units.
    /// At `slot number % 128`.
    ring: [u32; RING],
    /// Sum of the slots that count.
    used: u64,
    /// Newest slot number.
    head: u64,
}

impl Meter {
    /// Nothing taken, as of slot `head`.
    pub(crate) const fn new(head: u64) -> Self {
        Self { missing: 0, ring: [0; RING], used: 0, head }
    }

    /// Taken in the slots that still count.
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// True when nothing distinguishes this from a new meter.
    pub(crate) const fn is_idle(&self) -> bool {
        self.missing == 0 && self.used == 0
    }

    /// Newest slot number.
    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    /// What slot number `slot` holds; 0 when it no longer counts.
    pub(crate) fn slot(&self, slot: u64) -> u64 {
        if slot > self.head || self.head.saturating_sub(slot) >= WINDOW_SLOTS {
            return 0;
        }
        self.ring.get(position(slot)).map_or(0, |&held| u64::from(held))
    }

    /// Number of slots that count: fewer than a minute's only at the beginning of time.
    pub(crate) fn counting(&self) -> u8 {
        u8::try_from(self.head.saturating_add(1).min(WINDOW_SLOTS)).unwrap_or(0)
    }

    /// Number of slots that are not 0; those that do not count are.
    pub(crate) fn filled(&self) -> u8 {
        self.ring.iter().fold(0, |filled: u8, slot| filled.wrapping_add(u8::from(*slot > 0)))
    }

    /// The slots that count, oldest first, the newest last.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let first = self.head.saturating_sub(WINDOW_SLOTS.saturating_sub(1));
        let count = usize::from(self.counting());
        let (before, from) = self.ring.split_at_checked(position(first)).unwrap_or((&[], &self.ring));
        from.iter().chain(before).copied().take(count)
    }

    /// Fills the newest `count` slots of an empty ring, oldest first. `None` when so many do not count.
    pub(crate) fn fill(&mut self, slots: impl Iterator<Item = u32>, count: u64) -> Option<()> {
        let mut slot = self.head.saturating_add(1).checked_sub(count).filter(|_| count <= WINDOW_SLOTS)?;
        for amount in slots {
            if let Some(held) = self.ring.get_mut(position(slot)) {
                *held = amount;
                self.used = self.used.saturating_add(amount.into());
            }
            slot = slot.saturating_add(1);
        }
        Some(())
    }

    /// Adds `amount` to slot number `slot`, when it counts.
    pub(crate) fn add(&mut self, slot: u64, amount: u64) {
        let counts = slot <= self.head && self.head.saturating_sub(slot) < WINDOW_SLOTS;
        if let (true, Some(held)) = (counts, self.ring.get_mut(position(slot))) {
            let more = u32::try_from(amount).unwrap_or(u32::MAX).min(u32::MAX.saturating_sub(*held));
            *held = held.saturating_add(more);
            self.used = self.used.saturating_add(more.into());
        }
    }

    /// Moves from time `from` to `to` (microseconds), refilling the bucket and forgetting old slots.
    ///
    /// While the window leaves less than the bucket holds, the bucket is lowered to that: what the window frees
    /// later in one lump is then paced instead of passing at once.
    pub(crate) fn advance(&mut self, rule: Option<Rule>, from: u64, to: u64) {
        let Some(rule) = rule else {
            self.missing = 0;
            self.move_head(slot_of(to));
            return;
        };
        if self.is_idle() {
            self.head = slot_of(to).max(self.head);
            return;
        }
        if !rule.strict || rule.unpaced {
            self.refill(rule, to.saturating_sub(from));
            let before = self.head;
            self.move_head(slot_of(to));
            if !rule.strict {
                self.note_low(rule, before);
            }
            return;
        }
        let mut at = from;
        while slot_of(at) < slot_of(to) && !self.is_idle() {
            let boundary = slot_of(at).saturating_add(1).saturating_mul(SLOT);
            self.refill(rule, boundary.saturating_sub(at));
            self.hold_to_window(rule);
            self.move_head(slot_of(boundary));
            at = boundary;
        }
        self.refill(rule, to.saturating_sub(at));
        self.hold_to_window(rule);
        self.move_head(slot_of(to));
    }

    /// Changes the scale of the bucket from one period to another, when the policy switched.
    /// What the ring held is forgotten: it meant something else.
    pub(crate) fn rescale(&mut self, from: u64, to: u64) {
        self.ring = [0; RING];
        self.used = 0;
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
        let bucket = rule.capacity.saturating_sub(self.missing).checked_div(rule.period()).unwrap_or(0);
        if rule.strict { bucket.min(self.window_left(rule)) } else { bucket }
    }

    /// True when `amount` may be taken now.
    pub(crate) fn fits(&self, rule: Rule, amount: u64) -> bool {
        let bucket = rule.scaled(amount).min(rule.capacity);
        let window = amount.min(rule.limit);
        self.missing.saturating_add(bucket) <= rule.capacity
            && (!rule.strict || window <= self.window_left(rule))
    }

    /// Takes `amount` in the newest slot, whether it is there or not.
    pub(crate) fn take(&mut self, rule: Rule, amount: u64) {
        self.missing = self.missing.saturating_add(rule.scaled(amount));
        if rule.strict {
            self.add(self.head, amount);
        }
    }

    /// Leaves `remaining`, by taking `excess` that is free again `reset` microseconds after `now`, less than a minute. A
    /// bucket that paces is lowered to what remains and refills at its own rate.
    pub(crate) fn leave(&mut self, rule: Rule, remaining: u64, excess: u64, now: u64, reset: u64) {
        if rule.unpaced {
            let regained = rule.rate.saturating_mul(reset);
            self.missing = self.missing.saturating_add(rule.scaled(excess).min(regained));
        } else {
            self.missing = self.missing.max(rule.capacity.saturating_sub(rule.scaled(remaining)));
        }
        let free = slot_of(now.saturating_add(reset).saturating_add(SLOT.saturating_sub(1)));
        self.add(free.saturating_sub(WINDOW_SLOTS), excess);
    }

    /// Gives `amount` back to the slot it was taken from, and says how much that was: nothing when the slot no longer
    /// counts.
    pub(crate) fn give_back(&mut self, rule: Rule, slot: u64, amount: u64) -> u64 {
        if !rule.strict {
            return self.lift(rule, slot, amount);
        }
        let held = self.slot(slot);
        let amount = amount.min(held);
        if amount > 0 {
            self.lower(slot, amount);
            self.missing = self.missing.saturating_sub(rule.scaled(amount));
        }
        amount
    }

    /// Time until everything is available again if nobody takes any.
    pub(crate) fn reset(&self, rule: Rule, now: u64) -> u64 {
        let bucket = self.missing.div_ceil(rule.rate.max(1));
        if !rule.strict || self.used == 0 {
            return bucket;
        }
        let newest =
            (0..WINDOW_SLOTS).map(|age| self.head.saturating_sub(age)).find(|&slot| self.slot(slot) > 0);
        let window = newest.map_or(0, |slot| leaves_at(slot).saturating_sub(now));
        if rule.unpaced && self.missing <= rule.scaled(rule.limit) { window } else { bucket.max(window) }
    }

    /// What the window leaves, in whole units.
    pub(crate) const fn window_left(&self, rule: Rule) -> u64 {
        rule.limit.saturating_sub(self.used)
    }

    /// Gives back up to `amount` taken in `slot`, without a window.
    fn lift(&mut self, rule: Rule, slot: u64, amount: u64) -> u64 {
        if self.head.saturating_sub(slot) >= WINDOW_SLOTS {
            return 0;
        }
        let since = || slot.saturating_add(1)..=self.head;
        let missing = self.missing.checked_div(rule.period()).unwrap_or(0);
        let amount = since().map(|slot| self.slot(slot)).fold(amount.min(missing), u64::min);
        if amount > 0 {
            for slot in since() {
                self.lower(slot, amount);
            }
            self.missing = self.missing.saturating_sub(rule.scaled(amount));
        }
        amount
    }

    fn lower(&mut self, slot: u64, amount: u64) {
        if let Some(low) = self.ring.get_mut(position(slot)) {
            let lowered = u32::try_from(amount).unwrap_or(u32::MAX).min(*low);
            *low = low.saturating_sub(lowered);
            self.used = self.used.saturating_sub(lowered.into());
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
            self.ring = [0; RING];
            self.used = 0;
        }
    }

    fn refill(&mut self, rule: Rule, elapsed: u64) {
        self.missing = self.missing.saturating_sub(rule.rate.saturating_mul(elapsed));
    }

    fn hold_to_window(&mut self, rule: Rule) {
        let held = rule.scaled(self.window_left(rule)).saturating_add(rule.lump());
        self.missing = self.missing.max(rule.capacity.saturating_sub(held));
    }

    fn move_head(&mut self, to: u64) {
        if to <= self.head {
            return;
        }
        if self.used == 0 {
            self.head = to;
            return;
        }
        if to.saturating_sub(self.head) >= WINDOW_SLOTS {
            self.ring = [0; RING];
            self.used = 0;
            self.head = to;
            return;
        }
        while self.head < to {
            self.head = self.head.saturating_add(1);
            let gone = position(self.head.wrapping_sub(WINDOW_SLOTS));
            if let Some(cell) = self.ring.get_mut(gone) {
                self.used = self.used.saturating_sub((*cell).into());
                *cell = 0;
            }
        }
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

#[allow(clippy::cast_possible_truncation)]
const fn position(slot: u64) -> usize {
    (slot & 127) as usize
}
