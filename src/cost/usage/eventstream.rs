//! The binary event stream of AWS (`application/vnd.amazon.eventstream`).
//!
//! ```text
//! u32 length | u32 length of headers | u32 crc of these 8 bytes | headers | payload | u32 crc of all before
//! header = u8 length, name, u8 type (7 = string), u16 length, value
//! ```
//!
//! The payload goes to the scanner as it comes, and counts when the checksum at its end is right. After a wrong one nothing
//! more is believed: lengths may be wrong too. `invoke` streams put the model's own event as base64 into the payload.

use super::base64::Decoder;
use super::crc::Crc;
use super::document::Payload;
use super::reader::Reader;

/// Longest frame that is believed: 24 MiB of payload and 128 KiB of headers are the format's own limits.
const LONGEST_FRAME: u32 = 25_300_000;
/// Length of prelude and final checksum.
const OVERHEAD: u32 = 16;
/// Header names and values are kept up to this length; the ones that matter are shorter.
const TEXT_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Prelude,
    Headers,
    Payload,
    Checksum,
    Broken,
}

/// Where in the stream the reader is.
#[derive(Clone, Debug)]
pub(super) struct EventStream {
    state: State,
    /// Bytes of the present part that are still to come.
    missing: u32,
    /// Length of the payload, known from the prelude.
    payload_len: u32,
    crc: Crc,
    word: [u8; 12],
    word_len: usize,
    header: Header,
    inner: Inner,
}

/// The document inside the payload.
#[derive(Clone, Debug)]
struct Inner {
    decoder: Decoder,
    reader: Reader,
}

impl Payload for Inner {
    fn part(&mut self, text: &[u8]) {
        let reader = &mut self.reader;
        self.decoder.feed(text, |bytes| reader.feed(bytes));
    }
}

impl EventStream {
    pub(super) fn new(failed: bool) -> Self {
        Self {
            state: State::Prelude,
            missing: 12,
            payload_len: 0,
            crc: Crc::new(),
            word: [0; 12],
            word_len: 0,
            header: Header::default(),
            inner: Inner { decoder: Decoder::default(), reader: Reader::new(failed) },
        }
    }

    /// A checksum or a length was wrong.
    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// The documents inside the payloads.
    pub(super) const fn inner(&self) -> &Reader {
        &self.inner.reader
    }

    /// Reads on.
    pub(super) fn feed(&mut self, mut bytes: &[u8], reader: &mut Reader) {
        while !bytes.is_empty() && self.state != State::Broken {
            let take = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
            let (part, rest) = bytes.split_at_checked(take).unwrap_or((bytes, &[]));
            bytes = rest;
            self.missing = self.missing.saturating_sub(u32::try_from(take).unwrap_or(u32::MAX));
            match self.state {
                State::Prelude | State::Checksum => self.keep(part),
                State::Headers => {
                    self.crc.update(part);
                    self.header.feed(part, reader);
                }
                State::Payload => {
                    self.crc.update(part);
                    reader.feed_with(part, &mut self.inner);
                }
                State::Broken => {}
            }
            while self.missing == 0 && self.state != State::Broken {
                self.advance(reader);
            }
        }
    }

    fn keep(&mut self, part: &[u8]) {
        for byte in part {
            if let Some(place) = self.word.get_mut(self.word_len) {
                *place = *byte;
            }
            self.word_len = self.word_len.saturating_add(1);
        }
    }

    /// The present part is complete.
    fn advance(&mut self, reader: &mut Reader) {
        match self.state {
            State::Prelude => {
                let [a, b, c, d, e, f, g, h, crc @ ..] = self.word;
                let (length, headers) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                self.crc = Crc::new();
                self.crc.update(&[a, b, c, d, e, f, g, h]);
                let payload = length.checked_sub(OVERHEAD).and_then(|rest| rest.checked_sub(headers));
                match payload {
                    Some(payload)
                        if length <= LONGEST_FRAME && self.crc.value() == u32::from_be_bytes(crc) =>
                    {
                        self.crc.update(&crc);
                        self.payload_len = payload;
                        self.header = Header::default();
                        self.go(State::Headers, headers);
                    }
                    _ => self.state = State::Broken,
                }
            }
            State::Headers => self.go(State::Payload, self.payload_len),
            State::Payload => self.go(State::Checksum, 4),
            State::Checksum => {
                let [a, b, c, d, ..] = self.word;
                if self.crc.value() == u32::from_be_bytes([a, b, c, d]) {
                    reader.next();
                    self.inner.reader.next();
                    self.inner.decoder = Decoder::default();
                    self.go(State::Prelude, 12);
                } else {
                    self.state = State::Broken;
                }
            }
            State::Broken => {}
        }
    }

    fn go(&mut self, state: State, missing: u32) {
        self.state = state;
        self.missing = missing;
        self.word_len = 0;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeaderState {
    #[default]
    NameLength,
    Name,
    Type,
    ValueLength,
    Value,
}

/// Reads the headers of one frame; what matters is whether it is an exception, and which.
#[derive(Clone, Debug, Default)]
struct Header {
    state: HeaderState,
    missing: usize,
    name: Text,
    value: Text,
}

#[derive(Clone, Debug)]
struct Text {
    bytes: [u8; TEXT_BYTES],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; TEXT_BYTES], len: 0 }
    }
}

impl Text {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
        }
        self.len = self.len.saturating_add(1);
    }

    /// Nothing when it was longer than what is kept.
    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Header {
    fn feed(&mut self, bytes: &[u8], reader: &mut Reader) {
        for byte in bytes {
            match self.state {
                HeaderState::NameLength => {
                    self.missing = usize::from(*byte);
                    self.name.len = 0;
                    self.state = if *byte == 0 { HeaderState::Type } else { HeaderState::Name };
                }
                HeaderState::Name => {
                    self.name.push(*byte);
                    self.count(HeaderState::Type);
                }
                HeaderState::Type => {
                    self.value.len = 0;
                    self.missing = match byte {
                        2 => 1,
                        3 => 2,
                        4 => 4,
                        5 | 8 => 8,
                        9 => 16,
                        _ => 0,
                    };
                    self.state = match byte {
                        6 | 7 => HeaderState::ValueLength,
                        2..=5 | 8 | 9 => HeaderState::Value,
                        _ => HeaderState::NameLength,
                    };
                }
                HeaderState::ValueLength => {
                    self.value.push(*byte);
                    if let [high, low] = *self.value.get() {
                        self.missing = usize::from(u16::from_be_bytes([high, low]));
                        self.value.len = 0;
                        self.state =
                            if self.missing == 0 { HeaderState::NameLength } else { HeaderState::Value };
                    }
                }
                HeaderState::Value => {
                    self.value.push(*byte);
                    self.count(HeaderState::NameLength);
                    if self.state == HeaderState::NameLength {
                        self.complete(reader);
                    }
                }
            }
        }
    }

    fn count(&mut self, next: HeaderState) {
        self.missing = self.missing.saturating_sub(1);
        if self.missing == 0 {
            self.state = next;
        }
    }

    fn complete(&self, reader: &mut Reader) {
        match (self.name.get(), self.value.get()) {
            (b":message-type", b"exception" | b"error") => reader.fail(b""),
            (b":exception-type" | b":error-code", name) => reader.fail(name),
            _ => {}
        }
    }
}
