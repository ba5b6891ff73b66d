//! Server-sent events, by the grammar of the HTML standard and a little more leniently.
//!
//! Lines end with LF, CRLF or CR. A byte-order mark, comments, empty events, fields without a space after the colon and
//! without a colon are all legal. More lenient: the last event needs no blank line, and events that nothing separates are
//! told apart by their JSON. Data goes to the scanner as it comes, so an event may be of any size.

use super::reader::Reader;

/// Field names and the event's name are kept up to this length; longer ones are unknown ones.
const NAME_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a line.
    Line,
    /// In the name of a field.
    Name,
    /// After the colon of a field that matters: data or the event's name.
    Colon(Field),
    /// In its value.
    Value(Field),
    /// In a line that does not matter.
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
}

/// Where in the stream the reader is.
#[derive(Clone, Debug)]
pub(super) struct Sse {
    state: State,
    /// The last byte was a CR, of which a LF may be the other half.
    after_cr: bool,
    /// The event has data already.
    has_data: bool,
    name: [u8; NAME_BYTES],
    name_len: usize,
}

impl Sse {
    pub(super) const fn new() -> Self {
        Self { state: State::Line, after_cr: false, has_data: false, name: [0; NAME_BYTES], name_len: 0 }
    }

    /// Reads on.
    pub(super) fn feed(&mut self, mut bytes: &[u8], reader: &mut Reader) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                bytes = rest;
                continue;
            }
            match self.state {
                State::Line => {
                    if is_end(byte) {
                        self.dispatch(reader);
                        self.after_cr = byte == b'\r';
                        bytes = rest;
                    } else {
                        self.name_len = 0;
                        self.state = State::Name;
                    }
                }
                State::Name => {
                    bytes = rest;
                    if byte == b':' {
                        self.state = match self.name() {
                            Some(b"data") => State::Colon(Field::Data),
                            Some(b"event") => State::Colon(Field::Event),
                            _ => State::Skip,
                        };
                    } else if is_end(byte) {
                        self.end_line(byte);
                    } else {
                        self.keep(&[byte]);
                    }
                }
                State::Colon(field) => {
                    if byte == b' ' {
                        bytes = rest;
                    }
                    self.state = State::Value(field);
                    self.name_len = 0;
                    if field == Field::Data {
                        if self.has_data {
                            reader.feed(b"\n");
                        }
                        self.has_data = true;
                    }
                }
                State::Value(_) | State::Skip => {
                    let end = bytes.iter().position(|byte| is_end(*byte)).unwrap_or(bytes.len());
                    let (value, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
                    match self.state {
                        State::Value(Field::Data) => reader.feed(value),
                        State::Value(Field::Event) => self.keep(value),
                        _ => {}
                    }
                    bytes = rest;
                    if let Some((&byte, rest)) = bytes.split_first() {
                        if self.state == State::Value(Field::Event) && self.name() == Some(b"error") {
                            reader.fail(b"");
                        }
                        self.end_line(byte);
                        bytes = rest;
                    }
                }
            }
        }
    }

    /// The stream has ended; what it said last counts without its blank line.
    pub(super) fn finish(&mut self, reader: &mut Reader) {
        self.dispatch(reader);
    }

    fn dispatch(&mut self, reader: &mut Reader) {
        self.has_data = false;
        reader.next();
    }

    fn end_line(&mut self, byte: u8) {
        self.after_cr = byte == b'\r';
        self.state = State::Line;
    }

    fn name(&self) -> Option<&[u8]> {
        self.name.get(..self.name_len)
    }

    fn keep(&mut self, part: &[u8]) {
        for byte in part.iter().take(NAME_BYTES) {
            if let Some(place) = self.name.get_mut(self.name_len) {
                *place = *byte;
            }
            self.name_len = self.name_len.saturating_add(1);
        }
        self.name_len = self.name_len.min(NAME_BYTES.saturating_add(1));
    }
}

const fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
