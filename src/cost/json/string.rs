//! The inside of strings and names: plain runs and escapes.

use super::{Malformed, Scanner, State, Visitor, find};

/// Of the six bytes of an escaped high surrogate, those that are told when its low half, or U+FFFD, comes.
const SURROGATE_OWES: usize = 3;

impl Scanner {
    /// Takes a plain run of a string and what ends it from `rest`; returns how many bytes.
    #[inline]
    pub(super) fn text<V: Visitor>(&mut self, rest: &[u8], visitor: &mut V) -> usize {
        if !self.in_key {
            let unread = find::unread_run(rest, visitor.unread());
            if unread > 0 {
                let owed = if self.high == 0 { 0 } else { SURROGATE_OWES };
                self.high = 0;
                visitor.skipped(unread.saturating_add(owed));
                if rest.get(unread) != Some(&b'"') {
                    return unread;
                }
                self.emit(&[], true, visitor);
                self.settle_value();
                return unread.saturating_add(1);
            }
        }
        let run = find::plain_run(rest);
        let part = rest.get(..run).unwrap_or(rest);
        match rest.get(run) {
            Some(b'"') => {
                self.flush_surrogate(visitor);
                self.emit(part, true, visitor);
                if self.in_key {
                    self.state = State::Colon;
                } else {
                    self.settle_value();
                }
            }
            ended => {
                if !part.is_empty() {
                    self.flush_surrogate(visitor);
                    self.emit(part, false, visitor);
                }
                if ended.is_none() {
                    return run;
                }
                self.state = State::Escape;
            }
        }
        run.saturating_add(1)
    }

    #[inline]
    fn emit<V: Visitor>(&self, part: &[u8], last: bool, visitor: &mut V) {
        if self.in_key { visitor.key(part, last) } else { visitor.string(part, last) }
    }

    fn flush_surrogate<V: Visitor>(&mut self, visitor: &mut V) {
        if self.high != 0 {
            self.high = 0;
            self.emit("\u{fffd}".as_bytes(), false, visitor);
        }
    }

    pub(super) fn escape<V: Visitor>(&mut self, byte: u8, visitor: &mut V) -> Result<(), Malformed> {
        let decoded: &[u8] = match byte {
            b'u' => {
                self.hex = 0;
                self.state = State::Hex(4);
                return Ok(());
            }
            b'n' => b"\n",
            b'"' => b"\"",
            b'\\' => b"\\",
            b'/' => b"/",
            b't' => b"\t",
            b'r' => b"\r",
            b'b' => b"\x08",
            b'f' => b"\x0c",
            _ => return self.refuse(),
        };
        self.flush_surrogate(visitor);
        self.emit(decoded, false, visitor);
        self.tell_extra(1, visitor);
        self.state = State::Text;
        Ok(())
    }

    /// More bytes stand for what was just emitted than were emitted.
    fn tell_extra<V: Visitor>(&self, bytes: usize, visitor: &mut V) {
        if !self.in_key {
            visitor.escape(bytes);
        }
    }

    pub(super) fn hex_digit<V: Visitor>(
        &mut self,
        byte: u8,
        missing: u8,
        visitor: &mut V,
    ) -> Result<(), Malformed> {
        let Some(digit) = char::from(byte).to_digit(16) else { return self.refuse() };
        self.hex = (self.hex << 4) | u16::try_from(digit).unwrap_or_default();
        if missing > 1 {
            self.state = State::Hex(missing.saturating_sub(1));
            return Ok(());
        }
        self.state = State::Text;
        self.code_unit(visitor);
        Ok(())
    }

    /// Emits the UTF-16 unit that was just read, joined with a waiting high surrogate.
    fn code_unit<V: Visitor>(&mut self, visitor: &mut V) {
        let unit = self.hex;
        if matches!(unit, 0xd800..=0xdbff) {
            self.flush_surrogate(visitor);
            self.high = unit;
            self.tell_extra(6_usize.saturating_sub(SURROGATE_OWES), visitor);
            return;
        }
        let mut written = 6_usize;
        let joined = if self.high != 0 && matches!(unit, 0xdc00..=0xdfff) {
            let high = u32::from(self.high & 0x3ff) << 10;
            self.high = 0;
            written = written.saturating_add(SURROGATE_OWES);
            char::from_u32(0x1_0000_u32.saturating_add(high | u32::from(unit & 0x3ff)))
        } else {
            self.flush_surrogate(visitor);
            char::from_u32(u32::from(unit))
        };
        let mut utf8 = [0; 4];
        let text = joined.unwrap_or('\u{fffd}').encode_utf8(&mut utf8);
        self.emit(text.as_bytes(), false, visitor);
        self.tell_extra(written.saturating_sub(text.len()), visitor);
    }
}
