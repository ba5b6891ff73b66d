//! Envoy's shared data, to the letter of its compare-and-swap.
//!
//! One counter numbers the writes of all keys; it is 32 bits wide and skips 0. Writing with number 0 is blind. Writing
//! with any other number fails on an existing value with another number, and *succeeds* on a missing key. Nothing is
//! ever deleted.

use std::collections::BTreeMap;

use crate::gate::{Cas, Expected, PutError, SharedStore, StoreError};

/// What a hook makes of the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Goes on as usual.
    Pass,
    /// A write finds another number; a read is not affected.
    Mismatch,
    /// The host call fails.
    Fail,
}

/// One of the two host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `get_shared_data`.
    Get,
    /// `set_shared_data`.
    Set,
}

type Hook = Box<dyn FnMut(Operation, &str) -> Fate>;

/// A fake of the host's store.
#[derive(Default)]
pub struct SharedData {
    entries: BTreeMap<String, (Vec<u8>, u32)>,
    /// Number of the last write; the next one gets the following number.
    pub last_number: u32,
    hook: Option<Hook>,
    /// Reads so far.
    pub gets: u64,
    /// Attempted writes so far.
    pub sets: u64,
}

impl SharedData {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks `hook` about every call from now on.
    pub fn set_hook(&mut self, hook: impl FnMut(Operation, &str) -> Fate + 'static) {
        self.hook = Some(Box::new(hook));
    }

    /// Asks no hook any more.
    pub fn clear_hook(&mut self) {
        self.hook = None;
    }

    /// The host's `set_shared_data` with its raw number.
    ///
    /// # Errors
    /// The two statuses that the host answers.
    pub fn set_raw(&mut self, key: &str, value: &[u8], number: u32) -> Result<(), PutError> {
        self.sets = self.sets.saturating_add(1);
        match self.fate(Operation::Set, key) {
            Fate::Pass => {}
            Fate::Mismatch => return Err(PutError::Mismatch),
            Fate::Fail => return Err(PutError::Failed),
        }
        let differs = self.entries.get(key).is_some_and(|(_, current)| number != *current);
        if number != 0 && differs {
            return Err(PutError::Mismatch);
        }
        self.last_number = self.last_number.wrapping_add(1).max(1);
        self.entries.insert(key.to_owned(), (value.to_vec(), self.last_number));
        Ok(())
    }

    /// What a key holds.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.entries.get(key).map(|(value, _)| value.as_slice())
    }

    /// Keys that exist.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    fn fate(&mut self, operation: Operation, key: &str) -> Fate {
        self.hook.as_mut().map_or(Fate::Pass, |hook| hook(operation, key))
    }
}

impl SharedStore for SharedData {
    fn get(&mut self, key: &str, value: &mut Vec<u8>) -> Result<Option<Cas>, StoreError> {
        self.gets = self.gets.saturating_add(1);
        value.clear();
        if self.fate(Operation::Get, key) == Fate::Fail {
            return Err(StoreError);
        }
        Ok(self.entries.get(key).map(|(bytes, number)| {
            value.extend_from_slice(bytes);
            Cas(*number)
        }))
    }

    fn put(&mut self, key: &str, value: &[u8], expected: Expected) -> Result<(), PutError> {
        let number = match expected {
            Expected::Absent => u32::MAX,
            Expected::Is(Cas(number)) => number,
        };
        self.set_raw(key, value, number)
    }
}

impl core::fmt::Debug for SharedData {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedData")
            .field("keys", &self.entries.len())
            .field("last_number", &self.last_number)
            .finish_non_exhaustive()
    }
}
