//! How many decisions go to the store in one request.

use crate::units::Span;

/// At most. More would hold the first of them up for longer than they spare the store.
const MOST: usize = 24;
const FIRST: usize = 4;

/// Follows how long answers take: they have to come before the timeout, and a store that is far from it has time for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together(usize);

impl Default for Together {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Together {
    /// Decisions in the next request, 1 to 24.
    pub fn count(self) -> usize {
        self.0
    }

    /// An answer took so long, or did not come (`missed`): half as many where that was more than half of the timeout, one more
    /// where it was a quarter or less.
    pub fn adapt(&mut self, took: Span, missed: bool, timeout: Span) {
        let (took, timeout) = (took.as_micros(), timeout.as_micros());
        if missed || took.saturating_mul(2) > timeout {
            self.0 = (self.0 >> 1_u32).max(1);
        } else if took.saturating_mul(4) <= timeout {
            self.0 = self.0.saturating_add(1).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begin: usize, took: u64, missed: bool) -> usize {
        let mut together = Together(begin);
        together.adapt(Span::from_micros(took), missed, Span::from_millis(50));
        together.count()
    }

    #[test]
    fn quick_answers_let_one_more_go_together_up_to_24() {
        assert_eq!(after(4, 12_500, false), 5);
        assert_eq!(after(23, 1_000, false), 24);
        assert_eq!(after(24, 1_000, false), 24);
    }

    #[test]
    fn answers_between_a_quarter_and_half_of_the_timeout_change_nothing() {
        assert_eq!(after(9, 12_501, false), 9);
        assert_eq!(after(9, 25_000, false), 9);
    }

    #[test]
    fn answers_near_the_timeout_and_lost_ones_halve_down_to_one() {
        assert_eq!(after(9, 25_001, false), 4);
        assert_eq!(after(9, 1_000, true), 4);
        assert_eq!(after(1, 50_000, true), 1);
    }

    #[test]
    fn a_store_that_recovers_is_asked_for_24_again_after_as_many_answers() {
        let mut together = Together(1);
        for _ in 0..23 {
            together.adapt(Span::from_millis(2), false, Span::from_millis(50));
        }
        assert_eq!(together.count(), 24);
    }
}
