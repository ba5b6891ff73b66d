//! The ledger in a store that knows get and compare-and-swap.

use crate::units::Timestamp;

use super::ledger::{Ledger, LedgerError};
use super::memory::Memory;

/// Version of a stored value, as the store counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cas(pub u32);

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No value under the key. On Envoy: a compare-and-swap number that never matches (`u32::MAX`), since a missing key
    /// accepts any number but zero, and zero writes blindly.
    Absent,
    /// The value that was read with this version.
    Is(Cas),
}

/// The store's host call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreError;

/// Why a write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// Somebody else wrote in between.
    Mismatch,
    /// The store's host call failed.
    Failed,
}

/// Shared values with compare-and-swap.
pub trait SharedStore {
    /// Reads the value of `key` into `value` (which is cleared first). `None` when there is none.
    fn get(&mut self, key: &str, value: &mut Vec<u8>) -> Result<Option<Cas>, StoreError>;
    /// Writes `value` if what is there is as expected.
    fn put(&mut self, key: &str, value: &[u8], expected: Expected) -> Result<(), PutError>;
}

/// Memory kept between transactions.
#[derive(Debug)]
pub struct Scratch {
    read: Vec<u8>,
    written: Vec<u8>,
    ledger: Ledger,
    memory: Memory,
}

impl Default for Scratch {
    fn default() -> Self {
        let ledger = Ledger::new(Timestamp::EPOCH);
        Self { read: Vec::new(), written: Vec::new(), ledger, memory: Memory::default() }
    }
}

/// Why a transaction did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactError {
    /// All tries met somebody else's write.
    Contended,
    /// The value was not a ledger; it was replaced by an empty one, so that the next call finds the gate working.
    Corrupt,
    /// The value was written by a newer version of this module, and left as it is.
    Newer,
    /// A host call failed.
    Host,
}

/// Reads the ledger under `key` (an empty one when there is none), applies `change`, and writes it back unless
/// nothing changed; again from a fresh read when somebody else wrote in between, at most `attempts` times. Before these
/// comes one try on the value last written here, which spares the read where nobody else wrote.
///
/// # Errors
/// See [`TransactError`]. In every case the effect of `change` is not in the store.
pub fn transact<T>(
    store: &mut dyn SharedStore,
    scratch: &mut Scratch,
    key: &str,
    attempts: u32,
    now: Timestamp,
    mut change: impl FnMut(&mut Ledger) -> T,
) -> Result<T, TransactError> {
    let mut outcome = None;
    // One copy of the loop in the module, whatever is to be changed.
    repeat(store, scratch, key, attempts.max(1), now, &mut |ledger| outcome = Some(change(ledger)))?;
    outcome.ok_or(TransactError::Contended)
}

fn repeat(
    store: &mut dyn SharedStore,
    scratch: &mut Scratch,
    key: &str,
    attempts: u32,
    now: Timestamp,
    change: &mut dyn FnMut(&mut Ledger),
) -> Result<(), TransactError> {
    let mut left = attempts;
    let mut version = scratch.memory.recall(key, &mut scratch.read);
    let mut guessed = version.is_some();
    while left > 0 {
        if !guessed {
            left = left.saturating_sub(1);
            version = store.get(key, &mut scratch.read).map_err(|StoreError| TransactError::Host)?;
        }
        let expected = version.map_or(Expected::Absent, Expected::Is);
        match parse(version, scratch, now) {
            Ok(()) => {}
            Err(LedgerError::Newer) => return Err(TransactError::Newer),
            Err(LedgerError::Corrupt) => return Err(replace(store, scratch, key, expected, now)),
        }
        change(&mut scratch.ledger);
        scratch.written.clear();
        scratch.ledger.encode(&mut scratch.written);
        if version.is_some() && scratch.written == scratch.read {
            // What leaves no trace is decided on what is really there.
            if core::mem::take(&mut guessed) {
                continue;
            }
            return Ok(());
        }
        match store.put(key, &scratch.written, expected) {
            Ok(()) => {
                scratch.memory.wrote(key, &mut scratch.written, version, guessed);
                return Ok(());
            }
            Err(PutError::Mismatch) => scratch.memory.refused(guessed),
            Err(PutError::Failed) => return Err(TransactError::Host),
        }
        guessed = false;
    }
    Err(TransactError::Contended)
}

/// Puts an empty ledger in the place of what is none.
fn replace(
    store: &mut dyn SharedStore,
    scratch: &mut Scratch,
    key: &str,
    expected: Expected,
    now: Timestamp,
) -> TransactError {
    scratch.written.clear();
    scratch.ledger.reset(now);
    scratch.ledger.encode(&mut scratch.written);
    match store.put(key, &scratch.written, expected) {
        Ok(()) | Err(PutError::Mismatch) => TransactError::Corrupt,
        Err(PutError::Failed) => TransactError::Host,
    }
}

/// Reads the ledger under `key` (an empty one when there is none) and shows it to `look`. Never writes.
///
/// # Errors
/// See [`TransactError`]; never [`TransactError::Contended`].
pub fn inspect<T>(
    store: &mut dyn SharedStore,
    scratch: &mut Scratch,
    key: &str,
    now: Timestamp,
    look: impl FnOnce(&Ledger) -> T,
) -> Result<T, TransactError> {
    let version = store.get(key, &mut scratch.read).map_err(|StoreError| TransactError::Host)?;
    match parse(version, scratch, now) {
        Ok(()) => Ok(look(&scratch.ledger)),
        Err(LedgerError::Newer) => Err(TransactError::Newer),
        Err(LedgerError::Corrupt) => Err(TransactError::Corrupt),
    }
}

/// Takes the ledger from the value that was read; an empty one where there is none, or where it was emptied, which is
/// how hosts without deletion say "removed".
fn parse(version: Option<Cas>, scratch: &mut Scratch, now: Timestamp) -> Result<(), LedgerError> {
    if version.is_none() || scratch.read.is_empty() {
        scratch.ledger.reset(now);
        return Ok(());
    }
    scratch.ledger.reload(&scratch.read)
}
