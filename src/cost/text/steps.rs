//! Which run a byte of ASCII starts or goes on with.

use super::kind::{BLANK, DIGIT, KINDS, Kind, LENGTHS, LINE, LOWER, MARK, SAME, UPPER};
use std::sync::LazyLock;

/// The state before the first character; it counts nothing.
const BEFORE: u8 = KINDS as u8;

/// The cell that stands for [`BEFORE`].
pub(super) const START: u16 = (KINDS * LENGTHS) as u16;

/// The number of a kind's cell for the character at `place`, from 0, of its run.
pub(super) const fn cell_of(kind: Kind, place: u16) -> u16 {
    (kind as u16).wrapping_mul(LENGTHS as u16).wrapping_add(place)
}

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
        BEFORE | BLANK | LINE => Before::Space,
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

/// Entries of [`STEPS`]: a power of two, so that a masked index needs no check.
pub(super) const ENTRIES: usize = 1 << 14;
const _: () = assert!((KINDS * LENGTHS + 1) << 4 <= ENTRIES);

/// `STEPS[cell << 4 | class]` is the cell of a byte of this class after `cell`, shifted by 4.
///
/// 32 KiB that are quickly computed and would be a twentieth of the module.
pub(super) static STEPS: LazyLock<Box<[u16; ENTRIES]>> = LazyLock::new(|| {
    let step = |(kind, place): (u8, u16), class| {
        let class = if class == SAME { SAME } else { class & !1 };
        let (kind, goes_on) = next(kind, class);
        let place = if goes_on { place.saturating_add(1).min(LENGTHS as u16 - 1) } else { 0 };
        u16::from(kind).wrapping_mul(LENGTHS as u16).wrapping_add(place) << 4
    };
    let mut table = Box::new([0; ENTRIES]);
    let (rows, _) = table.as_chunks_mut::<16>();
    for (cell, row) in rows.iter_mut().enumerate().take(KINDS * LENGTHS + 1) {
        let of = ((cell / LENGTHS) as u8, (cell % LENGTHS) as u16);
        for (class, entry) in (0..).zip(row) {
            *entry = step(of, class);
        }
    }
    table
});
