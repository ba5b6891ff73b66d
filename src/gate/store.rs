//! The ledger in a store that knows get and compare-and-swap.

use crate::units::Timestamp;

use super::ledger::{Ledger, LedgerError};

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
}

impl Default for Scratch {
    fn default() -> Self {
        Self { read: Vec::new(), written: Vec::new(), ledger: Ledger::new(Timestamp::EPOCH) }
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

impl TransactError {
    /// Name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contended => "cas_contended",
            Self::Corrupt => "state_corrupt",
            Self::Newer => "state_newer",
            Self::Host => "state_host_error",
        }
    }
}

/// Reads the ledger under `key` (an empty one when there is none), applies `change`, and writes it back unless
/// nothing changed; again from a fresh read when somebody else wrote in between, at most `attempts` times in all.
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
    for _ in 0..attempts.max(1) {
        let expected = match read(store, scratch, key, now) {
            Ok(expected) => expected,
            Err(ReadError::Host) => return Err(TransactError::Host),
            Err(ReadError::Ledger(LedgerError::Newer, _)) => return Err(TransactError::Newer),
            Err(ReadError::Ledger(LedgerError::Corrupt, expected)) => {
                scratch.written.clear();
                scratch.ledger.reset(now);
                scratch.ledger.encode(&mut scratch.written);
                return match store.put(key, &scratch.written, expected) {
                    Ok(()) | Err(PutError::Mismatch) => Err(TransactError::Corrupt),
                    Err(PutError::Failed) => Err(TransactError::Host),
                };
            }
        };
        let outcome = change(&mut scratch.ledger);
        scratch.written.clear();
        scratch.ledger.encode(&mut scratch.written);
        if scratch.written == scratch.read {
            return Ok(outcome);
        }
        match store.put(key, &scratch.written, expected) {
            Ok(()) => return Ok(outcome),
            Err(PutError::Mismatch) => {}
            Err(PutError::Failed) => return Err(TransactError::Host),
        }
    }
    Err(TransactError::Contended)
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
    match read(store, scratch, key, now) {
        Ok(_) => Ok(look(&scratch.ledger)),
        Err(ReadError::Host) => Err(TransactError::Host),
        Err(ReadError::Ledger(LedgerError::Newer, _)) => Err(TransactError::Newer),
        Err(ReadError::Ledger(LedgerError::Corrupt, _)) => Err(TransactError::Corrupt),
    }
}

enum ReadError {
    Host,
    Ledger(LedgerError, Expected),
}

/// Reads the ledger into `scratch`.
fn read(
    store: &mut dyn SharedStore,
    scratch: &mut Scratch,
    key: &str,
    now: Timestamp,
) -> Result<Expected, ReadError> {
    let found = store.get(key, &mut scratch.read).map_err(|StoreError| ReadError::Host)?;
    let expected = found.map_or(Expected::Absent, Expected::Is);
    // An emptied value is how hosts without deletion say "removed".
    if found.is_none() || scratch.read.is_empty() {
        scratch.read.clear();
        scratch.ledger.reset(now);
        return Ok(expected);
    }
    scratch.ledger.reload(&scratch.read).map_err(|error| ReadError::Ledger(error, expected))?;
    Ok(expected)
}
