//! Every way in which providers write "how long": durations, plain numbers, dates.
//!
//! | written | meaning |
//! | --- | --- |
//! | `12`, `1.5`, ` 12 ` | seconds (or milliseconds, as the header's name says) |
//! | `1792567710`, `1792567710000` | moments: anything above 30 days is taken for seconds, milliseconds or microseconds since the epoch |
//! | `6m0s`, `17ms`, `1h2m3.5s`, `172.8µs`, `23h47m36.648s` | durations as Go prints them |
//! | `2026-11-29T18:00:41+00:00` | RFC 3339 |
//! | `Wed, 21 Oct 2026 07:28:30 GMT` and the two obsolete forms | HTTP dates (RFC 9110, section 5.6.7) |
//!
//! Anything else, negative numbers, `NaN`, and moments that have passed are nothing.

use crate::units::{Span, Timestamp};

/// The unit of a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Numbers of seconds above this are moments (30 days).
const LONGEST_DURATION: u64 = 2_592_000;
/// Longest text that is looked at; every known form is shorter.
const MAX_TEXT: usize = 64;

/// Time from `now` until what `text` says; `None` when it says nothing usable or lies in the past. Rounded up.
pub fn parse_wait(text: &[u8], unit: Unit, now: Timestamp) -> Option<Span> {
    let text = text.trim_ascii();
    if text.len() > MAX_TEXT {
        return None;
    }
    if let Some(wait) = parse_one(text, unit, now) {
        return Some(wait);
    }
    // A header sent twice arrives as one list; the later moment is the safe one.
    text.split(|byte| *byte == b',').filter_map(|part| parse_one(part.trim_ascii(), unit, now)).max()
}

fn parse_one(text: &[u8], unit: Unit, now: Timestamp) -> Option<Span> {
    if let Some((number, rest)) = Number::take(text) {
        if rest.is_empty() {
            return bare(&number, unit, now);
        }
        if let Some(span) = go_duration(text) {
            return Some(span);
        }
    }
    let moment = rfc3339(text).or_else(|| http_date(text, now))?;
    (moment > now).then(|| moment.since(now))
}

fn bare(number: &Number, unit: Unit, now: Timestamp) -> Option<Span> {
    let (scale, seconds) = match unit {
        Unit::Millis => (1_000_000, number.whole / 1_000),
        Unit::Seconds => (NANOS_PER_SECOND, number.whole),
    };
    if seconds <= LONGEST_DURATION {
        return Some(number.span(scale));
    }
    let per_unit = match number.whole {
        ..=99_999_999_999 => 1_000_000,
        100_000_000_000..=99_999_999_999_999 => 1_000,
        _ => 1,
    };
    let micros = number.whole.saturating_mul(per_unit);
    let moment = Timestamp::from_micros(micros);
    (moment > now).then(|| moment.since(now))
}

/// A non-negative decimal number: whole part and billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    whole: u64,
    billionths: u64,
}

impl Number {
    /// Takes `12`, `12.5` or `.5` from the front.
    fn take(text: &[u8]) -> Option<(Self, &[u8])> {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (whole, mut rest) = text.split_at_checked(digits)?;
        let mut number = Self { whole: decimal(whole), billionths: 0 };
        let mut seen = digits;
        if let Some(fraction) = rest.strip_prefix(b".") {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (fraction, after) = fraction.split_at_checked(digits)?;
            let mut unit = 100_000_000u64;
            for byte in fraction {
                let digit = u64::from(byte.wrapping_sub(b'0'));
                number.billionths = number.billionths.saturating_add(digit.saturating_mul(unit));
                unit /= 10;
            }
            seen = seen.saturating_add(digits);
            rest = after;
        }
        (seen > 0).then_some((number, rest))
    }

    fn span(&self, nanos_per_unit: u128) -> Span {
        let nanos = u128::from(self.whole)
            .saturating_mul(nanos_per_unit)
            .saturating_add(u128::from(self.billionths).saturating_mul(nanos_per_unit) / NANOS_PER_SECOND);
        Span::from_micros(u64::try_from(nanos.div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

/// A run of digits as a number, saturating.
fn decimal(digits: &[u8]) -> u64 {
    digits
        .iter()
        .fold(0, |sum: u64, byte| sum.saturating_mul(10).saturating_add(u64::from(byte.wrapping_sub(b'0'))))
}

/// Numbers with units, in any order, summed.
fn go_duration(text: &[u8]) -> Option<Span> {
    const UNITS: [(&str, u128); 8] = [
        ("ms", 1_000_000),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("\u{3bc}s", 1_000),
        ("ns", 1),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", NANOS_PER_SECOND),
    ];
    let (mut rest, mut sum) = (text, Span::ZERO);
    while !rest.is_empty() {
        let (number, after) = Number::take(rest)?;
        let (unit, after) = UNITS
            .iter()
            .find_map(|(name, nanos)| after.strip_prefix(name.as_bytes()).map(|left| (*nanos, left)))?;
        sum = sum.plus(number.span(unit));
        rest = after;
    }
    Some(sum)
}

/// A duration at the front of a sentence: `1.22s.`, `45 seconds`, `6m0s`, `3`; what follows does not matter.
pub(super) fn spoken_duration(text: &[u8]) -> Option<Span> {
    let (mut rest, mut sum, mut any) = (text, Span::ZERO, false);
    while let Some((number, after)) = Number::take(rest) {
        let after = after.trim_ascii_start();
        let letters = after.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let nanos: u128 = match unit {
            b"ms" | b"millisecond" | b"milliseconds" => 1_000_000,
            b"s" | b"sec" | b"secs" | b"second" | b"seconds" => NANOS_PER_SECOND,
            b"m" | b"min" | b"mins" | b"minute" | b"minutes" => 60_000_000_000,
            b"h" | b"hour" | b"hours" => 3_600_000_000_000,
            b"" if !any => NANOS_PER_SECOND,
            _ => break,
        };
        (sum, rest, any) = (sum.plus(number.span(nanos)), after, true);
    }
    (any && sum > Span::ZERO).then_some(sum)
}

/// `YYYY-MM-DDTHH:MM:SS[.fraction](Z|+HH:MM|-HH:MM)`.
fn rfc3339(text: &[u8]) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let rest =
        rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b"t")).or_else(|| rest.strip_prefix(b" "))?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    let moment = moment(year, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?, clock_seconds(clock)?)?;
    let (moment, zone) = match Number::take(rest) {
        Some((fraction, after)) if rest.starts_with(b".") => {
            (moment.after(fraction.span(NANOS_PER_SECOND)), after)
        }
        _ => (moment, rest),
    };
    match zone {
        b"Z" | b"z" => Some(moment),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let minutes = digits(&[*h1, *h2])?.saturating_mul(60).saturating_add(digits(&[*m1, *m2])?);
            let offset = Span::from_secs(minutes.saturating_mul(60));
            Some(if *sign == b'+' { moment.before(offset) } else { moment.after(offset) })
        }
        _ => None,
    }
}

/// The three forms of an HTTP date. All say the day before the year, and name the month.
fn http_date(text: &[u8], now: Timestamp) -> Option<Timestamp> {
    let (mut month, mut day, mut year, mut clock) = (None, None, None, None);
    for word in text.split(|byte| matches!(byte, b' ' | b',' | b'-')).filter(|word| !word.is_empty()) {
        if word.contains(&b':') {
            clock = Some(clock_seconds(word)?);
        } else if word.first().is_some_and(u8::is_ascii_digit) {
            let number = digits(word)?;
            match (day, year) {
                (None, _) => day = Some(number),
                (_, None) if word.len() == 4 => year = Some(number),
                (_, None) if word.len() == 2 => year = Some(full_year(number, now)),
                _ => return None,
            }
        } else if let Some(number) = month_number(word) {
            month = Some(number);
        } else if !is_weekday(word) && !matches!(word, b"GMT" | b"UTC") {
            return None;
        }
    }
    moment(year?, month?, day?, clock?)
}

/// RFC 9110: a two-digit year that seems more than 50 years ahead lies in the past.
fn full_year(two_digits: u64, now: Timestamp) -> u64 {
    let this_year = 1_970u64.saturating_add(now.as_micros() / 31_556_952_000_000);
    let year = (this_year / 100).saturating_mul(100).saturating_add(two_digits);
    if year > this_year.saturating_add(50) { year.saturating_sub(100) } else { year }
}

fn month_number(word: &[u8]) -> Option<u64> {
    const MONTHS: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let at = MONTHS.as_chunks::<3>().0.iter().position(|month| word.eq_ignore_ascii_case(month))?;
    u64::try_from(at).ok()?.checked_add(1)
}

fn is_weekday(word: &[u8]) -> bool {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    DAYS.iter().any(|day| {
        word.eq_ignore_ascii_case(day.as_bytes())
            || (word.len() == 3
                && day.as_bytes().get(..3).is_some_and(|short| word.eq_ignore_ascii_case(short)))
    })
}

fn digits(text: &[u8]) -> Option<u64> {
    (!text.is_empty() && text.len() <= 4 && text.iter().all(u8::is_ascii_digit)).then(|| decimal(text))
}

fn clock_seconds(text: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let (hour, minute, second) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?, digits(&[*s1, *s2])?);
    (hour < 24 && minute < 60 && second <= 60)
        .then(|| hour.saturating_mul(3_600).saturating_add(minute.saturating_mul(60)).saturating_add(second))
}

/// Civil date to moment, for years from 1970; days are counted in years that begin in March.
fn moment(year: u64, month: u64, day: u64, seconds: u64) -> Option<Timestamp> {
    if year < 1_970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let march_year = if month <= 2 { year.checked_sub(1)? } else { year };
    let march_month = month.checked_add(9)? % 12;
    let leaps = (march_year / 4).checked_sub(march_year / 100)?.checked_add(march_year / 400)?;
    let in_year = march_month.checked_mul(153)?.checked_add(2)? / 5;
    let days = march_year.checked_mul(365)?.checked_add(leaps)?.checked_add(in_year)?.checked_add(day)?;
    // 719 469 = the same count for 1 January 1970.
    let seconds = days.checked_sub(719_469)?.checked_mul(86_400)?.checked_add(seconds)?;
    Some(Timestamp::EPOCH.after(Span::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 21 Oct 2026 07:28:00 GMT.
    const NOW: Timestamp = Timestamp::from_millis(1_792_567_680_000);

    fn millis(text: &str) -> Option<u64> {
        parse_wait(text.as_bytes(), Unit::Seconds, NOW).map(Span::as_millis_ceil)
    }

    #[test]
    fn every_known_form_means_the_right_moment() {
        for (text, expected) in [
            ("6m0s", 360_000),
            ("17ms", 17),
            ("1.5s", 1_500),
            ("1m30.5s", 90_500),
            ("23h47m36.648s", 85_656_648),
            ("1h2m3.5s", 3_723_500),
            ("172.799999ms", 173),
            ("900µs", 1),
            ("55", 55_000),
            (" 12 ", 12_000),
            ("33011.382867", 33_011_383),
            ("1792567710", 30_000),
            ("1792567710000", 30_000),
            ("2026-10-21T07:28:30Z", 30_000),
            ("2026-10-21T09:28:30.250+02:00", 30_250),
            ("2026-10-20T23:28:30-08:00", 30_000),
            ("Wed, 21 Oct 2026 07:28:30 GMT", 30_000),
            ("Wednesday, 21-Oct-26 07:28:30 GMT", 30_000),
            ("Wed Oct 21 07:28:30 2026", 30_000),
            ("Fri, 1 Jan 2027 00:00:00 GMT", 6_193_920_000),
            ("3, 3", 3_000),
            ("30, Wed, 21 Oct 2026 07:28:05 GMT", 30_000),
            ("0", 0),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        assert_eq!(parse_wait(b"2500", Unit::Millis, NOW), Some(Span::from_millis(2_500)));
        assert_eq!(parse_wait(b"1220.5", Unit::Millis, NOW), Some(Span::from_micros(1_220_500)));
    }

    #[test]
    fn nonsense_and_the_past_are_nothing() {
        for text in [
            "",
            " ",
            "soon",
            "-1",
            "NaN",
            "inf",
            "1e9",
            "0x10",
            "12 parsecs",
            "5s later",
            "h",
            ".",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Wed, 21 Oct 99999 07:28:30 GMT",
            "Wed, 21 Oct 2026 25:28:30 GMT",
            "Wed, 41 Oct 2026 07:28:30 GMT",
            "2026-13-21T07:28:30Z",
            "2020-10-21T07:28:30Z",
            "1700000000",
            "99999999999999999999999999999999999999999999999999999999999999999999",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..70),
            now in proptest::prelude::any::<u64>(),
            text in "[0-9a-zA-Z:,. +-]{0,40}",
        ) {
            for input in [bytes.as_slice(), text.as_bytes()] {
                for unit in [Unit::Seconds, Unit::Millis] {
                    let _ = parse_wait(input, unit, Timestamp::from_micros(now));
                }
            }
        }
    }
}
