//! One JSON document of a response: usage, visible output, errors.
//!
//! A document counts only as a whole: its numbers wait in `pending` until the reader calls [`Document::commit`]. Half an
//! event, or one in a damaged frame, states nothing. What a caller saw of it was seen all the same.

use crate::cost::json::{Container, Literal, Path, Visitor};
use crate::upstream::ErrorEvent;

use super::field::{self, Place};
use super::stated::{Field, Stated, amount};
use super::totals::Totals;
use super::visible::{Twins, is_visible};

/// Choices whose counts are kept apart; `n` is at most 128 where it is limited at all.
const MAX_CHOICES: usize = 128;
/// Bytes of an error's text that are looked at.
const NOTE_BYTES: usize = 512;

/// What is done with the string at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    Nothing,
    Visible,
    Word,
    Message,
    Delay,
    Quota,
    Payload,
}

/// Receives the bytes of a base64 string that holds a document of its own.
pub(super) trait Payload {
    /// A part of the base64 text.
    fn part(&mut self, text: &[u8]);
}

impl Payload for () {
    fn part(&mut self, _text: &[u8]) {}
}

/// State of the document at hand, and of the whole response.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) totals: Totals,
    twins: Twins,
    path: Path,
    /// 1 when the root is an array of documents.
    base: usize,
    usage: Option<(usize, Place)>,
    taking: Option<Take>,
    note: [u8; NOTE_BYTES],
    note_len: usize,
    pending: Pending,
    /// The whole response is known to be an error, whatever its shape.
    response_failed: bool,
    /// The same of the document at hand.
    failed: bool,
}

/// What the document at hand states so far.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    stated: Stated,
    choice: Option<u64>,
    choices: u32,
    error: ErrorEvent,
    is_error: bool,
    nonsense: bool,
    ended: bool,
}

impl Document {
    pub(super) fn new(failed: bool) -> Self {
        Self {
            totals: Totals::default(),
            twins: Twins::default(),
            path: Path::new(),
            base: 0,
            usage: None,
            taking: None,
            note: [0; NOTE_BYTES],
            note_len: 0,
            pending: Pending::default(),
            response_failed: failed,
            failed,
        }
    }

    /// The document's numbers become the response's.
    pub(super) fn commit(&mut self) {
        if !self.pending.ended {
            return;
        }
        let mut event = std::mem::take(&mut self.pending);
        let totals = &mut self.totals;
        totals.documents = totals.documents.saturating_add(1);
        event.stated.close_event();
        if let Some(completion) = event.stated.get(Field::Completion) {
            match event.choice.filter(|_| event.choices == 1).map(usize::try_from) {
                Some(Ok(choice)) if choice < MAX_CHOICES => {
                    if totals.per_choice.len() <= choice {
                        totals.per_choice.resize(choice.saturating_add(1), 0);
                    }
                    if let Some(known) = totals.per_choice.get_mut(choice) {
                        *known = (*known).max(completion);
                    }
                }
                _ => totals.whole_stated = true,
            }
        }
        totals.stated.merge(&event.stated);
        totals.nonsense |= event.nonsense;
        if event.is_error {
            let error = totals.error.get_or_insert_default();
            error.merge(&event.error);
        }
    }

    /// Forgets the document at hand (not what was seen of it) and expects a new one.
    pub(super) fn restart(&mut self) {
        self.path = Path::new();
        self.base = 0;
        self.usage = None;
        self.taking = None;
        self.pending = Pending::default();
        self.failed = self.response_failed;
    }

    /// The framing says that the document at hand is an error, perhaps of this type.
    pub(super) fn fail(&mut self, word: &[u8]) {
        self.failed = true;
        self.pending.is_error = true;
        self.pending.ended = true;
        self.pending.error.see_word(word);
    }

    const fn depth(&self) -> usize {
        self.path.depth().saturating_sub(self.base)
    }

    /// Inside an object that describes an error.
    fn in_error(&self) -> bool {
        let Some(root) = self.path.name(self.base) else { return false };
        match root {
            b"error" => true,
            b"response" | b"delta" => {
                self.path.name(self.base.saturating_add(1)).is_some_and(|name| name == b"error")
            }
            _ => false,
        }
    }

    fn decide(&self) -> Take {
        let Some(name) = self.path.last_name() else {
            return if is_visible(&self.path, self.base) { Take::Visible } else { Take::Nothing };
        };
        let in_error = self.in_error();
        if self.depth() == 1 && name == b"bytes" {
            return Take::Payload;
        }
        if in_error || self.failed || (self.depth() == 1 && self.pending.is_error) {
            match name {
                b"type" | b"code" | b"status" | b"error_type" | b"error_code" | b"reason" | b"__type" => {
                    return Take::Word;
                }
                b"message" | b"error" | b"detail" | b"msg" => return Take::Message,
                b"retryDelay" | b"retry_after" => return Take::Delay,
                b"quotaId" => return Take::Quota,
                _ => {}
            }
            if in_error {
                return Take::Nothing;
            }
        }
        if self.depth() == 1 && name == b"type" {
            return Take::Word;
        }
        if is_visible(&self.path, self.base) { Take::Visible } else { Take::Nothing }
    }

    fn keep(&mut self, part: &[u8]) {
        let room = self.note.get_mut(self.note_len..).unwrap_or_default();
        let kept = part.len().min(room.len());
        for (place, byte) in room.iter_mut().zip(part) {
            *place = *byte;
        }
        self.note_len = self.note_len.saturating_add(kept);
    }

    fn noted(&mut self, take: Take) {
        let root_type = self.depth() == 1 && self.path.last_name() == Some(b"type") && !self.failed;
        let in_error = self.in_error();
        let text = self.note.get(..self.note_len).unwrap_or_default();
        self.note_len = 0;
        match take {
            Take::Word if root_type => self.pending.is_error |= text == b"error",
            Take::Word => self.pending.error.see_word(text),
            Take::Message => {
                // Some servers send an empty text with every answer that is none.
                self.pending.is_error |= in_error && !text.is_empty();
                self.pending.error.see_message(text);
            }
            Take::Delay => self.pending.error.see_delay(text),
            Take::Quota if text.windows(6).any(|part| part == b"PerDay") => {
                self.pending.error.see_word(b"insufficient_quota");
            }
            _ => {}
        }
    }

    /// What an amount at the present place states; true when it is a part of a sum.
    fn stated_here(&self) -> Option<(Field, bool)> {
        let name = self.path.last_name()?;
        let Some((depth, place)) = self.usage else {
            return field::root(name).filter(|_| self.depth() == 1).map(|field| (field, false));
        };
        let below = self.path.depth().saturating_sub(depth);
        let parent = self.path.depth().checked_sub(2).and_then(|level| self.path.name(level));
        match (below, parent) {
            (1, _) => field::direct(place, name).map(|field| (field, false)),
            (2, Some(parent)) => field::nested(parent, name).map(|field| (field, false)),
            (3, None) if self.path.name(depth) == Some(b"iterations") => {
                field::iteration(name).map(|field| (field, true))
            }
            _ => None,
        }
    }

    /// Takes note of a number that may state something; true when it does.
    fn state(&mut self, text: &[u8]) -> bool {
        let Some((field, is_part)) = self.stated_here() else { return self.usage.is_some() };
        match amount(text) {
            Some(value) if is_part => self.pending.stated.add(field, value),
            Some(value) => self.pending.stated.raise(field, value),
            None => self.pending.nonsense = true,
        }
        true
    }

    /// A value that is no number begins.
    fn no_number(&mut self) {
        self.pending.nonsense |= self.stated_here().is_some();
    }

    fn is_choice_element(&self) -> bool {
        self.depth() == 2 && self.path.last_name().is_none() && self.path.name(self.base) == Some(b"choices")
    }

    /// One part of a string value, with the place for a payload inside it.
    pub(super) fn string_part(&mut self, part: &[u8], last: bool, payload: &mut impl Payload) {
        let take = match self.taking {
            Some(take) => take,
            None => {
                self.note_len = 0;
                self.no_number();
                match self.decide() {
                    Take::Visible if !part.is_empty() && self.twins.repeats(&self.path, self.base) => {
                        Take::Nothing
                    }
                    take => take,
                }
            }
        };
        // An empty part does not tell whether the string has text.
        self.taking = (!last && !part.is_empty()).then_some(take);
        match take {
            Take::Nothing => {}
            Take::Visible => self.totals.visible.string(part, last),
            Take::Payload => payload.part(part),
            Take::Word | Take::Message | Take::Delay | Take::Quota => {
                self.keep(part);
                if last {
                    self.noted(take);
                }
            }
        }
    }
}

impl Document {
    fn begin(&mut self, container: Container) {
        if self.path.depth() == 0 && container == Container::Array {
            self.base = 1;
        }
        self.no_number();
        if container == Container::Object {
            if self.usage.is_none()
                && let Some(place) = field::place(&self.path, self.base)
            {
                self.usage = Some((self.path.depth(), place));
            }
            if self.is_choice_element() {
                self.pending.choices = self.pending.choices.saturating_add(1);
            }
            if self.path.last_name() == Some(b"error") && self.in_error() {
                self.pending.is_error = true;
            }
        }
        self.path.begin(container);
    }

    fn end(&mut self, _container: Container) {
        self.path.end();
        if self.usage.is_some_and(|(depth, _)| depth == self.path.depth()) {
            self.usage = None;
        }
        if self.path.depth() == self.base {
            self.pending.ended = true;
            self.pending.is_error |= self.failed;
            if self.base == 1 {
                self.commit();
            }
        }
    }

    fn key(&mut self, part: &[u8], last: bool) {
        self.path.key(part, last);
    }

    fn number(&mut self, text: &[u8]) {
        if self.state(text) {
            return;
        }
        let Some(name) = self.path.last_name() else { return };
        if name == b"index" && self.depth() == 3 && self.path.name(self.base) == Some(b"choices") {
            self.pending.choice = amount(text);
        } else if self.failed || self.in_error() {
            match name {
                b"code" | b"status" => self.pending.error.see_word(text),
                b"retry_after" => self.pending.error.see_delay(text),
                _ => {}
            }
        }
    }
}

/// Forwards to a document, and the payload inside it to its own reader.
pub(super) struct WithPayload<'a, P> {
    pub(super) document: &'a mut Document,
    pub(super) payload: &'a mut P,
}

impl<P: Payload> Visitor for WithPayload<'_, P> {
    fn begin(&mut self, container: Container) {
        self.document.begin(container);
    }
    fn end(&mut self, container: Container) {
        self.document.end(container);
    }
    fn key(&mut self, part: &[u8], last: bool) {
        self.document.key(part, last);
    }
    fn string(&mut self, part: &[u8], last: bool) {
        self.document.string_part(part, last, self.payload);
    }
    fn number(&mut self, text: &[u8]) {
        self.document.number(text);
    }
    fn literal(&mut self, literal: Literal) {
        // Null says that nothing is said.
        if literal != Literal::Null {
            self.document.no_number();
        }
    }
}
