//! What runs a text is cut into, and which byte starts or continues which.

/// Lengths told apart per kind, from 1; the last one stands for every character beyond.
pub const LENGTHS: usize = 17;

/// Number of kinds.
pub const KINDS: usize = 38;

/// A kind of run. The word shapes come in three places: after white space or at the start (most tokenizers have such
/// words whole), after punctuation, and glued to a letter or digit of another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `word` after white space.
    Lower,
    /// `word` after punctuation.
    LowerInner,
    /// `word` glued to a digit or another script.
    LowerGlued,
    /// The first capital of a word after white space.
    First,
    /// The first capital of a word after punctuation.
    FirstInner,
    /// The first capital of a glued word: `V` of `getValue`.
    FirstGlued,
    /// The rest of `Word` after white space.
    Capital,
    /// The rest of `Word` after punctuation.
    CapitalInner,
    /// The rest of a glued `Word`; at length 1 where capitals end in a word: `e` of `HTTPServer`.
    CapitalGlued,
    /// The rest of `WORD` after white space.
    Upper,
    /// The rest of `WORD` after punctuation.
    UpperInner,
    /// The rest of a glued `WORD`.
    UpperGlued,
    /// Digits.
    Digits,
    /// Digits after a blank: the blank is not theirs.
    DigitsSpaced,
    /// ASCII punctuation.
    Marks,
    /// ASCII punctuation after a blank.
    MarksSpaced,
    /// The same mark again.
    Same,
    /// Spaces and tabs.
    Blank,
    /// Line ends.
    Line,
    /// Letters with diacritics inside Latin words; each counts as a run of one, beside the word's own length.
    Accent,
    /// The same, of the languages of central Europe, Turkish and Vietnamese.
    AccentFar,
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

/// Classes of ASCII bytes, even numbers. The odd one after each is for a byte that equals the byte before, which
/// matters only for marks.
pub(super) const LOWER: u8 = 0;
pub(super) const UPPER: u8 = 2;
pub(super) const DIGIT: u8 = 4;
pub(super) const BLANK: u8 = 6;
pub(super) const LINE: u8 = 8;
pub(super) const ODD: u8 = 10;
pub(super) const MARK: u8 = 12;
pub(super) const SAME: u8 = 13;

const fn class_of(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' => DIGIT,
        b' ' | b'\t' => BLANK,
        b'\n' | b'\r' => LINE,
        0x21..=0x7e => MARK,
        _ => ODD,
    }
}

/// The class of every byte.
pub(super) static CLASSES: [u8; 256] = {
    let mut table = [ODD; 256];
    let mut byte = 0_u8;
    while let Some(next) = byte.checked_add(1) {
        #[allow(clippy::indexing_slicing, reason = "a byte indexes 256 entries; evaluated at compile time")]
        {
            table[byte as usize] = class_of(byte);
        }
        byte = next;
    }
    table
};

/// The script of the character that starts with these two bytes.
pub(super) const fn script(lead: u8, second: u8) -> Kind {
    match (lead, second) {
        (0xc2, _) | (0xe2, 0x80..=0x83) => Kind::Typographic,
        (0xc3, _) => Kind::Accent,
        (0xc4..=0xcd, _) | (0xe1, 0xb8..=0xbb) | (0xe2, 0xb1) => Kind::AccentFar,
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
        (0xc0 | 0xc1 | 0xf5..=0xff, _) => Kind::Odd,
        _ => Kind::Rare,
    }
}

const _: () = assert!(Kind::Odd as usize + 1 == KINDS);
