//! Small numbers for the codec: 16 bits for an amount, 8 for a span, both rounded up.
//!
//! What is stored is what is held in memory: values are rounded when they enter the queue, so that reading back what
//! was written changes nothing.

/// 11 bits of mantissa, 5 of exponent: at most 0.1 % above the true amount.
pub(crate) const fn pack(amount: u32) -> u16 {
    if amount < 1 << 11 {
        return low16(amount);
    }
    let exponent = 21_u32.saturating_sub(amount.leading_zeros());
    let mantissa =
        (amount >> exponent).saturating_add(if amount.trailing_zeros() < exponent { 1 } else { 0 });
    // A mantissa that overflowed by rounding is a power of two of the next exponent.
    let (mantissa, exponent) =
        if mantissa >= 1 << 11 { (mantissa >> 1, exponent.saturating_add(1)) } else { (mantissa, exponent) };
    low16((exponent << 11) | (mantissa & 0x7ff))
}

/// The amount that [`pack`] stored.
pub(crate) const fn unpack(packed: u16) -> u32 {
    let (mantissa, exponent) = (packed as u32 & 0x7ff, packed as u32 >> 11);
    let wide = (mantissa as u64) << exponent;
    if wide > u32::MAX as u64 { u32::MAX } else { low32(wide) }
}

/// 4 bits of mantissa, 4 of exponent: at most an eighth above the true number.
pub(crate) const fn pack_byte(amount: u32) -> u8 {
    let mut exponent = 0_u32;
    while exponent < 15 && amount.div_ceil(1 << exponent) > 15 {
        exponent = exponent.saturating_add(1);
    }
    let mantissa = amount.div_ceil(1 << exponent);
    low8((exponent << 4) | if mantissa > 15 { 15 } else { mantissa })
}

/// The number that [`pack_byte`] stored.
pub(crate) const fn unpack_byte(packed: u8) -> u32 {
    (packed as u32 & 15) << (packed >> 4)
}

/// Truncates to the low 32 bits.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn low32(wide: u64) -> u32 {
    (wide & 0xffff_ffff) as u32
}

/// Truncates to the low 64 bits.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn low64(wide: u128) -> u64 {
    (wide & 0xffff_ffff_ffff_ffff) as u64
}

/// Truncates to the low 16 bits.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn low16(wide: u32) -> u16 {
    (wide & 0xffff) as u16
}

/// Truncates to the low 8 bits.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn low8(wide: u32) -> u8 {
    (wide & 0xff) as u8
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn amounts_survive_rounded_up_by_at_most_a_thousandth() {
        for amount in
            (0..5_000).chain((0..32).map(|bit| 1 << bit)).chain([u32::MAX, u32::MAX - 1, 99_999_999])
        {
            let stored = unpack(pack(amount));
            assert!(stored >= amount, "{amount} became {stored}");
            assert!(
                u64::from(stored) <= u64::from(amount) + u64::from(amount) / 1_000 + 1,
                "{amount}: {stored}"
            );
            assert_eq!(unpack(pack(stored)), stored, "{amount}");
        }
    }

    #[test]
    fn spans_survive_rounded_up_by_at_most_an_eighth() {
        for amount in 0..400_000 {
            let stored = unpack_byte(pack_byte(amount));
            assert!(stored >= amount && stored <= amount + amount / 8, "{amount} became {stored}");
            assert_eq!(unpack_byte(pack_byte(stored)), stored, "{amount}");
        }
        assert_eq!(unpack_byte(pack_byte(u32::MAX)), 15 << 15);
    }
}
