//! How one per-minute limit is applied: derived from the pool's policy and the provider's adaptation, kept nowhere.

use crate::units::Span;

use super::meter::{MINUTE, SLOT, STRETCHED};

/// Limits above this are treated as this: a slot then holds 32 bits, and the products stay within 63.
const LARGEST_LIMIT: u64 = 4_000_000_000;
/// Lumps of up to this many microseconds' worth may pass as they come.
pub(crate) const LUMP: u64 = 2_000_000;

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
    /// Lent: neither taken nor free.
    pub(crate) lent: u64,
}

impl Rule {
    /// Derives the rule for a limit and a pace (after any scaling) from the pool's policy.
    pub(crate) fn new(limit: u64, rate: u64, burst: Span, strict: bool) -> Self {
        let limit = limit.clamp(1, LARGEST_LIMIT);
        let rate = rate.clamp(1, limit);
        let burst = burst.as_micros().min(MINUTE);
        let unpaced = strict && burst >= MINUTE;
        let capacity = if unpaced {
            // A slot may leave the window up to a slot length before its amount has drained from the bucket.
            limit.saturating_mul(STRETCHED.saturating_add(SLOT))
        } else if strict {
            // `burst` seconds of the limit itself, though the refill is a little slower.
            let plain = limit.saturating_mul(burst);
            plain.saturating_add(plain / 120)
        } else {
            limit.saturating_mul(burst)
        };
        Self { limit, rate, strict, unpaced, capacity, lent: 0 }
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
