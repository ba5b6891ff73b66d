//! Strings in a request body: what each is, and where it goes.

use super::body::Body;
use super::fields::{self, Mode};
use super::files::{self, Found};
use super::start::Start;
use crate::cost::dialect::{Dialect, Operation};
use crate::cost::media::{Detail, Format, Reader};

/// Bytes of a string looked at to tell what it is. Long enough for `data:` with a media type and parameters.
pub(super) const HEAD: usize = 96;

/// What the string at hand is.
pub(super) enum Sink {
    /// Between strings.
    None,
    Ignore,
    /// Its head is being collected.
    Undecided,
    Text,
    Model,
    Detail,
    /// Base64 of what its place says is of this format.
    File(Box<Reader>, Format),
}

impl Body {
    /// Takes a part of a string value.
    pub(super) fn string_part(&mut self, part: &[u8], last: bool) {
        if matches!(self.sink, Sink::None) {
            self.sink = self.open_string();
        }
        let mut rest = part;
        if matches!(self.sink, Sink::Undecided) {
            if self.head.is_empty() && (last || part.len() >= HEAD) {
                let (head, more) = part.split_at_checked(HEAD).unwrap_or((part, &[]));
                self.decide(head);
                rest = more;
            } else {
                rest = self.head.fill(part);
                if last || self.head.is_full() {
                    let head = std::mem::replace(&mut self.head, Start::new());
                    self.decide(head.bytes());
                }
            }
        }
        if !rest.is_empty() {
            self.part(rest);
        }
        if last {
            self.close_string();
        }
    }

    /// A string begins: what may it be?
    fn open_string(&mut self) -> Sink {
        self.forget();
        if self.path.is(&["model"]) {
            return Sink::Model;
        }
        if self.operation == Operation::Completions && self.path.is(&["prompt", "*"]) {
            self.prompts = self.prompts.saturating_add(1);
        }
        if self.mode == Mode::Skip || self.hidden_from.is_some() {
            return Sink::Ignore;
        }
        self.head = Start::new();
        if self.is_json() {
            self.json_gap();
            self.text.feed(b"\"");
        } else if self.place() == b"detail" {
            return Sink::Detail;
        } else if self.path.last_name().is_some_and(fields::is_opaque) {
            return Sink::Ignore;
        }
        Sink::Undecided
    }

    /// Tells by its head what the string is, and hands the head on.
    fn decide(&mut self, head: &[u8]) {
        let holder = match self.path.depth().checked_sub(2).and_then(|level| self.path.name(level)) {
            // Interactions have no object around a file.
            None if self.row.dialect == Dialect::Gemini => b"source",
            holder => holder.unwrap_or_default(),
        };
        // The one file among tools.
        let is_mask = self.path.is(&["tools", "*", "input_image_mask", "image_url"]);
        let is_text = self.is_json() && !is_mask || fields::is_spoken(self.place(), self.operation);
        let found =
            if is_text { Found::Text } else { files::recognise(head, self.place(), holder, self.operation) };
        self.sink = match found {
            Found::Text => {
                self.text.feed(head);
                Sink::Text
            }
            Found::Opaque => Sink::Ignore,
            Found::Referred(item) => {
                self.files.add(item, self.path.depth());
                Sink::Ignore
            }
            Found::Base64 { start, expected } => {
                let mut reader = Box::<Reader>::default();
                reader.feed(head.get(start..).unwrap_or_default());
                Sink::File(reader, expected)
            }
        };
    }

    fn part(&mut self, part: &[u8]) {
        match &mut self.sink {
            Sink::None | Sink::Ignore | Sink::Undecided => {}
            Sink::Text => self.text.feed(part),
            Sink::Model => {
                self.model.fill(part);
            }
            Sink::Detail => {
                self.head.fill(part);
            }
            Sink::File(reader, _) => reader.feed(part),
        }
    }

    fn close_string(&mut self) {
        match std::mem::replace(&mut self.sink, Sink::None) {
            Sink::File(reader, expected) => {
                self.files.bytes = self.files.bytes.saturating_add(reader.length());
                self.files.add(reader.item(expected), self.path.depth());
            }
            Sink::Detail => self.files.detail(Detail::of(self.head.bytes()), self.path.depth()),
            Sink::Model | Sink::None | Sink::Ignore | Sink::Undecided | Sink::Text => {}
        }
        if self.is_json() {
            self.text.feed(b"\"");
            self.comma = true;
        } else {
            self.text.cut();
        }
    }
}
