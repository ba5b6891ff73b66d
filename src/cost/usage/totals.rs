//! What all documents of a response say together.

use super::Usage;
use super::stated::{Field, Stated};
use super::visible::Counter;
use crate::upstream::ErrorEvent;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) stated: Stated,
    /// Largest completion stated for each choice, by index.
    pub(super) per_choice: Vec<u64>,
    /// A completion was stated that is not of a single choice.
    pub(super) whole_stated: bool,
    pub(super) visible: Counter,
    pub(super) error: Option<ErrorEvent>,
    /// A known number was no amount: negative, absurd, or of another type.
    pub(super) nonsense: bool,
    /// Documents that ended.
    pub(super) documents: u64,
}

impl Totals {
    /// What all that was stated adds up to.
    pub(super) fn usage(&self, cache_inside: bool) -> Option<Usage> {
        self.stated.usage(self.per_choice_sum(), cache_inside).or_else(|| {
            // Vectors: some state nothing but the total (Voyage).
            let total = self.stated.get(Field::Total).filter(|total| *total > 0 && self.visible.is_empty());
            total.map(|input| Usage { input: Some(input), ..Usage::default() })
        })
    }

    /// The output that the first event of a stream names, a floor when nothing else does.
    pub(super) fn placeholder(&self) -> u64 {
        self.stated.get(Field::OutputAtStart).unwrap_or(0)
    }

    /// Something known was stated that cannot be.
    pub(super) const fn has_nonsense(&self) -> bool {
        self.nonsense
    }

    /// With what the documents inside the documents say.
    pub(super) fn merged(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.stated.merge(&other.stated);
        both.nonsense |= other.nonsense;
        if let Some(error) = &other.error {
            both.error.get_or_insert_default().merge(error);
        }
        both
    }

    /// Sum over choices of a server that counts each apart; zero when it also stated the whole.
    fn per_choice_sum(&self) -> u64 {
        if self.whole_stated || self.per_choice.len() < 2 {
            return 0;
        }
        self.per_choice.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}
