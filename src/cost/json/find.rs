//! Finds the end of a plain run inside a JSON string, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Sets the high bit of each byte of `word` that is zero (bytes above a hit may be set too, never below).
#[inline(always)]
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Sets the high bit of (at least the first) byte of `word` that is a quote or a backslash.
#[inline(always)]
const fn stops(word: u64) -> u64 {
    zero_bytes(word ^ 0x2222_2222_2222_2222) | zero_bytes(word ^ 0x5c5c_5c5c_5c5c_5c5c)
}

/// Number of bytes before the first `"` or `\`; the whole length when there is none.
///
/// Two words are tested per turn, so that base64 passes at close to the speed of memory without SIMD.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let mut done = 0_usize;
    let (pairs, _) = bytes.as_chunks::<16>();
    for pair in pairs {
        let (words, _) = pair.as_chunks::<8>();
        let hits = words.iter().fold(0, |hits, word| hits | stops(u64::from_le_bytes(*word)));
        if hits != 0 {
            break;
        }
        done = done.saturating_add(16);
    }
    let rest = bytes.get(done..).unwrap_or_default();
    let tail = rest.iter().position(|&byte| byte == b'"' || byte == b'\\').unwrap_or(rest.len());
    done.saturating_add(tail)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::plain_run;

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
}
