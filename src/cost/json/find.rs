//! Finds the ends of runs inside a JSON string, at the speed of memory.

use memchr::memchr2;

/// Number of bytes before the first `"` or `\`; the whole length when there is none.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len())
}

/// Number of bytes of a string that may pass unread: up to `most`, and the rest of an escape that begins before.
///
/// Stops at the string's end, and at an escape that is wrong or not complete, which is left to be read.
pub(super) fn unread_run(bytes: &[u8], most: usize) -> usize {
    let mut at = 0_usize;
    while at < most {
        let rest = bytes.get(at..).unwrap_or_default();
        let len = match rest {
            [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => 6,
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [] | [b'\\' | b'"', ..] => break,
            _ => plain_run(rest.get(..most.saturating_sub(at)).unwrap_or(rest)),
        };
        at = at.saturating_add(len);
    }
    at
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::{plain_run, unread_run};

    #[test]
    fn finds_the_first_stop_at_every_position() {
        for stop in [b'"', b'\\'] {
            for length in 0..70 {
                let mut bytes = vec![b'a'; length];
                assert_eq!(plain_run(&bytes), length);
                for at in 0..length {
                    bytes[at] = stop;
                    assert_eq!(plain_run(&bytes), at);
                    bytes[at] = [0xa2, 0x21, 0x23, 0xdc, 0x5b, 0x5d, 0x00, 0xff][at % 8];
                }
            }
        }
    }

    #[test]
    fn escapes_pass_whole_and_wrong_ones_do_not() {
        for (text, most, expected) in [
            ("abc\"d", 9, 3),
            ("abc", 2, 2),
            ("ab\\n\\u4e2dc", 3, 4),
            ("ab\\n\\u4e2dc", 5, 10),
            ("ab\\n\\u4e2dc", 99, 11),
            ("\\\\\"", 99, 2),
            ("\\\"\"", 99, 2),
            ("a\\x", 99, 1),
            ("a\\u12g4", 99, 1),
            ("a\\u12", 99, 1),
            ("a\\", 99, 1),
            ("\"", 99, 0),
        ] {
            assert_eq!(unread_run(text.as_bytes(), most), expected, "{text} {most}");
        }
    }
}
