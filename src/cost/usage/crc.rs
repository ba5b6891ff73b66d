//! CRC-32 as used by gzip and by the AWS event stream (polynomial 0xEDB88320, reflected).

/// Remainders of every byte, then of every byte followed by one, two and three zero bytes.
const TABLES: [[u32; 256]; 4] = tables();

#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
const fn tables() -> [[u32; 256]; 4] {
    let mut tables = [[0u32; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 4 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// A checksum in the making.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crc(u32);

impl Crc {
    pub(super) const fn new() -> Self {
        Self(u32::MAX)
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        let [t0, t1, t2, t3] = &TABLES;
        let at = |table: &[u32; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or(0);
        let mut crc = self.0;
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            let [a, b, c, d] = (crc ^ u32::from_le_bytes(*word)).to_le_bytes();
            crc = at(t3, a) ^ at(t2, b) ^ at(t1, c) ^ at(t0, d);
        }
        for byte in rest {
            let [low, ..] = crc.to_le_bytes();
            crc = (crc >> 8) ^ at(t0, low ^ byte);
        }
        self.0 = crc;
    }

    pub(super) const fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Crc;

    #[test]
    fn check_value_at_every_split() {
        for at in 0..=9 {
            let (a, b) = b"123456789".split_at(at);
            let mut crc = Crc::new();
            crc.update(a);
            crc.update(b);
            assert_eq!(crc.value(), 0xCBF4_3926);
        }
    }
}
