//! What this worker wrote last, so that the next transaction may begin without asking the store.
//!
//! A write that found version `n` leaves a value whose version is at least `n + 1`, and every later write of the key
//! gets a larger one. So a write that expects `n + 1` can only succeed on the very value that was remembered; when
//! somebody else wrote, or the store counts the writes of all keys together and another key came in between, it is
//! refused and costs one try. Versions are 32 bits wide; 0 would write blindly and is never guessed.

use super::store::Cas;

/// Transactions that go without a guess after the first one that failed; doubled by each further one.
const FIRST_REST: u32 = 4;
/// The most.
const LONGEST_REST: u32 = 256;

/// The last value of one key. A worker's calls mostly belong to one pool; another key simply takes its place.
#[derive(Debug, Default)]
pub(super) struct Memory {
    key: String,
    value: Vec<u8>,
    /// Version that the value has if nobody wrote since.
    version: Option<Cas>,
    /// Transactions to go without a guess, and how many after the next failure.
    rest: u32,
    next_rest: u32,
}

impl Memory {
    /// Puts into `value` what `key` held after the last write here, and tells the version to write over.
    pub(super) fn recall(&mut self, key: &str, value: &mut Vec<u8>) -> Option<Cas> {
        if self.key != key {
            return None;
        }
        if self.rest > 0 {
            self.rest = self.rest.saturating_sub(1);
            return None;
        }
        let version = self.version.take()?;
        core::mem::swap(&mut self.value, value);
        Some(version)
    }

    /// A write was refused; `guessed`: it rested on memory.
    pub(super) fn refused(&mut self, guessed: bool) {
        if guessed {
            self.next_rest = self.next_rest.saturating_mul(2).clamp(FIRST_REST, LONGEST_REST);
            self.rest = self.next_rest;
        }
    }

    /// Takes note of a write over `version`; swaps `value` for a buffer to be used again.
    pub(super) fn wrote(&mut self, key: &str, value: &mut Vec<u8>, over: Option<Cas>, guessed: bool) {
        if guessed {
            self.next_rest = 0;
        }
        if self.key != key {
            self.key.clear();
            self.key.push_str(key);
        }
        core::mem::swap(&mut self.value, value);
        self.version = over.and_then(|version| version.0.checked_add(1)).map(Cas);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::super::ledger::Ledger;
    use super::super::store::{PutError, Scratch, SharedStore, transact};
    use crate::testing::shared_data::{Fate, Operation, SharedData};
    use crate::units::Timestamp;

    fn tick(store: &mut SharedData, scratch: &mut Scratch, key: &str, at: u64) {
        let now = Timestamp::from_micros(1_000_000_000 + at);
        transact(store, scratch, key, 8, now, |ledger: &mut Ledger| ledger.last = now.as_micros()).unwrap();
    }

    fn last(store: &mut SharedData, key: &str) -> u64 {
        let mut value = Vec::new();
        store.get(key, &mut value).unwrap().unwrap();
        Ledger::decode(&value).unwrap().last
    }

    #[test]
    fn a_worker_alone_reads_only_before_its_first_writes() {
        let (mut store, mut scratch) = (SharedData::new(), Scratch::default());
        for at in 1..=100 {
            tick(&mut store, &mut scratch, "a", at);
        }
        assert_eq!((store.gets, store.sets), (2, 100));
        assert_eq!(last(&mut store, "a"), 1_000_000_100);
    }

    #[test]
    fn what_another_worker_wrote_is_never_overwritten() {
        let (mut store, mut one, mut two) = (SharedData::new(), Scratch::default(), Scratch::default());
        let (mut added, now) = (0, Timestamp::from_micros(1));
        for round in 0..2_000_u64 {
            // Of changing regularity, and with writes of another key between, so that guesses hold and fail.
            if round % 11 == 3 {
                tick(&mut store, &mut one, "other", round);
            }
            let scratch = if round % 7 < round % 5 { &mut one } else { &mut two };
            transact(&mut store, scratch, "a", 8, now, |ledger: &mut Ledger| ledger.last += 1).unwrap();
            added += 1;
        }
        assert_eq!(last(&mut store, "a"), 1 + added);
    }

    #[test]
    fn guesses_that_keep_failing_are_made_ever_less_often() {
        let (mut store, mut one, mut two) = (SharedData::new(), Scratch::default(), Scratch::default());
        for at in 0..2_000 {
            tick(&mut store, &mut one, "a", 2 * at);
            tick(&mut store, &mut two, "a", 2 * at + 1);
        }
        assert!(store.sets - 4_000 < 40, "{} writes were refused", store.sets - 4_000);
    }

    #[test]
    fn a_change_without_effect_is_decided_on_what_is_there() {
        let (mut store, mut one, mut two) = (SharedData::new(), Scratch::default(), Scratch::default());
        for at in 1..=3 {
            tick(&mut store, &mut one, "a", at);
        }
        tick(&mut store, &mut two, "a", 9);
        let now = Timestamp::from_micros(2_000_000_000);
        let seen = transact(&mut store, &mut one, "a", 8, now, |ledger: &mut Ledger| ledger.last);
        assert_eq!(seen, Ok(1_000_000_009));
    }

    #[test]
    fn the_version_that_writes_blindly_is_never_guessed() {
        let (mut store, mut one, mut two) = (SharedData::new(), Scratch::default(), Scratch::default());
        tick(&mut store, &mut one, "a", 1);
        store.last_number = u32::MAX - 2;
        tick(&mut store, &mut one, "a", 2);
        tick(&mut store, &mut one, "a", 3);
        // The value now has the largest version; the next one has 1.
        tick(&mut store, &mut two, "a", 4);
        tick(&mut store, &mut one, "a", 5);
        assert_eq!(last(&mut store, "a"), 1_000_000_005);
        store.set_hook(|operation, _| match operation {
            Operation::Set => Fate::Mismatch,
            Operation::Get => Fate::Pass,
        });
        assert_eq!(store.put("a", b"x", super::super::store::Expected::Absent), Err(PutError::Mismatch));
    }
}
