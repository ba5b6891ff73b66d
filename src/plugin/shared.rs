//! Envoy shared data as the gate's store.

use super::host::{self, HostStatus};
use crate::gate::{Cas, Expected, PutError, SharedStore, StoreError};

/// A version that Envoy never hands out for a live value soon enough to matter: with a key that exists it is a
/// mismatch, with one that does not the value is created. 0 would write blindly, over another worker's value.
const NEVER: u32 = u32::MAX;

/// The host's shared data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostStore;

impl SharedStore for HostStore {
    fn get(&mut self, key: &str, value: &mut Vec<u8>) -> Result<Option<Cas>, StoreError> {
        match host::shared_data(key) {
            Ok((bytes, cas)) => {
                // Kept buffers grow now and then; taking the host's, each a little larger than the last, leaves holes.
                value.clear();
                value.extend_from_slice(&bytes);
                Ok(Some(Cas(cas)))
            }
            Err(HostStatus::NotFound) => Ok(None),
            Err(_) => Err(StoreError),
        }
    }

    fn put(&mut self, key: &str, value: &[u8], expected: Expected) -> Result<(), PutError> {
        let cas = match expected {
            Expected::Absent => NEVER,
            Expected::Is(Cas(cas)) => cas,
        };
        host::set_shared_data(key, value, cas).map_err(|status| match status {
            HostStatus::CasMismatch => PutError::Mismatch,
            _ => PutError::Failed,
        })
    }
}
