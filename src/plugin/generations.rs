//! The living configurations of this VM, and which of them counts.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::host;
use super::shared::HostStore;
use super::worker::Worker;
use crate::config::Lineage;
use crate::gate::{Expected, SharedStore as _};
use crate::units::Timestamp;

const KEY: &str = "bp.generations";
/// Other workers meet connections at the same time; who still fails leaves it to the next call.
const TRIES: u32 = 8;

thread_local! {
    static LIVING: RefCell<Living> = const { RefCell::new(Living { workers: Vec::new(), record: Vec::new() }) };
}

struct Living {
    /// A reload leaves the old one alive until its listener has drained and its last call has ended.
    workers: Vec<Weak<Worker>>,
    /// The shared record by which they were arranged.
    record: Vec<u8>,
}

/// Changes the shared record, and gives its bytes. Best effort: a host that fails leaves the order as it was.
#[inline(never)]
fn change(change: &dyn Fn(&mut Lineage)) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..TRIES {
        let cas = HostStore.get(KEY, &mut bytes).ok()?;
        let mut lineage = Lineage::decode(&bytes);
        change(&mut lineage);
        let changed = lineage.encode();
        if changed == bytes {
            return Some(bytes);
        }
        if HostStore.put(KEY, &changed, cas.map_or(Expected::Absent, Expected::Is)).is_ok() {
            return Some(changed);
        }
    }
    None
}

/// Makes every living configuration go by those that count more.
fn arrange(record: Vec<u8>) {
    LIVING.with(|living| {
        let Ok(mut living) = living.try_borrow_mut() else { return };
        let lineage = Lineage::decode(&record);
        living.record = record;
        living.workers.retain(|worker| worker.strong_count() > 0);
        let mut workers: Vec<Rc<Worker>> = Vec::new();
        for worker in living.workers.iter().filter_map(Weak::upgrade) {
            let rank = lineage.rank(worker.digest);
            let at =
                workers.iter().position(|other| lineage.rank(other.digest) > rank).unwrap_or(workers.len());
            workers.insert(at, worker);
        }
        for (at, worker) in workers.iter().enumerate() {
            worker.lead();
            for newer in workers.iter().skip(at.saturating_add(1)) {
                worker.follow(&newer.plan);
            }
            let others = workers.iter().filter(|other| !Rc::ptr_eq(other, worker));
            worker.contested.set(others.into_iter().any(|other| worker.disagrees_with(&other.plan)));
        }
    });
}

/// A configuration begins to live here.
pub(super) fn loaded(worker: &Rc<Worker>, now: Timestamp) {
    LIVING.with(|living| {
        if let Ok(mut living) = living.try_borrow_mut() {
            living.workers.push(Rc::downgrade(worker));
        }
    });
    arrange(change(&|lineage| lineage.load(worker.digest, now)).unwrap_or_default());
}

/// A configuration ends.
pub(super) fn ended(worker: &Worker) {
    change(&|lineage| lineage.forget(worker.digest));
}

/// Looks whether the order is still that of the shared record, and nobody died.
pub(super) fn refresh() {
    if LIVING.with(|living| living.try_borrow().is_ok_and(|living| living.workers.len() > 1)) {
        follow_record(change(&|_| ()));
    }
}

/// Before a call of a contested configuration: its connection may tell that the configuration counts again.
pub(super) fn meet(worker: &Worker, now: Timestamp) {
    let number =
        host::property(&["connection_id"]).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let Some(connection) = number else { return };
    let rivals: Vec<u64> = LIVING.with(|living| {
        let Ok(living) = living.try_borrow() else { return Vec::new() };
        let rivals =
            living.workers.iter().filter_map(Weak::upgrade).filter(|other| other.digest != worker.digest);
        rivals.filter(|other| worker.disagrees_with(&other.plan)).map(|other| other.digest).collect()
    });
    follow_record(change(&|lineage| lineage.meet(worker.digest, connection, &rivals, now)));
}

fn follow_record(record: Option<Vec<u8>>) {
    let Some(record) = record else { return };
    let same = LIVING.with(|living| {
        living.try_borrow().is_ok_and(|living| {
            living.record == record && living.workers.iter().all(|worker| worker.strong_count() > 0)
        })
    });
    if !same {
        arrange(record);
    }
}
