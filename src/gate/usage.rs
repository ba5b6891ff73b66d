//! How far real use lies from what is reserved, so that promises fit what calls will really leave behind.

/// One part in this many (as a shift) of the sums is forgotten with every settlement.
const FORGET_SHIFT: u32 = 7;
/// Scale of the ratio.
const ONE: u64 = 1 << 10;

/// Decaying sums of what was reserved and what was used, as time of the limit in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) reserved: u64,
    pub(crate) used: u64,
}

impl Usage {
    /// Takes note of a settlement.
    pub(crate) fn settled(&mut self, reserved: u64, used: u64) {
        let keep = |sum: u64| sum.saturating_sub(sum.div_ceil(1 << FORGET_SHIFT));
        self.reserved = keep(self.reserved).saturating_add(reserved);
        self.used = keep(self.used).saturating_add(used);
    }

    /// What calls that reserve `amount` will have used in the end; between an eighth and eight times of it.
    pub(crate) fn expected(&self, amount: u64) -> u64 {
        if self.reserved == self.used || self.reserved == 0 {
            return amount;
        }
        let ratio = self.used.saturating_mul(ONE).checked_div(self.reserved).unwrap_or(ONE);
        amount.saturating_mul(ratio.clamp(ONE / 8, ONE.saturating_mul(8))).div_ceil(ONE)
    }
}
