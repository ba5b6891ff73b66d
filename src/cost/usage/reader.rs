//! Feeds document after document to one scanner.

use crate::cost::json::Scanner;

use super::document::{Document, Payload, WithPayload};
use super::totals::Totals;

/// A scanner with the documents it has read.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    scanner: Scanner,
    document: Document,
    /// Bytes of the document at hand were read.
    begun: bool,
    /// The framing says that the document at hand is an error.
    failing: bool,
}

impl Reader {
    pub(super) fn new(failed: bool) -> Self {
        Self { scanner: Scanner::new(), document: Document::new(failed), begun: false, failing: false }
    }

    pub(super) const fn totals(&self) -> &Totals {
        &self.document.totals
    }

    /// The document at hand was refused: it is not JSON.
    pub(super) const fn is_broken(&self) -> bool {
        self.scanner.is_broken()
    }

    /// Reads on; documents may follow each other directly.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.feed_with(bytes, &mut ());
    }

    /// The same, with a place for a payload inside the documents.
    pub(super) fn feed_with(&mut self, mut bytes: &[u8], payload: &mut impl Payload) {
        self.begun |= !bytes.is_empty();
        while !bytes.is_empty() {
            let mut visitor = WithPayload { document: &mut self.document, payload: &mut *payload };
            let Ok(read) = self.scanner.feed(bytes, &mut visitor) else { return };
            if read == bytes.len() {
                return;
            }
            self.next();
            self.begun = true;
            bytes = bytes.get(read..).unwrap_or_default();
        }
    }

    /// The document at hand ends here. It counts when it is complete; a new one begins.
    pub(super) fn next(&mut self) {
        if self.begun {
            self.last();
            self.discard();
        }
    }

    /// The document at hand ends here and counts when it is complete; none follows.
    pub(super) fn last(&mut self) {
        if self.begun && (self.scanner.is_complete() || self.failing) {
            self.document.commit();
        }
        self.begun = false;
    }

    /// The document at hand counts for nothing; a new one begins.
    pub(super) fn discard(&mut self) {
        self.scanner = Scanner::new();
        self.document.restart();
        self.begun = false;
        self.failing = false;
    }

    /// The document at hand is an error, says the framing.
    pub(super) fn fail(&mut self, word: &[u8]) {
        self.begun = true;
        self.failing = true;
        self.document.fail(word);
    }
}
