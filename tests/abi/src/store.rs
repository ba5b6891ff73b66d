//! Shared data and shared queues of one process, with Envoy's exact rules.

use std::collections::{BTreeMap, VecDeque};

use crate::status::Status;

/// Shared key-value data of every virtual machine with the same `vm_id`.
#[derive(Clone, Debug)]
pub struct SharedData {
    entries: BTreeMap<Vec<u8>, (Vec<u8>, u32)>,
    next_cas: u32,
}

impl Default for SharedData {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), next_cas: 1 }
    }
}

impl SharedData {
    /// The value and its compare-and-swap number.
    pub fn get(&self, key: &[u8]) -> Option<(&[u8], u32)> {
        self.entries.get(key).map(|(value, cas)| (value.as_slice(), *cas))
    }

    /// Writes `value`. A `cas` of 0 writes blindly; any other must match, unless the key does not exist yet.
    pub fn set(&mut self, key: &[u8], value: &[u8], cas: u32) -> Status {
        if cas != 0 && self.entries.get(key).is_some_and(|(_, current)| *current != cas) {
            return Status::CasMismatch;
        }
        let stamp = self.next_cas;
        self.next_cas = self.next_cas.checked_add(1).unwrap_or(1);
        self.entries.insert(key.to_vec(), (value.to_vec(), stamp));
        Status::Ok
    }

    /// Every key with its value.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(key, (value, _))| (key.as_slice(), value.as_slice()))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|(key, (value, _))| key.len() + value.len()).sum()
    }

    /// Overwrites `key` from outside the ABI, for tests of foreign and damaged state.
    pub fn plant(&mut self, key: &[u8], value: &[u8]) {
        self.set(key, value, 0);
    }
}

/// Shared queues; a queue's identifier is its position plus one.
#[derive(Clone, Debug, Default)]
pub struct SharedQueues {
    queues: Vec<Queue>,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    name: Vec<u8>,
    owner: (usize, u32),
    items: VecDeque<Vec<u8>>,
}

impl SharedQueues {
    /// Registers a queue for a worker's root context; the last registrant is notified.
    pub fn register(&mut self, name: &[u8], owner: (usize, u32)) -> u32 {
        if let Some(index) = self.queues.iter().position(|queue| queue.name == name) {
            self.queues[index].owner = owner;
            return index as u32 + 1;
        }
        self.queues.push(Queue { name: name.to_vec(), owner, items: VecDeque::new() });
        self.queues.len() as u32
    }

    /// The identifier of a registered queue.
    pub fn resolve(&self, name: &[u8]) -> Option<u32> {
        self.queues.iter().position(|queue| queue.name == name).map(|index| index as u32 + 1)
    }

    /// Appends an item; returns who is to be notified.
    pub fn push(&mut self, id: u32, item: &[u8]) -> Option<(usize, u32)> {
        let queue = self.queues.get_mut((id as usize).checked_sub(1)?)?;
        queue.items.push_back(item.to_vec());
        Some(queue.owner)
    }

    /// Takes the oldest item: `Err` for an unknown queue or an empty one.
    pub fn pop(&mut self, id: u32) -> Result<Vec<u8>, Status> {
        let index = (id as usize).checked_sub(1).ok_or(Status::NotFound)?;
        let queue = self.queues.get_mut(index).ok_or(Status::NotFound)?;
        queue.items.pop_front().ok_or(Status::Empty)
    }
}
