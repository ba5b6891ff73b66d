//! What runs a text is cut into.

/// Lengths told apart per kind; the last cell counts the characters beyond the one before.
pub const LENGTHS: usize = 17;

/// Number of kinds.
pub const KINDS: usize = 34;

/// A kind of run. The three word shapes come in three places: after white space or at the start (most tokenizers
/// have such words whole), after punctuation, and glued to a letter or digit of another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `word` after white space.
    Lower,
    /// `word` after punctuation.
    LowerInner,
    /// `word` glued to a digit or another script.
    LowerGlued,
    /// `Word` after white space.
    Capital,
    /// `Word` after punctuation.
    CapitalInner,
    /// `Word` glued: the second half of `camelCase`.
    CapitalGlued,
    /// `WORD` after white space.
    Upper,
    /// `WORD` after punctuation.
    UpperInner,
    /// `WORD` glued.
    UpperGlued,
    /// Digits.
    Digits,
    /// Digits after a space: the space is not theirs.
    DigitsSpaced,
    /// ASCII punctuation.
    Marks,
    /// ASCII punctuation after a space.
    MarksSpaced,
    /// One ASCII mark three times or more.
    Ruler,
    /// Two or more spaces or tabs.
    Blanks,
    /// Line ends.
    Lines,
    /// Letters with diacritics inside Latin words; each counts as a run of one.
    Accent,
    /// Greek.
    Greek,
    /// Cyrillic.
    Cyrillic,
    /// Hebrew.
    Hebrew,
    /// Arabic.
    Arabic,
    /// Devanagari.
    Devanagari,
    /// The other scripts of India.
    Indic,
    /// Thai.
    Thai,
    /// Scripts of three bytes that are not named here.
    Rare,
    /// Dashes, quotation marks, dots of Unicode; Latin-1 signs.
    Typographic,
    /// Arrows, boxes, mathematics, dingbats.
    Symbol,
    /// Ideographic punctuation and full-width forms.
    Wide,
    /// Hiragana and Katakana.
    Kana,
    /// Han.
    Han,
    /// Hangul.
    Hangul,
    /// Pictographs outside the basic plane, and variation selectors.
    Emoji,
    /// Everything else of four bytes.
    Astral,
    /// Control characters and bytes that are not UTF-8.
    Odd,
}

/// What a byte is to the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    Lower,
    Upper,
    Digit,
    Blank,
    Line,
    Mark,
    Lead,
    Follow,
    Odd,
}

const fn class_of(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b' ' | b'\t' => Class::Blank,
        b'\n' | b'\r' => Class::Line,
        0x21..=0x7e => Class::Mark,
        0x80..=0xbf => Class::Follow,
        0xc2..=0xf4 => Class::Lead,
        _ => Class::Odd,
    }
}

/// [`Class`] of every byte.
pub(super) static CLASSES: [Class; 256] = {
    let mut table = [Class::Odd; 256];
    let mut byte = 0_u8;
    loop {
        #[allow(clippy::indexing_slicing, reason = "a byte indexes 256 entries; evaluated at compile time")]
        {
            table[byte as usize] = class_of(byte);
        }
        match byte.checked_add(1) {
            Some(next) => byte = next,
            None => break,
        }
    }
    table
};

/// The script of the character that starts with these two bytes.
pub(super) const fn script(lead: u8, second: u8) -> Kind {
    match (lead, second) {
        (0xc2, _) | (0xe2, 0x80..=0x83) => Kind::Typographic,
        (0xc3..=0xcd, _) | (0xe1, 0xb8..=0xbb) | (0xe2, 0xb1) => Kind::Accent,
        (0xce | 0xcf, _) | (0xe1, 0xbc..=0xbf) => Kind::Greek,
        (0xd0..=0xd4, _) => Kind::Cyrillic,
        (0xd6 | 0xd7, _) => Kind::Hebrew,
        (0xd8..=0xdb, _) | (0xef, 0xad..=0xb7 | 0xb9..=0xbb) => Kind::Arabic,
        (0xe0, 0xa4 | 0xa5) => Kind::Devanagari,
        (0xe0, 0xa6..=0xb7) => Kind::Indic,
        (0xe0, 0xb8 | 0xb9) => Kind::Thai,
        (0xe2, _) => Kind::Symbol,
        (0xe3, 0x80) | (0xef, 0xbc..=0xbf) => Kind::Wide,
        (0xe3, 0x81..=0x83) => Kind::Kana,
        (0xe3..=0xe9, _) | (0xef, 0xa4..=0xab) => Kind::Han,
        (0xea, 0xb0..=0xbf) | (0xeb..=0xed, _) | (0xe1, 0x84..=0x87) => Kind::Hangul,
        (0xef, 0xb8) | (0xf0, 0x9f) => Kind::Emoji,
        (0xf0..=0xf4, _) => Kind::Astral,
        _ => Kind::Rare,
    }
}

const _: () = assert!(Kind::Odd as usize + 1 == KINDS);
