//! The one pass over the text.

use super::kind::{CLASSES, KINDS, Kind, LENGTHS, MARK, START, STEPS, script};

/// Cells per kind in memory: a power of two, so that shifting finds a row.
const STRIDE: usize = 32;
const CELLS: usize = KINDS * STRIDE;

/// Characters of a text by kind of run and place in the run. Fixed size, 5 KiB.
///
/// A character counts in the cell of its run's kind at its place in the run. So a cell holds how many runs of the
/// kind are at least that long, and its weight is what the character at that place adds to a run. No run has to be
/// closed, which makes the pass free of unpredictable branches.
///
/// Texts are fed in parts of any size; [`Counts::cut`] ends one text, so that the next does not continue its last
/// word.
#[derive(Clone, Debug)]
pub struct Counts {
    cells: [u32; CELLS],
    /// A [`Kind`] or [`START`].
    state: u8,
    /// Place of the last character in its run, from 0, at most `LENGTHS - 1`.
    place: u8,
    /// The byte before.
    previous: u8,
    /// First byte of a character whose second byte has not come yet; 0 = none.
    lead: u8,
    bytes: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    /// Nothing counted.
    pub const fn new() -> Self {
        Self { cells: [0; CELLS], state: START, place: 0, previous: 0, lead: 0, bytes: 0 }
    }

    /// Bytes fed.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The counts of a kind by place in the run.
    pub fn row(&self, kind: usize) -> &[u32; LENGTHS] {
        let (rows, _) = self.cells.as_chunks::<STRIDE>();
        rows.get(kind).and_then(|row| row.first_chunk()).unwrap_or(&[0; LENGTHS])
    }

    /// All rows, by [`Kind`].
    pub fn rows(&self) -> impl Iterator<Item = &[u32; LENGTHS]> {
        (0..KINDS).map(|kind| self.row(kind))
    }

    /// Ends the present text.
    pub fn cut(&mut self) {
        if self.lead != 0 {
            self.character(Kind::Odd);
        }
        self.state = START;
        self.place = 0;
        self.previous = 0;
        self.lead = 0;
    }

    /// Counts a part of a text.
    pub fn feed(&mut self, part: &[u8]) {
        self.bytes = self.bytes.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        let (mut state, mut place, mut previous) =
            (u16::from(self.state) << 4, usize::from(self.place), self.previous);
        for &byte in part {
            if byte < 0x80 {
                let class = CLASSES.get(usize::from(byte)).copied().unwrap_or_default();
                // Sets bit 0 of the class when a mark comes again.
                let class = class | (u8::from(byte == previous) & (class >> MARK.trailing_zeros()));
                previous = byte;
                let step = STEPS.get(usize::from((state & 0x3f0) | u16::from(class & 15))).copied();
                let step = step.unwrap_or_default();
                let goes_on = usize::from(step & 1);
                place = place.wrapping_add(1).min(LENGTHS.wrapping_sub(1)) & 0_usize.wrapping_sub(goes_on);
                state = step & 0x3f0;
                let cell = (usize::from(state) << 1) | place;
                if let Some(count) = self.cells.get_mut(cell) {
                    *count = count.wrapping_add(1);
                }
            } else if byte >= 0xc0 {
                self.lead = byte;
            } else if self.lead != 0 {
                (self.state, self.place) = ((state >> 4) as u8, place as u8);
                self.character(script(self.lead, byte));
                self.lead = 0;
                (state, place, previous) = (u16::from(self.state) << 4, usize::from(self.place), byte);
            }
        }
        (self.state, self.place, self.previous) = ((state >> 4) as u8, place as u8, previous);
    }

    /// Counts a character that is not ASCII.
    #[inline]
    fn character(&mut self, kind: Kind) {
        let mut next = kind as u8;
        if matches!(kind, Kind::Accent | Kind::AccentFar) {
            // A letter with a diacritic goes on with its word, and counts once more for what it adds.
            self.count(kind as u8, 0);
            let step = STEPS.get(usize::from(self.state & 0x3f) << 4).copied().unwrap_or_default();
            next = (step >> 4) as u8;
            self.place = if step & 1 == 1 { self.place.saturating_add(1) } else { 0 };
        } else {
            self.place = if self.state == next { self.place.saturating_add(1) } else { 0 };
        }
        self.place = self.place.min(LENGTHS.wrapping_sub(1) as u8);
        self.state = next;
        self.count(next, self.place);
    }

    #[inline]
    fn count(&mut self, state: u8, place: u8) {
        let cell = (usize::from(state) << 5) | usize::from(place);
        if let Some(count) = self.cells.get_mut(cell) {
            *count = count.wrapping_add(1);
        }
    }
}
