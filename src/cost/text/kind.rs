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

/// The state before the first character; it counts nothing.
pub(super) const START: u8 = 63;

/// Classes of ASCII bytes. `SAME` is `MARK | 1`: a mark that equals the byte before.
const LOWER: u8 = 0;
const UPPER: u8 = 1;
const DIGIT: u8 = 2;
const BLANK: u8 = 3;
const LINE: u8 = 4;
const ODD: u8 = 5;
pub(super) const MARK: u8 = 8;
const SAME: u8 = 9;

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

/// What stood before a run.
enum Before {
    Space,
    Mark,
    Letter,
}

const fn before(state: u8) -> Before {
    const BLANK: u8 = Kind::Blank as u8;
    const LINE: u8 = Kind::Line as u8;
    const MARKS: u8 = Kind::Marks as u8;
    const SAME: u8 = Kind::Same as u8;
    const TYPOGRAPHIC: u8 = Kind::Typographic as u8;
    const WIDE: u8 = Kind::Wide as u8;
    match state {
        START | BLANK | LINE => Before::Space,
        MARKS..=SAME | TYPOGRAPHIC..=WIDE => Before::Mark,
        _ => Before::Letter,
    }
}

const fn placed(state: u8, space: Kind, mark: Kind, letter: Kind) -> (u8, bool) {
    match before(state) {
        Before::Space => (space as u8, false),
        Before::Mark => (mark as u8, false),
        Before::Letter => (letter as u8, false),
    }
}

/// The state after a byte of this class, and whether it goes on with the same run.
const fn next(state: u8, class: u8) -> (u8, bool) {
    const FIRST: u8 = Kind::First as u8;
    const FIRST_GLUED: u8 = Kind::FirstGlued as u8;
    const CAPITAL: u8 = Kind::Capital as u8;
    const CAPITAL_GLUED: u8 = Kind::CapitalGlued as u8;
    const UPPER_SPACED: u8 = Kind::Upper as u8;
    const UPPER_GLUED: u8 = Kind::UpperGlued as u8;
    const LOWER_GLUED: u8 = Kind::LowerGlued as u8;
    const DIGITS: u8 = Kind::Digits as u8;
    const DIGITS_SPACED: u8 = Kind::DigitsSpaced as u8;
    const MARKS: u8 = Kind::Marks as u8;
    const AGAIN: u8 = Kind::Same as u8;
    const SPACE: u8 = Kind::Blank as u8;
    match (class, state) {
        (LOWER, ..=LOWER_GLUED | CAPITAL..=CAPITAL_GLUED) => (state, true),
        // From each first capital the rest of the word follows three kinds on, that of capitals six.
        (LOWER, FIRST..=FIRST_GLUED) => (state.saturating_add(3), true),
        (UPPER, FIRST..=FIRST_GLUED) => (state.saturating_add(6), true),
        (LOWER, UPPER_SPACED..=UPPER_GLUED) => (CAPITAL_GLUED, false),
        (LOWER, _) => placed(state, Kind::Lower, Kind::LowerInner, Kind::LowerGlued),
        (UPPER, UPPER_SPACED..=UPPER_GLUED) => (state, true),
        (UPPER, _) => placed(state, Kind::First, Kind::FirstInner, Kind::FirstGlued),
        (DIGIT, DIGITS | DIGITS_SPACED) => (state, true),
        (DIGIT, SPACE) => (DIGITS_SPACED, false),
        (DIGIT, _) => (DIGITS, false),
        (SAME, MARKS..=AGAIN) => (AGAIN, true),
        (MARK, AGAIN) => (MARKS, true),
        (MARK, MARKS..AGAIN) => (state, true),
        (MARK | SAME, SPACE) => (Kind::MarksSpaced as u8, false),
        (MARK | SAME, _) => (MARKS, false),
        (BLANK, _) => (SPACE, state == SPACE),
        (LINE, _) => (Kind::Line as u8, state == Kind::Line as u8),
        _ => (Kind::Odd as u8, state == Kind::Odd as u8),
    }
}

/// `STEPS[state << 4 | class]` is the next state, shifted by 4, with bit 0 set when the run goes on.
pub(super) static STEPS: [u16; 1_024] = {
    let mut table = [0; 1_024];
    let mut at = 0_u16;
    while at < 1_024 {
        let (state, goes_on) = next((at >> 4) as u8, (at & 15) as u8);
        #[allow(clippy::indexing_slicing, reason = "bounded by the loop; evaluated at compile time")]
        {
            table[at as usize] = ((state as u16) << 4) | goes_on as u16;
        }
        at = at.saturating_add(1);
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

const _: () = assert!(Kind::Odd as usize + 1 == KINDS && KINDS < START as usize);
