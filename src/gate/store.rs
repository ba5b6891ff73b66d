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

/// Buffers kept between transactions.
#[derive(Debug, Default)]
pub struct Scratch {
    read: Vec<u8>,
    written: Vec<u8>,
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
        let (mut ledger, expected) = match read(store, scratch, key, now) {
            Ok(found) => found,
            Err(ReadError::Host) => return Err(TransactError::Host),
            Err(ReadError::Ledger(LedgerError::Newer, _)) => return Err(TransactError::Newer),
            Err(ReadError::Ledger(LedgerError::Corrupt, expected)) => {
                scratch.written.clear();
                Ledger::new(now).encode(&mut scratch.written);
                return match store.put(key, &scratch.written, expected) {
                    Ok(()) | Err(PutError::Mismatch) => Err(TransactError::Corrupt),
                    Err(PutError::Failed) => Err(TransactError::Host),
                };
            }
        };
        let outcome = change(&mut ledger);
        scratch.written.clear();
        ledger.encode(&mut scratch.written);
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
        Ok((ledger, _)) => Ok(look(&ledger)),
        Err(ReadError::Host) => Err(TransactError::Host),
        Err(ReadError::Ledger(LedgerError::Newer, _)) => Err(TransactError::Newer),
        Err(ReadError::Ledger(LedgerError::Corrupt, _)) => Err(TransactError::Corrupt),
    }
}

enum ReadError {
    Host,
    Ledger(LedgerError, Expected),
}

fn read(
    store: &mut dyn SharedStore,
    scratch: &mut Scratch,
    key: &str,
    now: Timestamp,
) -> Result<(Ledger, Expected), ReadError> {
    let Some(cas) = store.get(key, &mut scratch.read).map_err(|StoreError| ReadError::Host)? else {
        scratch.read.clear();
        return Ok((Ledger::new(now), Expected::Absent));
    };
    let expected = Expected::Is(cas);
    // An emptied value is how hosts without deletion say "removed".
    if scratch.read.is_empty() {
        return Ok((Ledger::new(now), expected));
    }
    match Ledger::decode(&scratch.read) {
        Ok(ledger) => Ok((ledger, expected)),
        Err(error) => Err(ReadError::Ledger(error, expected)),
    }
}
