//! Counts written as JSON numbers.

/// Caps above this make no sense: no model writes so much in one answer.
const ABSURD: u64 = 100_000_000;

/// The value of a whole, sensible count; `None` for negative, fractional and absurd ones.
///
/// `9000.0` and `9e3` are whole numbers to most servers, so they are here.
pub(super) fn count(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let whole = match text.parse::<u64>() {
        Ok(value) => value,
        Err(_) => whole_float(text.parse::<f64>().ok()?)?,
    };
    (whole <= ABSURD).then_some(whole)
}

fn whole_float(value: f64) -> Option<u64> {
    let sensible =
        (0.0..=100_000_000.0).contains(&value) && value.fract() == 0.0 && !value.is_sign_negative();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range was checked")]
    sensible.then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn only_sensible_counts_are_taken() {
        for (text, value) in [
            ("0", Some(0)),
            ("9000", Some(9_000)),
            ("9000.0", Some(9_000)),
            ("9e3", Some(9_000)),
            ("100000000", Some(100_000_000)),
            ("100000001", None),
            ("2147483647", None),
            ("99999999999999999999999", None),
            ("1e308", None),
            ("1e999", None),
            ("-1", None),
            ("-0", None),
            ("1.5", None),
            ("", None),
            ("1-2", None),
        ] {
            assert_eq!(count(text.as_bytes()), value, "{text}");
        }
    }
}
