//! Incremental base64: text in pieces of any size, bytes out in small groups.

/// Bytes decoded at once.
const GROUP: usize = 384;

/// Bits that are waiting for more text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decoder {
    bits: u32,
    count: u8,
}

impl Decoder {
    /// Decodes `text` and hands the bytes out. What is not in the alphabet (padding, white space) is skipped; the
    /// alphabet of URLs is understood too.
    pub(super) fn feed(&mut self, text: &[u8], mut out: impl FnMut(&[u8])) {
        let mut group = [0u8; GROUP];
        for part in text.chunks(GROUP) {
            let mut len = 0usize;
            for value in part.iter().filter_map(|byte| sextet(*byte)) {
                self.bits = (self.bits << 6) | u32::from(value);
                self.count = self.count.saturating_add(6);
                if self.count >= 8 {
                    self.count = self.count.saturating_sub(8);
                    let [byte, ..] = (self.bits >> self.count).to_le_bytes();
                    if let Some(place) = group.get_mut(len) {
                        *place = byte;
                    }
                    len = len.saturating_add(1);
                }
            }
            out(group.get(..len).unwrap_or_default());
        }
    }
}

const fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte.wrapping_sub(b'A')),
        b'a'..=b'z' => Some(byte.wrapping_sub(b'a').wrapping_add(26)),
        b'0'..=b'9' => Some(byte.wrapping_sub(b'0').wrapping_add(52)),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Decoder;

    #[test]
    fn decodes_at_every_split() {
        let text = b"eyJ1c2FnZSI6e319Cg==";
        for at in 0..=text.len() {
            let mut decoder = Decoder::default();
            let mut bytes = Vec::new();
            let (a, b) = text.split_at(at);
            decoder.feed(a, |part| bytes.extend_from_slice(part));
            decoder.feed(b, |part| bytes.extend_from_slice(part));
            assert_eq!(bytes, b"{\"usage\":{}}\n");
        }
    }
}
