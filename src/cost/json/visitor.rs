//! What the scanner tells, and to whom.

/// What may hold other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// `{ }`
    Object,
    /// `[ ]`
    Array,
}

/// The three words of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

impl Literal {
    pub(super) const fn text(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

/// Receives the events. Every method does nothing unless overridden.
pub trait Visitor {
    /// A container opens.
    fn begin(&mut self, _container: Container) {}
    /// The innermost open container closes.
    fn end(&mut self, _container: Container) {}
    /// A part of a member's name, decoded; `last` marks the end of the name (the part may then be empty).
    fn key(&mut self, _part: &[u8], _last: bool) {}
    /// A part of a string value, decoded; `last` marks the end of the string (the part may then be empty).
    ///
    /// A part may end inside a UTF-8 sequence where the input was cut.
    fn string(&mut self, _part: &[u8], _last: bool) {}
    /// The escape whose text the last part was, or which waits for its other half, was so many bytes longer.
    fn escape(&mut self, _extra: usize) {}
    /// How many further bytes of the string value at hand need not be decoded.
    fn unread(&self) -> usize {
        0
    }
    /// So many bytes of the string value at hand, as written, passed undecoded: at most [`Self::unread`], and the
    /// rest of an escape.
    fn skipped(&mut self, _bytes: usize) {}
    /// A number, as written, at most [`super::NUMBER_BYTES`] of it.
    fn number(&mut self, _text: &[u8]) {}
    /// `true`, `false` or `null`.
    fn literal(&mut self, _literal: Literal) {}
}
