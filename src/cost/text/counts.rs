//! The one pass over the text.

use super::kind::{CLASSES, Class, KINDS, Kind, LENGTHS, script};

/// What the run at hand consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// Nothing yet: at the start of a text.
    None,
    Lower,
    /// One capital, then lower case.
    Capital,
    Upper,
    Digit,
    Mark,
    Blank,
    Line,
    Script(Kind),
}

/// What stood before the run at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// White space, or nothing.
    Space,
    /// Punctuation.
    Mark,
    /// A letter or digit.
    Letter,
}

/// Runs of a text by kind and length. Fixed size, about 2 KiB.
///
/// Texts are fed in parts of any size; [`Counts::cut`] ends one text, so that the next does not continue its last
/// word.
#[derive(Clone, Debug)]
pub struct Counts {
    cells: [u32; KINDS * LENGTHS],
    run: Run,
    before: Before,
    len: u32,
    /// First mark of a run of marks.
    first: u8,
    /// All marks of the run were equal so far.
    same: bool,
    /// First byte of a character whose second byte has not come yet; 0 = none.
    lead: u8,
    any: bool,
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    /// Nothing counted.
    pub const fn new() -> Self {
        Self {
            cells: [0; KINDS * LENGTHS],
            run: Run::None,
            before: Before::Space,
            len: 0,
            first: 0,
            same: false,
            lead: 0,
            any: false,
        }
    }

    /// No byte was ever fed.
    pub const fn is_empty(&self) -> bool {
        !self.any
    }

    /// The counts, [`LENGTHS`] cells for each [`Kind`]. Call [`Counts::cut`] before.
    pub const fn cells(&self) -> &[u32; KINDS * LENGTHS] {
        &self.cells
    }

    /// Ends the present text.
    pub fn cut(&mut self) {
        if self.lead != 0 {
            self.lead = 0;
            self.switch(Run::Script(Kind::Odd));
        }
        self.close();
        self.run = Run::None;
        self.before = Before::Space;
        self.len = 0;
    }

    /// Counts a part of a text.
    pub fn feed(&mut self, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        self.any = true;
        let mut bytes = part.iter();
        while let Some(&byte) = bytes.next() {
            match CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Odd) {
                Class::Lower => {
                    match self.run {
                        Run::Lower | Run::Capital => self.len = self.len.wrapping_add(1),
                        Run::Upper if self.len == 1 => {
                            self.run = Run::Capital;
                            self.len = 2;
                        }
                        Run::Upper => self.split_capital(),
                        _ => self.switch(Run::Lower),
                    }
                    // The bulk of most texts: the rest of a lower-case word.
                    let rest = bytes.as_slice();
                    let word = rest.iter().position(|next| !next.is_ascii_lowercase()).unwrap_or(rest.len());
                    self.len = self.len.wrapping_add(u32::try_from(word).unwrap_or_default());
                    bytes = rest.get(word..).unwrap_or_default().iter();
                }
                Class::Upper => self.extend(Run::Upper),
                Class::Digit => self.extend(Run::Digit),
                Class::Blank => self.extend(Run::Blank),
                Class::Line => self.extend(Run::Line),
                Class::Mark => self.mark(byte),
                Class::Lead => self.lead = byte,
                Class::Follow if self.lead != 0 => self.character(byte),
                Class::Follow => {}
                Class::Odd => self.extend(Run::Script(Kind::Odd)),
            }
        }
    }

    #[inline(always)]
    fn extend(&mut self, run: Run) {
        if self.run == run {
            self.len = self.len.wrapping_add(1);
        } else {
            self.switch(run);
        }
    }

    fn mark(&mut self, byte: u8) {
        if self.run == Run::Mark {
            self.len = self.len.wrapping_add(1);
            self.same &= byte == self.first;
        } else {
            self.switch(Run::Mark);
            self.first = byte;
            self.same = true;
        }
    }

    /// `HTTPServer`: the last capital belongs to the word that follows.
    fn split_capital(&mut self) {
        self.len = self.len.saturating_sub(1);
        self.switch(Run::Capital);
        self.len = 2;
    }

    fn character(&mut self, second: u8) {
        let kind = script(self.lead, second);
        self.lead = 0;
        if kind != Kind::Accent {
            self.extend(Run::Script(kind));
            return;
        }
        // A letter with a diacritic goes on with its word, and is counted once more for what it adds.
        self.add(Kind::Accent, 1);
        match self.run {
            Run::Lower | Run::Capital => self.len = self.len.wrapping_add(1),
            Run::Upper if self.len == 1 => {
                self.run = Run::Capital;
                self.len = 2;
            }
            Run::Upper => self.len = self.len.wrapping_add(1),
            _ => self.switch(Run::Lower),
        }
    }

    /// Closes the run at hand and starts another of length one.
    fn switch(&mut self, run: Run) {
        self.close();
        self.before = match self.run {
            Run::None | Run::Blank | Run::Line => Before::Space,
            Run::Mark | Run::Script(Kind::Typographic | Kind::Wide | Kind::Symbol) => Before::Mark,
            _ => Before::Letter,
        };
        self.run = run;
        self.len = 1;
    }

    fn close(&mut self) {
        let kind = match (self.run, self.before) {
            (Run::None, _) => return,
            (Run::Lower, Before::Space) => Kind::Lower,
            (Run::Lower, Before::Mark) => Kind::LowerInner,
            (Run::Lower, Before::Letter) => Kind::LowerGlued,
            (Run::Capital, Before::Space) => Kind::Capital,
            (Run::Capital, Before::Mark) => Kind::CapitalInner,
            (Run::Capital, Before::Letter) => Kind::CapitalGlued,
            (Run::Upper, Before::Space) => Kind::Upper,
            (Run::Upper, Before::Mark) => Kind::UpperInner,
            (Run::Upper, Before::Letter) => Kind::UpperGlued,
            (Run::Digit, Before::Space) => Kind::DigitsSpaced,
            (Run::Digit, _) => Kind::Digits,
            (Run::Mark, _) if self.same && self.len >= 3 => Kind::Ruler,
            (Run::Mark, Before::Space) => Kind::MarksSpaced,
            (Run::Mark, _) => Kind::Marks,
            // A single blank belongs to what follows.
            (Run::Blank, _) if self.len == 1 => return,
            (Run::Blank, _) => Kind::Blanks,
            (Run::Line, _) => Kind::Lines,
            (Run::Script(kind), _) => kind,
        };
        self.add(kind, self.len);
    }

    #[inline]
    fn add(&mut self, kind: Kind, len: u32) {
        let (row, _) = self.cells.as_chunks_mut::<LENGTHS>();
        let Some(row) = row.get_mut(kind as usize) else { return };
        let last = u32::try_from(LENGTHS.saturating_sub(2)).unwrap_or_default();
        let cell = len.saturating_sub(1).min(last);
        if let Some(count) = row.get_mut(usize::try_from(cell).unwrap_or_default()) {
            *count = count.wrapping_add(1);
        }
        if let Some(beyond) = row.last_mut() {
            *beyond = beyond.wrapping_add(len.saturating_sub(last.saturating_add(1)));
        }
    }
}
