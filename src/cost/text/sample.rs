//! Text of any length at a bounded price: its beginning is counted, then a window of every so many bytes.
//!
//! 1. The first [`WHOLE`] bytes are counted. After them come periods, first as [`NEAR`] has it, from [`FAR`] on as
//!    [`FURTHER`]; of each a window at its end is counted, and weighs as much as the whole period.
//! 2. Before a window some text is read without being counted, so that a word that reaches into it counts there for
//!    what its later characters add: a window holds what the full count would put into it, no more.
//! 3. Positions are in bytes as written, escapes included, and go on over the texts of a body. So the estimate does
//!    not depend on how the body is cut, and a body of many short texts is sampled like one of a long text.
//! 4. A window stands for the text just before it, so that each part of a body counts by its own density.

use super::{Counts, Family, weights};

/// Bytes of a body's text that are counted whole.
pub const WHOLE: usize = 2_048;
/// Bytes of a period, and how many of them are counted.
const NEAR: (usize, usize) = (1_024, 128);
/// The same further on.
const FURTHER: (usize, usize) = (2_048, 64);
/// Bytes of text after which the sparse periods begin.
const FAR: u64 = 32_768;
/// Bytes read before a window: enough for the longest run whose places are told apart, in a byte each ...
const LEAD: usize = 20;
/// ... and so many more for characters of three bytes.
const LONG_LEAD: usize = 44;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Bytes that are not looked at.
    Skip,
    /// The place from which text of three-byte characters is read.
    Approach,
    /// The text there is ASCII: not looked at yet.
    Gap,
    /// Bytes that are read, not counted.
    Lead,
    /// Bytes that count.
    Count,
}

/// The counts of a body's text, sampled.
#[derive(Clone, Debug)]
pub struct Sample {
    counts: Counts,
    phase: Phase,
    /// Bytes until the phase ends; never 0.
    left: usize,
    /// Bytes of the present period, and how many of them are counted.
    period: (usize, usize),
    /// Bytes so far.
    bytes: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

impl Sample {
    /// No text yet.
    pub const fn new() -> Self {
        Self { counts: Counts::new(), phase: Phase::Count, left: WHOLE, period: NEAR, bytes: 0 }
    }

    /// Takes a part of a text.
    pub fn feed(&mut self, part: &[u8]) {
        let mut rest = part;
        while let Some(&first) = rest.first() {
            let mut take = rest.len().min(self.left);
            match (self.phase, first) {
                (Phase::Approach, 0x80..=0xbf) => take = 1,
                (Phase::Approach, ..0x80) => {
                    self.phase = Phase::Gap;
                    continue;
                }
                (Phase::Approach, _) => {
                    self.phase = Phase::Lead;
                    self.left = self.left.saturating_add(LEAD);
                    continue;
                }
                (Phase::Lead | Phase::Count, _) => self.counts.feed(rest.get(..take).unwrap_or_default()),
                _ => {}
            }
            self.pass(take);
            rest = rest.get(take..).unwrap_or_default();
        }
    }

    /// Takes note of bytes that were written beyond what was fed for them.
    pub fn extra(&mut self, bytes: usize) {
        let mut rest = bytes;
        while rest > 0 {
            let take = rest.min(self.left);
            if self.phase == Phase::Count {
                self.counts.stand_for(take);
            }
            self.pass(take);
            rest = rest.saturating_sub(take);
        }
    }

    /// How many bytes would not be looked at.
    pub const fn unread(&self) -> usize {
        match self.phase {
            Phase::Skip | Phase::Gap => self.left,
            Phase::Approach | Phase::Lead | Phase::Count => 0,
        }
    }

    /// Ends the present text.
    pub fn cut(&mut self) {
        self.counts.cut();
    }

    /// LLM tokens of everything, rounded up; 0 only when nothing came.
    pub fn llm_tokens(&self, family: Family) -> u64 {
        let covered = self.counts.bytes();
        let missing = self.bytes.saturating_sub(covered);
        let sum = self.counts.weigh(family);
        // What no window stands for is less than a period, and taken to be like everything else.
        let more = sum.saturating_mul(missing).checked_div(covered).unwrap_or_default();
        super::bounded(sum.saturating_add(more).div_ceil(weights::ONE), self.bytes)
    }

    /// So many bytes have passed, at most `left`.
    fn pass(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.left = self.left.saturating_sub(bytes);
        if self.left > 0 {
            return;
        }
        (self.phase, self.left) = match self.phase {
            Phase::Skip => (Phase::Approach, LONG_LEAD),
            Phase::Approach | Phase::Gap => {
                self.counts.restart(0);
                (Phase::Lead, LEAD)
            }
            Phase::Lead => {
                let (period, window) = self.period;
                let times = period.checked_div(window).and_then(|times| u32::try_from(times).ok());
                self.counts.weigh_on(times.unwrap_or(1));
                (Phase::Count, window)
            }
            Phase::Count => {
                self.counts.restart(0);
                self.period = if self.bytes < FAR { NEAR } else { FURTHER };
                let (period, window) = self.period;
                (Phase::Skip, period.saturating_sub(LONG_LEAD).saturating_sub(LEAD).saturating_sub(window))
            }
        };
    }
}
