//! The trailing window of a meter: a ring of half-second slots, of which the last 121 count.

use super::{Meter, RING, WINDOW_SLOTS};

impl Meter {
    /// What slot number `slot` holds; 0 when it no longer counts.
    pub(crate) fn slot(&self, slot: u64) -> u64 {
        if slot > self.head || self.head.saturating_sub(slot) >= WINDOW_SLOTS {
            return 0;
        }
        self.ring.get(position(slot)).map_or(0, |&held| u64::from(held))
    }

    /// The ring as it lies in memory, and which of its slots are not 0.
    pub(crate) const fn ring(&self) -> (&[u32; RING], u128) {
        (&self.ring, self.filled)
    }

    /// Restores the whole ring of a new meter. What it holds together is counted anew: a damaged value may state anything.
    pub(crate) fn restore_all(&mut self, ring: &[[u8; 4]; RING]) {
        for (held, bytes) in self.ring.iter_mut().zip(ring) {
            *held = u32::from_le_bytes(*bytes);
        }
        self.recount();
    }

    /// Restores the slot at place `position` of the ring of a new meter.
    pub(crate) fn restore(&mut self, position: u32, amount: u32) {
        if let Some(held) = usize::try_from(position).ok().and_then(|place| self.ring.get_mut(place)) {
            *held = amount;
            self.filled |= u128::from(amount > 0) << (position & 127);
            self.used = self.used.saturating_add(amount.into());
        }
    }

    /// Adds `amount` to slot number `slot`, when it counts.
    pub(crate) fn add(&mut self, slot: u64, amount: u64) {
        let counts = slot <= self.head && self.head.saturating_sub(slot) < WINDOW_SLOTS;
        if let (true, Some(held)) = (counts, self.ring.get_mut(position(slot))) {
            let more = u32::try_from(amount).unwrap_or(u32::MAX).min(u32::MAX.saturating_sub(*held));
            *held = held.saturating_add(more);
            if *held > 0 {
                self.filled |= bit(slot);
            }
            self.used = self.used.saturating_add(more.into());
        }
    }

    pub(super) fn lower(&mut self, slot: u64, amount: u64) {
        if let Some(low) = self.ring.get_mut(position(slot)) {
            let lowered = u32::try_from(amount).unwrap_or(u32::MAX).min(*low);
            *low = low.saturating_sub(lowered);
            if *low == 0 {
                self.filled &= !bit(slot);
            }
            self.used = self.used.saturating_sub(lowered.into());
        }
    }

    pub(super) fn move_head(&mut self, to: u64) {
        if to <= self.head {
            return;
        }
        if self.used == 0 {
            self.head = to;
            return;
        }
        if to.saturating_sub(self.head) >= WINDOW_SLOTS {
            self.clear();
            self.head = to;
            return;
        }
        while self.head < to {
            self.head = self.head.saturating_add(1);
            let gone = self.head.wrapping_sub(WINDOW_SLOTS);
            if self.filled & bit(gone) != 0
                && let Some(cell) = self.ring.get_mut(position(gone))
            {
                self.used = self.used.saturating_sub((*cell).into());
                self.filled &= !bit(gone);
                *cell = 0;
            }
            if position(self.head) == 0 {
                self.recount();
            }
        }
    }

    /// Counts anew what the ring holds together.
    pub(super) fn recount(&mut self) {
        self.used = self.ring.iter().map(|&held| u64::from(held)).sum();
        let (parts, _) = self.ring.as_chunks::<32>();
        self.filled = parts.iter().rev().fold(0, |filled, part| filled << 32 | u128::from(filled_of(part)));
    }
}

const BITS: [u32; 32] = {
    let (mut bits, mut left) = ([0; 32], 32);
    while let Some((bit, _)) = bits.split_at_mut(left).0.split_last_mut() {
        left = left.saturating_sub(1);
        *bit = 1 << left;
    }
    bits
};

/// The cells that are not 0, a bit each. Against a table of bits, which the compiler does for several cells at once: every
/// decision reads the rings of a busy pool.
fn filled_of(part: &[u32; 32]) -> u32 {
    part.iter().zip(&BITS).fold(0, |filled, (&held, &bit)| filled | if held > 0 { bit } else { 0 })
}

#[allow(clippy::cast_possible_truncation)]
pub(super) const fn position(slot: u64) -> usize {
    (slot & 127) as usize
}

pub(super) const fn bit(slot: u64) -> u128 {
    1 << (slot & 127)
}
