//! Recognises files by their first bytes and finds the size of pictures, a byte at a time.
//!
//! Sources: PNG specification (IHDR), GIF89a, the WebP container specification, JPEG T.81 annex B, RIFF WAVE.

/// What a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Not recognised.
    #[default]
    Unknown,
    /// A picture.
    Image,
    /// Sound.
    Sound,
    /// Moving pictures.
    Video,
    /// A document, such as PDF.
    Document,
}

/// Bytes looked at in the head; the farthest field of interest is the size in an extended WebP header.
const HEAD: usize = 32;

/// Bytes of a JPEG read in search of its size: metadata in front is seldom longer.
const JPEG_SEARCH: u32 = 65_536;

/// What the next byte of a JPEG is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jpeg {
    /// Looking for the 0xff of a marker.
    Marker,
    /// The marker's code.
    Code,
    /// Length, high byte.
    High(u8),
    /// Length, low byte.
    Low(u8, u8),
    /// Inside a segment that is skipped.
    Skip(u16),
    /// Inside a frame header, at this byte.
    Frame(u8),
}

/// Fed with the first bytes of a file until it has settled.
#[derive(Clone, Debug)]
pub(super) struct Header {
    head: [u8; HEAD],
    taken: u32,
    jpeg: Jpeg,
    frame: [u8; 5],
    settled: bool,
    format: Format,
    pixels: Option<(u32, u32)>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            head: [0; HEAD],
            taken: 0,
            jpeg: Jpeg::Marker,
            frame: [0; 5],
            settled: false,
            format: Format::Unknown,
            pixels: None,
        }
    }
}

impl Header {
    /// No further byte will change the result.
    pub(super) const fn is_settled(&self) -> bool {
        self.settled
    }

    /// What was recognised.
    pub(super) fn format(&self) -> Format {
        if self.settled { self.format } else { self.recognise() }
    }

    /// Width and height.
    pub(super) fn pixels(&self) -> Option<(u32, u32)> {
        self.pixels.filter(|(width, height)| *width > 0 && *height > 0)
    }

    /// Byte rate of a WAVE file.
    pub(super) fn bytes_per_second(&self) -> Option<u32> {
        let wave = self.head.starts_with(b"RIFF") && self.at(8, b"WAVEfmt ");
        wave.then(|| self.little_endian::<4>(28)).flatten().filter(|rate| *rate > 0)
    }

    pub(super) fn byte(&mut self, byte: u8) {
        if self.settled {
            return;
        }
        if let Some(place) = usize::try_from(self.taken).ok().and_then(|at| self.head.get_mut(at)) {
            *place = byte;
        }
        self.taken = self.taken.saturating_add(1);
        if self.head.starts_with(&[0xff, 0xd8, 0xff]) {
            if self.taken > 2 {
                self.jpeg_byte(byte);
            }
            return;
        }
        if usize::try_from(self.taken).is_ok_and(|taken| taken >= HEAD) {
            self.format = self.recognise();
            self.pixels = self.size();
            self.settled = true;
        }
    }

    fn at(&self, place: usize, expected: &[u8]) -> bool {
        self.head.get(place..).is_some_and(|rest| rest.starts_with(expected))
    }

    fn recognise(&self) -> Format {
        let riff = self.head.starts_with(b"RIFF");
        let image = self.head.starts_with(b"\x89PNG")
            || self.head.starts_with(&[0xff, 0xd8, 0xff])
            || self.head.starts_with(b"GIF8")
            || (riff && self.at(8, b"WEBP"))
            || self.at(4, b"ftypavif")
            || self.at(4, b"ftyphei")
            || self.head.starts_with(b"BM");
        let sound = (riff && self.at(8, b"WAVE"))
            || self.head.starts_with(b"ID3")
            || self.head.starts_with(b"OggS")
            || self.head.starts_with(b"fLaC")
            || (self.head.first() == Some(&0xff) && self.head.get(1).is_some_and(|byte| byte & 0xe0 == 0xe0));
        if image {
            Format::Image
        } else if sound {
            Format::Sound
        } else if self.head.starts_with(b"%PDF") {
            Format::Document
        } else if self.at(4, b"ftyp") || self.head.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]) {
            Format::Video
        } else {
            Format::Unknown
        }
    }

    /// Width and height from a PNG, GIF or WebP head.
    fn size(&self) -> Option<(u32, u32)> {
        if self.head.starts_with(b"\x89PNG") {
            return self.big_endian(16).zip(self.big_endian(20));
        }
        if self.head.starts_with(b"GIF8") {
            return self.little_endian::<2>(6).zip(self.little_endian::<2>(8));
        }
        if self.at(8, b"WEBPVP8 ") {
            let mask = |side: u32| side & 0x3fff;
            return self.little_endian::<2>(26).map(mask).zip(self.little_endian::<2>(28).map(mask));
        }
        if self.at(8, b"WEBPVP8L") {
            let bits = self.little_endian::<4>(21)?;
            return Some(((bits & 0x3fff).saturating_add(1), ((bits >> 14) & 0x3fff).saturating_add(1)));
        }
        if self.at(8, b"WEBPVP8X") {
            let width = self.little_endian::<3>(24)?.saturating_add(1);
            return Some((width, self.little_endian::<3>(27)?.saturating_add(1)));
        }
        None
    }

    fn big_endian(&self, place: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*self.head.get(place..)?.first_chunk()?))
    }

    fn little_endian<const N: usize>(&self, place: usize) -> Option<u32> {
        let bytes = self.head.get(place..)?.first_chunk::<N>()?;
        Some(bytes.iter().rev().fold(0, |value, byte| (value << 8) | u32::from(*byte)))
    }

    /// Walks over the segments to the first frame header.
    fn jpeg_byte(&mut self, byte: u8) {
        self.jpeg = match self.jpeg {
            Jpeg::Marker if byte == 0xff => Jpeg::Code,
            Jpeg::Marker => Jpeg::Marker,
            Jpeg::Code => match byte {
                0xff => Jpeg::Code,
                0x01 | 0xd0..=0xd8 => Jpeg::Marker,
                code => Jpeg::High(code),
            },
            Jpeg::High(code) => Jpeg::Low(code, byte),
            Jpeg::Low(0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf, _) => Jpeg::Frame(0),
            Jpeg::Low(_, high) => match u16::from_be_bytes([high, byte]).saturating_sub(2) {
                0 => Jpeg::Marker,
                length => Jpeg::Skip(length),
            },
            Jpeg::Skip(1) => Jpeg::Marker,
            Jpeg::Skip(length) => Jpeg::Skip(length.saturating_sub(1)),
            Jpeg::Frame(place) => {
                if let Some(kept) = self.frame.get_mut(usize::from(place)) {
                    *kept = byte;
                }
                Jpeg::Frame(place.saturating_add(1))
            }
        };
        let [_, high, low, wide, thin] = self.frame;
        if self.jpeg == Jpeg::Frame(5) {
            self.pixels = Some((
                u32::from(u16::from_be_bytes([wide, thin])),
                u32::from(u16::from_be_bytes([high, low])),
            ));
        }
        if self.pixels.is_some() || self.taken >= JPEG_SEARCH {
            self.format = Format::Image;
            self.settled = true;
        }
    }
}
