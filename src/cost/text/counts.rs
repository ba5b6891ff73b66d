//! The one pass over the text.

use super::family::Family;
use super::kind::{CLASSES, KINDS, Kind, LENGTHS, script};
use super::steps::{ENTRIES, START, STEPS, cell_of};
use super::weights;

const CELLS: usize = KINDS * LENGTHS;

/// Shorter texts are not worth looking for their middle.
const SPLIT_FROM: usize = 32;
/// Bytes that are looked through for it.
const SEARCHED: usize = 24;
/// The cell of a blank after something else.
const FIRST_BLANK: u16 = cell_of(Kind::Blank, 0);

/// The state after a byte of ASCII.
#[inline(always)]
fn step(steps: &[u16; ENTRIES], state: usize, byte: u8, previous: u8) -> usize {
    let class = CLASSES.get(usize::from(byte)).copied().unwrap_or_default();
    let class = usize::from(class | u8::from(byte == previous));
    usize::from(steps.get(state.wrapping_add(class) & (ENTRIES - 1)).copied().unwrap_or_default())
}

/// Counts a character in the cell of its state.
#[inline(always)]
fn tally(cells: &mut [u32; CELLS], state: usize, times: u32) {
    if let Some(count) = cells.get_mut(state >> 4) {
        *count = count.wrapping_add(times);
    }
}

/// Length of about the first half of a text of ASCII that ends with a blank after something else: what comes then does
/// not depend on what was before. `None` when it is too short, or has no such place near its middle.
fn half(text: &[u8]) -> Option<usize> {
    if text.len() < SPLIT_FROM {
        return None;
    }
    let blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let middle = text.len() / 2;
    let near = text.get(..middle)?;
    let near = near.get(near.len().saturating_sub(SEARCHED)..)?;
    let found =
        near.windows(2).rposition(|pair| matches!(*pair, [other, last] if blank(last) && !blank(other)))?;
    Some(middle.saturating_sub(near.len()).saturating_add(found).saturating_add(2))
}

/// Characters of a text by kind of run and place in the run. Fixed size, 2.5 KiB.
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
    /// The cell of the last character, or [`START`].
    cell: u16,
    /// The byte before.
    previous: u8,
    /// First byte of a character whose second byte has not come yet; 0 = none.
    lead: u8,
    /// How often each character counts.
    times: u32,
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
        Self { cells: [0; CELLS], cell: START, previous: 0, lead: 0, times: 1, bytes: 0 }
    }

    /// Bytes fed, each as often as it counted.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The counts of a kind by place in the run.
    pub fn row(&self, kind: usize) -> &[u32; LENGTHS] {
        let (rows, _) = self.cells.as_chunks::<LENGTHS>();
        rows.get(kind).unwrap_or(&[0; LENGTHS])
    }

    /// All rows, by [`Kind`].
    pub fn rows(&self) -> impl Iterator<Item = &[u32; LENGTHS]> {
        let (rows, _) = self.cells.as_chunks::<LENGTHS>();
        rows.iter()
    }

    /// Ends the present text.
    pub fn cut(&mut self) {
        if self.lead != 0 {
            self.character(Kind::Odd);
        }
        self.restart(self.times);
    }

    /// Begins a text of which each character counts so often. An unfinished character is dropped.
    pub(super) const fn restart(&mut self, times: u32) {
        (self.cell, self.previous, self.lead, self.times) = (START, 0, 0, times);
    }

    /// From here on each character counts so often.
    pub(super) const fn weigh_on(&mut self, times: u32) {
        self.times = times;
    }

    /// What was counted stands for so many bytes more than were fed.
    pub(super) fn stand_for(&mut self, bytes: usize) {
        // 32 bits each, because a product that may overflow costs a call.
        let bytes = u64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.bytes = self.bytes.saturating_add(bytes.wrapping_mul(u64::from(self.times)));
    }

    /// Counts a part of a text.
    pub fn feed(&mut self, part: &[u8]) {
        self.stand_for(part.len());
        let mut rest = part;
        if rest.len() >= SPLIT_FROM && self.lead == 0 && rest.is_ascii() {
            while let Some(first) = half(rest) {
                let Some((first, second)) = rest.split_at_checked(first) else { break };
                rest = self.feed_both(first, second);
            }
        }
        self.feed_each(rest);
    }

    /// Counts `second`, ASCII after a blank that begins a run, beside `first`, which ends with that blank. Two texts at
    /// once, because each step waits for the step before. Returns what is left of `second`.
    fn feed_both<'a>(&mut self, first: &[u8], second: &'a [u8]) -> &'a [u8] {
        let steps: &[u16; ENTRIES] = &STEPS;
        let times = self.times;
        let (mut one, mut before_one) = (usize::from(self.cell) << 4, self.previous);
        let (mut two, mut before_two) =
            (usize::from(FIRST_BLANK) << 4, first.last().copied().unwrap_or_default());
        let cells = &mut self.cells;
        for (&left, &right) in first.iter().zip(second) {
            one = step(steps, one, left, before_one);
            two = step(steps, two, right, before_two);
            (before_one, before_two) = (left, right);
            tally(cells, one, times);
            tally(cells, two, times);
        }
        (self.cell, self.previous) = ((one >> 4) as u16, before_one);
        self.feed_each(first.get(second.len()..).unwrap_or_default());
        (self.cell, self.previous) = ((two >> 4) as u16, before_two);
        second.get(first.len()..).unwrap_or_default()
    }

    fn feed_each(&mut self, part: &[u8]) {
        let steps: &[u16; ENTRIES] = &STEPS;
        let times = self.times;
        // The cell, shifted by 4 as in the table.
        let (mut state, mut previous) = (usize::from(self.cell) << 4, self.previous);
        for &byte in part {
            if byte < 0x80 {
                state = step(steps, state, byte, previous);
                previous = byte;
                tally(&mut self.cells, state, times);
            } else if byte >= 0xc0 {
                self.lead = byte;
            } else if self.lead != 0 {
                self.cell = (state >> 4) as u16;
                let kind = script(self.lead, byte);
                self.character(kind);
                self.lead = 0;
                (state, previous) = (usize::from(self.cell) << 4, byte);
            }
        }
        (self.cell, self.previous) = ((state >> 4) as u16, previous);
    }

    /// Counts a character that is not ASCII.
    #[inline]
    fn character(&mut self, kind: Kind) {
        let first = cell_of(kind, 0);
        if matches!(kind, Kind::Accent | Kind::AccentFar) {
            // A letter with a diacritic goes on with its word, and counts once more for what it adds.
            self.count(first);
            let step = STEPS.get(usize::from(self.cell << 4)).copied().unwrap_or_default();
            self.cell = step >> 4;
        } else {
            self.cell = self.after(first);
        }
        self.count(self.cell);
    }

    /// The cell after the present one in the row that begins at `first`; `first` when the present one is of another.
    fn after(&self, first: u16) -> u16 {
        let last = first.saturating_add(LENGTHS.saturating_sub(1) as u16);
        if (first..=last).contains(&self.cell) { self.cell.saturating_add(1).min(last) } else { first }
    }

    #[inline]
    fn count(&mut self, cell: u16) {
        if let Some(count) = self.cells.get_mut(usize::from(cell)) {
            *count = count.wrapping_add(self.times);
        }
    }

    /// The weighted sum, in [`weights::ONE`]ths of an LLM token; an unfinished character is one that is odd.
    pub(super) fn weigh(&self, family: Family) -> u64 {
        let weights = weights::of(family);
        let sum = self.rows().zip(weights).fold(0_u64, |sum, (counts, weights)| {
            if counts.iter().fold(0, |any, count| any | count) == 0 {
                return sum;
            }
            // 32 and 16 bits, hundreds of times: nothing wraps.
            counts.iter().zip(weights).fold(sum, |sum, (count, weight)| {
                sum.wrapping_add(u64::from(*count).wrapping_mul(u64::from(*weight)))
            })
        });
        if self.lead == 0 {
            return sum;
        }
        let odd = cell_of(Kind::Odd, 0);
        let place = usize::from(self.after(odd).saturating_sub(odd));
        let weight = weights.last().and_then(|row| row.get(place)).copied().unwrap_or_default();
        sum.saturating_add(u64::from(weight).saturating_mul(u64::from(self.times)))
    }
}
