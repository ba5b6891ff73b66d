//! An incremental JSON scanner: bytes in, events out, at every split of the bytes the same events.
//!
//! Bodies reach several megabytes, most of it one string. So there is no document tree and no copy of a string: a
//! [`Visitor`] sees the decoded text in parts that borrow from the input, wherever the host cut it. Memory is the
//! size of [`Scanner`], whatever the input.
//!
//! 1. Containers nest up to [`MAX_DEPTH`]. Deeper ones are counted, not tracked: their strings (keys too), numbers
//!    and literals are still reported, as if they stood at that depth, without `begin` and `end`.
//! 2. Strings are taken as they come: control characters and bytes that are not UTF-8 pass. A lone surrogate escape
//!    becomes U+FFFD.
//! 3. Member names may repeat; which one counts is the visitor's decision (common parsers take the last).
//! 4. A UTF-8 byte-order mark in front is skipped.
//!
//! It does not check number syntax beyond the alphabet, because a wrong number fails later where it is read.

mod find;
mod path;
mod quote;
mod string;
mod visitor;

pub use path::{KEY_BYTES, PATH_LEVELS, Path};
pub use quote::quote;
pub use visitor::{Container, Literal, Visitor};

/// Containers tracked one inside the other; deeper ones are flattened.
///
/// The deepest thing read by name lies at level 8 (an image in a tool result); tool schemas rarely pass 20.
pub const MAX_DEPTH: u32 = 64;

/// Bytes of a number that are kept; the rest is dropped. A longer one is out of every range anyway.
pub const NUMBER_BYTES: usize = 40;

/// Why the input is not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A byte that cannot stand where it stands.
    Unexpected,
    /// The input ended inside the value, or was empty.
    Truncated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the value; so many bytes of a byte-order mark were seen.
    Start(u8),
    /// A value must come.
    Value,
    /// A value or `]` must come.
    FirstElement,
    /// A name or `}` must come.
    FirstKey,
    /// A name must come.
    Key,
    /// `:` must come.
    Colon,
    /// `,` or the end of the container must come.
    AfterValue,
    /// Anywhere below [`MAX_DEPTH`].
    Deep,
    /// Inside a string or a name.
    Text,
    /// After a backslash.
    Escape,
    /// After `\u`, so many digits are missing.
    Hex(u8),
    /// Inside a number.
    Number,
    /// So many bytes of the word were seen.
    Word(Literal, u8),
    /// The value is complete.
    Done,
    /// The input is not JSON.
    Broken,
}

/// Reads one JSON value from bytes that arrive in pieces. Constant memory.
#[derive(Clone, Debug)]
pub struct Scanner {
    state: State,
    /// Bit `d` is set when the container at depth `d` is an object.
    objects: u64,
    /// Open containers, at most [`MAX_DEPTH`].
    depth: u32,
    /// Open containers beyond that.
    deeper: u32,
    /// The string being read is a member's name.
    in_key: bool,
    /// Digits of a `\u` escape read so far.
    hex: u16,
    /// A high surrogate that waits for its low half; 0 = none.
    high: u16,
    number: [u8; NUMBER_BYTES],
    number_len: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner before the first byte.
    pub const fn new() -> Self {
        Self {
            state: State::Start(0),
            objects: 0,
            depth: 0,
            deeper: 0,
            in_key: false,
            hex: 0,
            high: 0,
            number: [0; NUMBER_BYTES],
            number_len: 0,
        }
    }

    /// The value has ended; further bytes belong to something else.
    pub const fn is_complete(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Bytes were refused; nothing more will be read.
    pub const fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken)
    }

    /// Inside a string value at the moment (not a name).
    pub const fn in_string(&self) -> bool {
        matches!(self.state, State::Text | State::Escape | State::Hex(_)) && !self.in_key
    }

    /// A member's name may come next.
    pub(in crate::cost) const fn expects_name(&self) -> bool {
        matches!(self.state, State::FirstKey | State::Key)
    }

    /// A value inside a container has just ended.
    pub(in crate::cost) const fn after_member(&self) -> bool {
        matches!(self.state, State::AfterValue)
    }

    /// Reads on. Returns how many bytes belong to this value, white space around it included.
    ///
    /// Less than `bytes.len()` is returned only when the value ended before: what follows is the next value of a
    /// concatenation (NDJSON), for a new scanner, or garbage.
    ///
    /// # Errors
    /// [`Malformed::Unexpected`], from then on for every call. Events before the bad byte were delivered.
    pub fn feed<V: Visitor>(&mut self, bytes: &[u8], visitor: &mut V) -> Result<usize, Malformed> {
        let mut at = 0_usize;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::Text => {
                    // Which state comes next cannot be foreseen, and asking costs as much as several bytes. So what mostly
                    // stands between two strings is taken without.
                    while self.state == State::Text && at < bytes.len() {
                        at = at.saturating_add(self.text(bytes.get(at..).unwrap_or_default(), visitor));
                        at = at.saturating_add(self.between(bytes.get(at..).unwrap_or_default()));
                    }
                    continue;
                }
                State::Number => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    at = at.saturating_add(self.digits(rest, visitor));
                    continue;
                }
                State::Start(seen) => match (seen, byte) {
                    (0, 0xef) | (1, 0xbb) => self.state = State::Start(seen.saturating_add(1)),
                    (2, 0xbf) => self.state = State::Value,
                    (0, _) => {
                        self.state = State::Value;
                        continue;
                    }
                    _ => return self.refuse(),
                },
                State::Escape => self.escape(byte, visitor)?,
                State::Hex(missing) => self.hex_digit(byte, missing, visitor)?,
                State::Word(word, seen) => self.word(byte, word, seen, visitor)?,
                State::Broken => return Err(Malformed::Unexpected),
                State::Done => {
                    if !is_space(byte) {
                        return Ok(at);
                    }
                }
                _ if is_space(byte) => {}
                State::Value => self.value(byte, visitor)?,
                State::FirstElement if byte == b']' => self.close(Container::Array, visitor)?,
                State::FirstElement => self.value(byte, visitor)?,
                State::FirstKey if byte == b'}' => self.close(Container::Object, visitor)?,
                State::FirstKey | State::Key if byte == b'"' => {
                    self.in_key = true;
                    self.state = State::Text;
                }
                State::Colon if byte == b':' => self.state = State::Value,
                State::AfterValue => self.after_value(byte, visitor)?,
                State::Deep => self.deep(byte, visitor)?,
                _ => return self.refuse(),
            }
            at = at.saturating_add(1);
        }
        Ok(bytes.len())
    }

    /// The input has ended.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] when the value is not complete, [`Malformed::Unexpected`] when it was refused before.
    pub fn finish<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), Malformed> {
        if self.state == State::Number && self.depth == 0 {
            self.end_number(visitor);
        }
        match self.state {
            State::Done => Ok(()),
            State::Broken => Err(Malformed::Unexpected),
            _ => Err(Malformed::Truncated),
        }
    }

    fn refuse<T>(&mut self) -> Result<T, Malformed> {
        self.state = State::Broken;
        Err(Malformed::Unexpected)
    }

    const fn in_object(&self) -> bool {
        self.objects & 1 != 0
    }

    const fn settle_value(&mut self) {
        self.state = if self.deeper > 0 {
            State::Deep
        } else if self.depth == 0 {
            State::Done
        } else {
            State::AfterValue
        };
    }

    #[inline]
    fn value<V: Visitor>(&mut self, byte: u8, visitor: &mut V) -> Result<(), Malformed> {
        match byte {
            b'"' => {
                self.in_key = false;
                self.state = State::Text;
            }
            b'{' => self.open(Container::Object, visitor),
            b'[' => self.open(Container::Array, visitor),
            b't' => self.state = State::Word(Literal::True, 1),
            b'f' => self.state = State::Word(Literal::False, 1),
            b'n' => self.state = State::Word(Literal::Null, 1),
            b'-' | b'0'..=b'9' => {
                self.number_len = 0;
                self.keep_digits(&[byte]);
                self.state = State::Number;
            }
            _ => return self.refuse(),
        }
        Ok(())
    }

    fn open<V: Visitor>(&mut self, container: Container, visitor: &mut V) {
        if self.depth >= MAX_DEPTH {
            self.deeper = self.deeper.saturating_add(1);
            self.state = State::Deep;
            return;
        }
        self.depth = self.depth.saturating_add(1);
        let object = container == Container::Object;
        self.objects = (self.objects << 1) | u64::from(object);
        self.state = if object { State::FirstKey } else { State::FirstElement };
        visitor.begin(container);
    }

    fn close<V: Visitor>(&mut self, container: Container, visitor: &mut V) -> Result<(), Malformed> {
        if self.depth == 0 || self.in_object() != (container == Container::Object) {
            return self.refuse();
        }
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        self.settle_value();
        visitor.end(container);
        Ok(())
    }

    #[inline]
    fn after_value<V: Visitor>(&mut self, byte: u8, visitor: &mut V) -> Result<(), Malformed> {
        match byte {
            b',' => self.state = if self.in_object() { State::Key } else { State::Value },
            b'}' => self.close(Container::Object, visitor)?,
            b']' => self.close(Container::Array, visitor)?,
            _ => return self.refuse(),
        }
        Ok(())
    }

    /// Takes `:` or `,` behind a string from `rest`, a blank and the quote of the next string; returns how many bytes. As the
    /// states would one by one, none of which tells the visitor anything. One copy of it serves all visitors.
    #[inline(never)]
    fn between(&mut self, rest: &[u8]) -> usize {
        self.state = match (self.state, rest.first()) {
            (State::Colon, Some(b':')) => State::Value,
            (State::AfterValue, Some(b',')) if self.in_object() => State::Key,
            _ => return 0,
        };
        let quote = if rest.get(1) == Some(&b' ') { 2_usize } else { 1 };
        if rest.get(quote) != Some(&b'"') {
            return quote;
        }
        self.in_key = self.state == State::Key;
        self.state = State::Text;
        quote.saturating_add(1)
    }

    fn deep<V: Visitor>(&mut self, byte: u8, visitor: &mut V) -> Result<(), Malformed> {
        match byte {
            b',' | b':' => Ok(()),
            b'}' | b']' => {
                self.deeper = self.deeper.saturating_sub(1);
                self.settle_value();
                Ok(())
            }
            _ => self.value(byte, visitor),
        }
    }

    fn word<V: Visitor>(
        &mut self,
        byte: u8,
        word: Literal,
        seen: u8,
        visitor: &mut V,
    ) -> Result<(), Malformed> {
        if word.text().get(usize::from(seen)) != Some(&byte) {
            return self.refuse();
        }
        let seen = seen.saturating_add(1);
        if usize::from(seen) == word.text().len() {
            self.settle_value();
            visitor.literal(word);
        } else {
            self.state = State::Word(word, seen);
        }
        Ok(())
    }

    /// Takes the number's bytes from `rest`; returns how many.
    fn digits<V: Visitor>(&mut self, rest: &[u8], visitor: &mut V) -> usize {
        let ends =
            rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        let run = ends.unwrap_or(rest.len());
        self.keep_digits(rest.get(..run).unwrap_or_default());
        if ends.is_some() {
            self.end_number(visitor);
        }
        run
    }

    fn keep_digits(&mut self, digits: &[u8]) {
        let room = self.number.get_mut(self.number_len..).unwrap_or_default();
        let kept = digits.len().min(room.len());
        for (place, digit) in room.iter_mut().zip(digits) {
            *place = *digit;
        }
        self.number_len = self.number_len.saturating_add(kept);
    }

    fn end_number<V: Visitor>(&mut self, visitor: &mut V) {
        self.settle_value();
        visitor.number(self.number.get(..self.number_len).unwrap_or_default());
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests;
