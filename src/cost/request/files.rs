//! Pictures, sound and documents inside a body: telling them from text, and keeping their list.

use super::fields;
use super::strings::HEAD;
use crate::cost::dialect::{Dialect, Operation};
use crate::cost::media::{self, DEFAULT_LLM_TOKENS, Detail, Format, Item};

/// The shortest base64 taken for a file; shorter could as well be a word.
const SHORTEST: usize = 16;

/// What a string is.
pub(super) enum Found {
    Text,
    /// Not shown to the model.
    Opaque,
    /// A file that is elsewhere.
    Referred(Item),
    /// A file, from byte `start` of the string.
    Base64 {
        start: usize,
        expected: Format,
    },
}

/// Tells what a string is by its head, its name and the name of the member that holds it.
///
/// Not for strings that the model reads as they are, see [`fields::is_spoken`].
pub(super) fn recognise(head: &[u8], name: &[u8], holder: &[u8], operation: Operation) -> Found {
    if let Some((start, expected)) = data_url(head) {
        return Found::Base64 { start, expected };
    }
    let placed = || match by_word(name) {
        Format::Unknown => by_word(holder),
        format => format,
    };
    if fields::is_file(name, operation) && head.len() >= SHORTEST && media::looks_like_base64(head) {
        return if fields::holds_files(name, holder) {
            Found::Base64 { start: 0, expected: placed() }
        } else {
            Found::Opaque
        };
    }
    let elsewhere = [&b"http://"[..], b"https://", b"gs://", b"s3://", b"file-", b"files/"];
    let is_elsewhere = || elsewhere.iter().any(|scheme| head.starts_with(scheme));
    // Ids of files look different at each provider.
    if (name == b"file_id" && !head.is_empty()) || (fields::is_reference(name, holder) && is_elsewhere()) {
        return Found::Referred(Item::referred(placed()));
    }
    Found::Text
}

/// Where the base64 of a `data:` URL begins, and what its media type says. Scheme and `base64` in whatever case.
///
/// Parameters in front may be longer than the head that is looked at: then the head is taken for nothing else.
fn data_url(head: &[u8]) -> Option<(usize, Format)> {
    let (scheme, inline) = head.split_at_checked(b"data:".len())?;
    if !scheme.eq_ignore_ascii_case(b"data:") {
        return None;
    }
    let marker = b";base64,";
    let Some(at) = inline.windows(marker.len()).position(|window| window.eq_ignore_ascii_case(marker)) else {
        let goes_on = head.len() >= HEAD && inline.contains(&b';') && !inline.contains(&b',');
        return goes_on.then(|| (head.len(), by_word(inline)));
    };
    Some((at.saturating_add(marker.len()).saturating_add(scheme.len()), by_word(inline)))
}

/// The format that a media type, a member's name or its holder's names.
fn by_word(word: &[u8]) -> Format {
    let starts = |words: &[&str]| words.iter().any(|start| word.starts_with(start.as_bytes()));
    if starts(&["image", "input_image", "inputImage"]) {
        Format::Image
    } else if starts(&["audio", "input_audio"]) {
        Format::Sound
    } else if starts(&["video"]) {
        Format::Video
    } else if starts(&["application/pdf", "document", "file_data", "file_url"]) {
        Format::Document
    } else {
        Format::Unknown
    }
}

/// The files of a body. Bounded memory.
#[derive(Default)]
pub(super) struct Files {
    items: Vec<Item>,
    /// Items beyond those remembered.
    further: u64,
    /// The item that a `detail` beside it may still change, and the depth of its members.
    pending: Option<(Item, usize)>,
    /// A `detail` that came before its item.
    detail: Detail,
    /// Bytes of base64.
    pub(super) bytes: u64,
}

impl Files {
    /// An item among members at `depth`.
    pub(super) fn add(&mut self, item: Item, depth: usize) {
        self.keep_pending();
        self.pending = Some((Item { detail: self.detail, ..item }, depth));
    }

    /// A `detail` among members at `depth`.
    pub(super) fn detail(&mut self, detail: Detail, depth: usize) {
        match &mut self.pending {
            Some((item, place)) if *place == depth => item.detail = detail,
            _ => self.detail = detail,
        }
    }

    /// A container opens.
    pub(super) const fn scope(&mut self) {
        self.detail = Detail::Auto;
    }

    /// The container whose members are at `depth` closes.
    pub(super) fn settle(&mut self, depth: usize) {
        if self.pending.as_ref().is_some_and(|(_, place)| *place >= depth) {
            self.keep_pending();
        }
        self.detail = Detail::Auto;
    }

    fn keep_pending(&mut self) {
        if let Some((item, _)) = self.pending.take() {
            if self.items.len() < media::ITEMS {
                self.items.push(item);
            } else {
                self.further = self.further.saturating_add(1);
            }
        }
    }

    /// What they cost together.
    pub(super) fn llm_tokens(&self, model: Option<&str>, shape: Dialect) -> u64 {
        let pending = self.pending.iter().map(|(item, _)| item);
        self.items
            .iter()
            .chain(pending)
            .fold(0_u64, |sum, item| sum.saturating_add(item.llm_tokens(model, shape)))
            .saturating_add(self.further.saturating_mul(DEFAULT_LLM_TOKENS))
    }
}
