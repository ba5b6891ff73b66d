//! The fuzzer's bytes as a row of choices.

/// Choices are taken from the front; when the bytes are used up, every choice is the first one.
#[derive(Clone, Copy)]
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// True when the bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most
    }

    /// A number of any size, small ones as often as large ones.
    pub fn number(&mut self) -> u64 {
        let bytes = self.below(9);
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Some of the bytes themselves, at most 255.
    pub fn slice(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }
}

/// The input without its last bytes, and those as choices: so a plain file is a good seed.
pub fn with_tail(input: &[u8], tail: usize) -> (&[u8], Choices<'_>) {
    let (body, choices) = input.split_at(input.len().saturating_sub(tail));
    (body, Choices(choices))
}
