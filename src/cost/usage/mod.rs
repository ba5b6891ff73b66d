//! What a response says it used.
//!
//! [`ResponseMeter`] reads a response while it passes: inflate, framing (events, lines, arrays, binary frames), JSON, usage.
//! Any piece of any size may come at a time; the result is the same. It keeps nothing of the response but numbers:
//! about 5 KiB, and 50 KiB more while it inflates, whatever the size of an event.
//!
//! How the body is framed is decided by its first byte; the label only where the bytes leave it open. Providers
//! label event streams as JSON and answer streaming calls with one document.

use crate::cost::dialect::Dialect;
use crate::cost::text::Family;
use crate::upstream::ErrorEvent;

mod base64;
mod crc;
mod document;
mod eventstream;
mod field;
mod inflate;
pub mod published;
mod reader;
mod sequence;
mod sse;
mod stated;
mod totals;
mod visible;

use eventstream::EventStream;
use inflate::Inflater;
use reader::Reader;
use sequence::Sequence;
use sse::Sse;
pub use stated::LARGEST_USE;

/// LLM tokens that a response states, by the accounting of all dialects alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input, cached and cache-written included; `None` when not stated.
    pub input: Option<u64>,
    /// The part of `input` that came from the provider's prompt cache; at most `input` when that is stated.
    pub cached_input: u64,
    /// The part of `input` that was written to the provider's prompt cache.
    pub cache_write: u64,
    /// All output, reasoning included; `None` when not stated.
    pub output: Option<u64>,
}

impl Usage {
    /// Field by field the larger of both.
    pub fn most(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            cached_input: self.cached_input.max(other.cached_input),
            cache_write: self.cache_write.max(other.cache_write),
            output: self.output.max(other.output),
        }
    }
}

/// What is known of a response before its body.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The API of the call.
    pub dialect: Dialect,
    /// The model of the call. Decides how visible output is counted and how Bedrock's cache counts are read.
    pub model: Option<&'a str>,
    /// Value of `content-type`, empty when absent.
    pub content_type: &'a [u8],
    /// Value of `content-encoding`, empty when absent.
    pub content_encoding: &'a [u8],
    /// The status is 400 or above: the body describes an error, in whatever shape.
    pub failed: bool,
    /// The call asked for a stream.
    pub streams: bool,
}

/// Why a response's usage is not known, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anomaly {
    /// Nothing was stated, or only null, zero or nonsense.
    UsageMissing,
    /// A part was not stated, or something known was nonsense; the rest holds.
    UsagePartial,
    /// The body is compressed in a way that is not read.
    UnreadableEncoding,
    /// A checksum failed, or compressed data was damaged or inflated beyond reason.
    Damaged,
}

/// What a response said, at its end of whatever kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the response states; `None` = unknown.
    pub usage: Option<Usage>,
    /// What stands in for an output that is not stated, LLM tokens: visible output by count, at least what the start of a
    /// stream named; from the size of the body when it could not be read.
    pub output_seen: u64,
    /// An error object was in the body.
    pub error: Option<ErrorEvent>,
    /// Set when `usage` is `None` or not all that there should be.
    pub anomaly: Option<Anomaly>,
    /// Bytes of the body as they passed.
    pub body_bytes: u64,
}

/// How the body is framed.
#[derive(Debug)]
enum Framing {
    /// Nothing but white space, and so many bytes of a byte-order mark, has come.
    Undecided(u8),
    Sequence(Sequence),
    Sse(Sse),
    EventStream(Box<EventStream>),
    /// Something else: counted, not read.
    Opaque,
}

#[derive(Debug)]
enum Encoding {
    /// The label says plain or nothing; the first byte will tell.
    Plain,
    /// The label says so; the first byte will tell.
    Labelled {
        zlib: bool,
    },
    /// Being inflated.
    Inflating(Box<Inflater>),
    /// Bytes that were looked at are plain.
    Settled,
    Unreadable,
}

/// Reads one response. See the module.
#[derive(Debug)]
pub struct ResponseMeter {
    encoding: Encoding,
    framing: Framing,
    reader: Reader,
    failed: bool,
    labelled_frames: bool,
    labelled_events: bool,
    streams: bool,
    cache_inside: bool,
    family: Family,
    body_bytes: u64,
}

/// Bytes of a compressed body that stand for one LLM token: of text, and of a stream of events.
const COMPRESSED_BYTES: (u64, u64) = (2, 12);

impl ResponseMeter {
    /// A meter for a response whose body has not begun.
    pub fn new(head: &ResponseHead<'_>) -> Self {
        let encoding = match head.content_encoding.trim_ascii() {
            b"" => Encoding::Plain,
            label if label.eq_ignore_ascii_case(b"identity") => Encoding::Plain,
            label if label.eq_ignore_ascii_case(b"gzip") || label.eq_ignore_ascii_case(b"x-gzip") => {
                Encoding::Labelled { zlib: false }
            }
            label if label.eq_ignore_ascii_case(b"deflate") => Encoding::Labelled { zlib: true },
            _ => Encoding::Unreadable,
        };
        let model = head.model.unwrap_or_default().as_bytes();
        Self {
            encoding,
            framing: Framing::Undecided(0),
            reader: Reader::new(head.failed),
            failed: head.failed,
            labelled_frames: contains(head.content_type, b"amazon.eventstream"),
            labelled_events: contains(head.content_type, b"event-stream"),
            streams: head.streams,
            cache_inside: head.streams && (contains(model, b"gpt") || contains(model, b"openai")),
            family: Family::of(head.model, head.dialect),
            body_bytes: 0,
        }
    }

    /// Reads the next piece of the body.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.body_bytes = self.body_bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let Some(first) = bytes.first() else { return };
        match (&self.encoding, first) {
            (Encoding::Plain | Encoding::Labelled { zlib: false }, 0x1f) => {
                self.encoding = Encoding::Inflating(Box::new(Inflater::new(false)));
            }
            (Encoding::Labelled { zlib: true }, 0x08 | 0x18 | 0x28 | 0x38 | 0x48 | 0x58 | 0x68 | 0x78) => {
                self.encoding = Encoding::Inflating(Box::new(Inflater::new(true)));
            }
            // A raw deflate stream has no mark to know it by.
            (Encoding::Labelled { zlib: true }, first) if !first.is_ascii_graphic() => {
                self.encoding = Encoding::Unreadable;
            }
            (Encoding::Plain | Encoding::Labelled { .. }, _) => self.encoding = Encoding::Settled,
            _ => {}
        }
        let context = Context {
            failed: self.failed,
            labelled_frames: self.labelled_frames,
            labelled_events: self.labelled_events,
        };
        match &mut self.encoding {
            Encoding::Inflating(inflater) => {
                let (framing, reader) = (&mut self.framing, &mut self.reader);
                inflater.feed(bytes, |part| framing.feed(part, reader, context));
            }
            Encoding::Unreadable => {}
            _ => self.framing.feed(bytes, &mut self.reader, context),
        }
    }

    /// The body has ended, or will not be seen any further. Reports what was said up to here.
    pub fn finish(&mut self) -> Report {
        if let Framing::Sse(sse) = &mut self.framing {
            sse.finish(&mut self.reader);
        } else if matches!(self.framing, Framing::Sequence(_)) {
            self.reader.last();
        }
        let mut totals = self.reader.totals();
        let mut output_seen = totals.visible.llm_tokens(self.family);
        let merged;
        if let Framing::EventStream(stream) = &self.framing {
            let inner = stream.inner().totals();
            output_seen = output_seen.saturating_add(inner.visible.llm_tokens(self.family));
            merged = totals.merged(inner);
            totals = &merged;
        }
        let unreadable = matches!(self.encoding, Encoding::Unreadable) && self.body_bytes > 0;
        let damaged = match (&self.encoding, &self.framing) {
            (Encoding::Inflating(inflater), _) if inflater.is_broken() => true,
            (_, Framing::EventStream(stream)) => stream.is_broken(),
            _ => false,
        };
        if unreadable || (damaged && matches!(self.encoding, Encoding::Inflating(_))) {
            let (text, events) = COMPRESSED_BYTES;
            let bytes = if self.streams || self.labelled_events { events } else { text };
            output_seen = output_seen.max(self.body_bytes.checked_div(bytes).unwrap_or(0));
        }
        let usage = totals.usage(self.cache_inside).filter(|_| !damaged);
        if usage.is_some() {
            output_seen = output_seen.max(totals.placeholder());
        }
        let anomaly = match usage {
            // What states no output and shows none has none: vectors, blocked answers.
            Some(Usage { input: Some(_), output, .. })
                if !totals.has_nonsense() && (output.is_some() || output_seen == 0) =>
            {
                None
            }
            Some(_) => Some(Anomaly::UsagePartial),
            None if unreadable => Some(Anomaly::UnreadableEncoding),
            None if damaged => Some(Anomaly::Damaged),
            None => Some(Anomaly::UsageMissing),
        };
        Report { usage, output_seen, error: totals.error, anomaly, body_bytes: self.body_bytes }
    }
}

#[derive(Clone, Copy)]
struct Context {
    failed: bool,
    labelled_frames: bool,
    labelled_events: bool,
}

impl Framing {
    fn feed(&mut self, mut bytes: &[u8], reader: &mut Reader, context: Context) {
        while let (Self::Undecided(mark), Some((&first, rest))) = (&mut *self, bytes.split_first()) {
            match (*mark, first) {
                // Frames begin with a length, whose first byte is zero.
                (0, 0) if !context.labelled_events => {
                    *self = Self::EventStream(Box::new(EventStream::new(context.failed)));
                }
                _ if context.labelled_frames => {
                    *self = Self::EventStream(Box::new(EventStream::new(context.failed)));
                }
                (0, 0xef) | (1, 0xbb) | (2, 0xbf) => {
                    *mark = mark.saturating_add(1);
                    bytes = rest;
                }
                (1 | 2, _) => *self = Self::Opaque,
                (_, b' ' | b'\t' | b'\r' | b'\n') => bytes = rest,
                (_, b'{' | b'[') => *self = Self::Sequence(Sequence::default()),
                (_, 0..=0x1f | 0x7f..) => *self = Self::Opaque,
                _ => *self = Self::Sse(Sse::new()),
            }
        }
        match self {
            Self::Sequence(sequence) => sequence.feed(bytes, reader),
            Self::Sse(sse) => sse.feed(bytes, reader),
            Self::EventStream(stream) => stream.feed(bytes, reader),
            Self::Undecided(_) | Self::Opaque => {}
        }
    }
}

/// `needle` (lower-case) is in `text`, in whatever case.
fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|part| part.eq_ignore_ascii_case(needle))
}

#[cfg(test)]
mod tests;
