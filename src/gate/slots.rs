//! Calls in flight, counted by the time they began, so that those whose end is never seen expire.

use crate::units::Span;

/// Ages that are told apart.
const AGES: u64 = 32;
const RING: usize = 64;
/// Weight of the newest observation in the mean duration: one in this many.
const SMOOTHING: u64 = 16;
/// Assumed before any call has ended, in microseconds.
const FIRST_GUESS: u64 = 2_000_000;

/// Calls in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Length of one age slot in microseconds.
    grain: u64,
    /// Time after which a call's slot is given back, in microseconds.
    ttl: u64,
    counts: [u32; RING],
    /// The slots that are not 0, a bit each.
    filled: u64,
    /// Number of the newest slot.
    head: u64,
    total: u32,
    /// Mean duration in microseconds; 0 = none seen.
    mean: u64,
}

impl InFlight {
    /// Nothing in flight.
    pub(crate) const fn new() -> Self {
        Self { grain: 1_000_000, ttl: 0, counts: [0; RING], filled: 0, head: 0, total: 0, mean: 0 }
    }

    /// Restores stored parts: grain, ttl, mean; as of `now`, nothing in flight.
    pub(crate) fn restore_parts(&mut self, [grain, ttl, mean]: [u64; 3], now: u64) {
        self.clear();
        self.grain = grain.max(1);
        self.head = now.checked_div(self.grain).unwrap_or(0);
        (self.ttl, self.mean) = (ttl, mean);
    }

    /// Makes this a new one.
    pub(crate) fn reset(&mut self) {
        self.clear();
        (self.grain, self.ttl, self.head, self.mean) = (1_000_000, 0, 0, 0);
    }

    fn clear(&mut self) {
        if self.filled != 0 {
            self.counts = [0; RING];
        }
        self.filled = 0;
        self.total = 0;
    }

    /// Stored parts.
    pub(crate) const fn parts(&self) -> [u64; 3] {
        [self.grain, self.ttl, self.mean]
    }

    /// Number of live counts.
    pub(crate) const fn live_slots(&self) -> u32 {
        self.filled.count_ones()
    }

    /// Live counts as (age in slots, count).
    pub(crate) fn live(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        let mut left = self.filled;
        core::iter::from_fn(move || {
            let place = u64::from(left.trailing_zeros());
            let count = self.counts.get(position(place)).copied().filter(|_| left != 0)?;
            left &= left.wrapping_sub(1);
            Some((u8::try_from(self.head.wrapping_sub(place) & 63).unwrap_or(0), count))
        })
    }

    /// Restores a live count.
    pub(crate) fn restore(&mut self, age: u8, count: u32) {
        if u64::from(age) < 64 {
            self.add(self.head.wrapping_sub(u64::from(age)), count);
        }
    }

    /// Calls in flight.
    pub(crate) const fn total(&self) -> u32 {
        self.total
    }

    /// Recent mean duration of a call in microseconds.
    pub(crate) const fn mean(&self) -> u64 {
        if self.mean == 0 { FIRST_GUESS } else { self.mean }
    }

    /// Recent mean duration in microseconds; `None` before a call has ended.
    pub(crate) fn observed_mean(&self) -> Option<u64> {
        (self.mean > 0).then_some(self.mean)
    }

    /// Expires what began `ttl` or longer before `now`.
    pub(crate) fn advance(&mut self, ttl: Span, now: u64) {
        let ttl = ttl.as_micros();
        if ttl != self.ttl {
            self.regrain(ttl);
        }
        let end = self.head.saturating_add(1).saturating_mul(self.grain);
        if now < end && self.total > 0 {
            return;
        }
        let head = now.checked_div(self.grain).unwrap_or(0);
        if self.total == 0 || head.saturating_sub(self.head) >= 64 {
            self.clear();
            self.head = head.max(self.head);
            return;
        }
        // A slot is let go only once all that began in it are past their time.
        let kept = self.ttl.div_ceil(self.grain.max(1)).saturating_add(1).min(63);
        while self.head < head {
            self.head = self.head.saturating_add(1);
            self.drop_slot(self.head);
            self.drop_slot(self.head.wrapping_sub(kept));
        }
    }

    fn drop_slot(&mut self, slot: u64) {
        if let Some(cell) = self.counts.get_mut(position(slot)).filter(|cell| **cell > 0) {
            self.total = self.total.saturating_sub(*cell);
            self.filled &= !bit(slot);
            *cell = 0;
        }
    }

    /// A call began now.
    pub(crate) fn begin(&mut self) {
        self.add(self.head, 1);
    }

    /// A call began at `at`, not later than `now`; one whose time is past is not counted.
    pub(crate) fn begin_at(&mut self, at: u64, now: u64) {
        if now.saturating_sub(at) < self.ttl {
            let slot = at.checked_div(self.grain).unwrap_or(0).min(self.head);
            if self.head.saturating_sub(slot) < 63 {
                self.add(slot, 1);
            }
        }
    }

    /// A call that began at `began` ended at `now`. False when its slot had expired already.
    ///
    /// `observed`: its duration says something about the others.
    pub(crate) fn end(&mut self, began: u64, now: u64, observed: bool) -> bool {
        if now.saturating_sub(began) >= self.ttl {
            return false;
        }
        let slot = began.checked_div(self.grain).unwrap_or(0);
        // After a change of the grain the call may be counted one slot away.
        for candidate in [slot, slot.wrapping_add(1), slot.wrapping_sub(1)] {
            if candidate > self.head || self.head.saturating_sub(candidate) >= 63 {
                continue;
            }
            let Some(cell) = self.counts.get_mut(position(candidate)).filter(|cell| **cell > 0) else {
                continue;
            };
            *cell = cell.saturating_sub(1);
            if *cell == 0 {
                self.filled &= !bit(candidate);
            }
            self.total = self.total.saturating_sub(1);
            if observed {
                self.observe(now.saturating_sub(began));
            }
            return true;
        }
        false
    }

    fn observe(&mut self, duration: u64) {
        let duration = duration.max(1);
        self.mean = if self.mean == 0 {
            duration
        } else {
            let kept = self.mean.saturating_sub(self.mean / SMOOTHING);
            kept.saturating_add(duration.div_ceil(SMOOTHING)).max(1)
        };
    }

    fn add(&mut self, slot: u64, count: u32) {
        if let Some(cell) = self.counts.get_mut(position(slot)) {
            *cell = cell.saturating_add(count);
            if *cell > 0 {
                self.filled |= bit(slot);
            }
            self.total = self.total.saturating_add(count);
        }
    }

    fn regrain(&mut self, ttl: u64) {
        let old = self.clone();
        self.ttl = ttl;
        self.grain = (ttl / AGES).max(1_000_000);
        self.clear();
        self.head = old.head.saturating_mul(old.grain).checked_div(self.grain).unwrap_or(0);
        for (age, count) in old.live() {
            let began = old.head.saturating_sub(u64::from(age)).saturating_mul(old.grain);
            let slot = began.checked_div(self.grain).unwrap_or(0);
            self.add(slot.max(self.head.saturating_sub(62)), count);
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
const fn position(slot: u64) -> usize {
    (slot & 63) as usize
}

const fn bit(slot: u64) -> u64 {
    1 << (slot & 63)
}
