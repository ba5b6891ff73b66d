//! gzip and zlib, inflated while they arrive, for reading only: the caller gets the original bytes.
//!
//! Memory is the 32 KiB window and one output buffer. Work is bounded by the size of what came in (see `ALLOWANCE`).

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

use super::crc::Crc;

/// Output buffer.
const BUFFER: usize = 4_096;
/// Output that any input may make, and output per byte of input. Streams of small events reach 30; a bomb reaches 1000.
const ALLOWANCE: (u64, u64) = (1_048_576, 200);

/// What may follow in a gzip file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of the fixed header were read.
    Header(u8),
    ExtraLength(u8),
    Extra(u16),
    Name,
    Comment,
    HeaderCrc(u8),
    Deflated,
    /// So many bytes of checksum and length were read.
    Trailer(u8),
    /// After a complete stream.
    Ended,
    /// The data is damaged, or inflates beyond reason.
    Broken,
}

/// An inflater in the middle of its data.
pub(super) struct Inflater {
    inner: Box<InflateState>,
    zlib: bool,
    state: State,
    flags: u8,
    extra: u16,
    crc: Crc,
    trailer: u64,
    taken: u64,
    made: u64,
}

impl Inflater {
    /// For gzip, or for zlib (content encoding `deflate`).
    pub(super) fn new(zlib: bool) -> Self {
        let (format, state) =
            if zlib { (DataFormat::Zlib, State::Deflated) } else { (DataFormat::Raw, State::Header(0)) };
        Self {
            inner: InflateState::new_boxed(format),
            zlib,
            state,
            flags: 0,
            extra: 0,
            crc: Crc::new(),
            trailer: 0,
            taken: 0,
            made: 0,
        }
    }

    /// The data is damaged, or inflates beyond reason; what came before was right.
    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Inflates what `bytes` complete and hands it out in parts.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut out: impl FnMut(&[u8])) {
        self.taken = self.taken.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.state {
                State::Deflated => {
                    let read = self.inflate(bytes, &mut out);
                    bytes = bytes.get(read..).unwrap_or_default();
                    continue;
                }
                State::Ended if byte != 0x1f => return,
                State::Broken => return,
                _ => self.frame(byte),
            }
            bytes = rest;
        }
    }

    /// One byte of header or trailer.
    fn frame(&mut self, byte: u8) {
        self.state = match self.state {
            State::Header(0) | State::Ended if byte == 0x1f => State::Header(1),
            State::Header(1) if byte == 0x8b => State::Header(2),
            State::Header(2) if byte == 8 => State::Header(3),
            State::Header(3) => {
                self.flags = byte;
                State::Header(4)
            }
            State::Header(9) => self.after_header(),
            State::Header(seen @ 4..=8) => State::Header(seen.saturating_add(1)),
            State::ExtraLength(0) => {
                self.extra = u16::from(byte);
                State::ExtraLength(1)
            }
            State::ExtraLength(_) => {
                self.extra |= u16::from(byte) << 8;
                self.flags &= !4;
                if self.extra == 0 { self.after_header() } else { State::Extra(self.extra) }
            }
            State::Extra(1) => self.after_header(),
            State::Extra(missing) => State::Extra(missing.saturating_sub(1)),
            State::Name | State::Comment if byte == 0 => self.after_header(),
            State::Name | State::Comment => self.state,
            State::HeaderCrc(0) => State::HeaderCrc(1),
            State::HeaderCrc(_) => self.after_header(),
            State::Trailer(seen) => {
                self.trailer = (self.trailer >> 8) | (u64::from(byte) << 56);
                match seen {
                    7 => self.check(),
                    _ => State::Trailer(seen.saturating_add(1)),
                }
            }
            _ => State::Broken,
        };
    }

    /// The next optional part of the header that the flags announce.
    fn after_header(&mut self) -> State {
        for (flag, state) in
            [(4, State::ExtraLength(0)), (8, State::Name), (16, State::Comment), (2, State::HeaderCrc(0))]
        {
            if self.flags & flag != 0 {
                if flag != 4 {
                    self.flags &= !flag;
                }
                return state;
            }
        }
        self.inner.reset(DataFormat::Raw);
        self.crc = Crc::new();
        State::Deflated
    }

    fn check(&self) -> State {
        let crc = u32::try_from(self.trailer & u64::from(u32::MAX)).unwrap_or(0);
        if crc == self.crc.value() { State::Ended } else { State::Broken }
    }

    /// Returns how much was read of `bytes`.
    fn inflate(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8])) -> usize {
        let mut buffer = [0u8; BUFFER];
        let mut read = 0usize;
        loop {
            let rest = bytes.get(read..).unwrap_or_default();
            let result = inflate(&mut self.inner, rest, &mut buffer, MZFlush::None);
            read = read.saturating_add(result.bytes_consumed);
            let made = buffer.get(..result.bytes_written).unwrap_or_default();
            self.crc.update(made);
            self.made = self.made.saturating_add(u64::try_from(made.len()).unwrap_or(u64::MAX));
            if self.made > ALLOWANCE.0.saturating_add(self.taken.saturating_mul(ALLOWANCE.1)) {
                self.state = State::Broken;
                return bytes.len();
            }
            out(made);
            match result.status {
                Ok(MZStatus::StreamEnd) => {
                    self.trailer = 0;
                    self.state = if self.zlib { State::Ended } else { State::Trailer(0) };
                    return read;
                }
                Ok(_) if result.bytes_written == BUFFER => {}
                Ok(_) | Err(MZError::Buf) if read >= bytes.len() => return read,
                Ok(_) if result.bytes_consumed > 0 || result.bytes_written > 0 => {}
                _ => {
                    self.state = State::Broken;
                    return bytes.len();
                }
            }
        }
    }
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflater")
            .field("state", &self.state)
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}
