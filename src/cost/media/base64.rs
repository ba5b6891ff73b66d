//! Base64 decoding that stops when enough was seen.

use super::header::Header;

/// Carries up to three sextets between parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoder {
    bits: u32,
    sextets: u8,
}

impl Decoder {
    /// Decodes into `header` until it has settled. Both alphabets; other characters (line ends, padding) are skipped.
    pub(super) fn decode(&mut self, text: &[u8], header: &mut Header) {
        for &character in text {
            let Some(value) = sextet(character) else { continue };
            self.bits = (self.bits << 6) | value;
            self.sextets = self.sextets.wrapping_add(1);
            if self.sextets < 4 {
                continue;
            }
            self.sextets = 0;
            let [_, first, second, third] = self.bits.to_be_bytes();
            self.bits = 0;
            for byte in [first, second, third] {
                header.byte(byte);
            }
            if header.is_settled() {
                return;
            }
        }
    }
}

fn sextet(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character.wrapping_sub(b'A'),
        b'a'..=b'z' => character.wrapping_sub(b'a').wrapping_add(26),
        b'0'..=b'9' => character.wrapping_sub(b'0').wrapping_add(52),
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// The text could be base64 and nothing else.
pub(in crate::cost) fn looks_like(text: &[u8]) -> bool {
    text.iter().all(|&character| sextet(character).is_some() || matches!(character, b'=' | b'\r' | b'\n'))
}
