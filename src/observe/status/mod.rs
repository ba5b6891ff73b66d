//! The status page: a plain-data [`Snapshot`], its JSON, and the page that draws it.
//!
//! Nothing here knows the host. Names shown are those of the configuration; whoever it does not name is `other`, and no
//! credential, nor a hash of one, is ever part of a snapshot.

use crate::units::{Limits, Resource};

pub mod build;
pub mod denials;
pub mod json;
pub mod page;

/// Most flows, and most booked returns, shown of one pool.
pub const MOST_ROWS: usize = 50;
/// Most denials a worker remembers.
pub const MOST_DENIALS: usize = 20;

/// One limit of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// Which.
    pub resource: Resource,
    /// As configured: per minute, or slots.
    pub limit: u64,
    /// The most that may be taken at once, after idling: the burst of a limit per minute, or all slots.
    pub at_once: u64,
    /// What could be taken now, at most [`Self::at_once`].
    pub remaining: u64,
    /// Until all of it is there again if nobody takes any, ms.
    pub reset_ms: u64,
}

/// One waiting flow of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// Class name.
    pub class: String,
    /// Configured tenant name, or `other`.
    pub tenant: String,
    /// Calls that were told to come back, parked ones included.
    pub waiting: u32,
    /// Share it is entitled to among those that wait, thousandths.
    pub entitled_permille: u32,
    /// Share it lately received among those that wait, thousandths.
    pub received_permille: u32,
    /// Part of its refused calls that come back, thousandths.
    pub returning_permille: u32,
}

/// One booked return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnView {
    /// Class name.
    pub class: String,
    /// Configured tenant name, or `other`.
    pub tenant: String,
    /// Time until it, ms.
    pub in_ms: u64,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Name in the configuration.
    pub name: String,
    /// False when its ledger could not be read; the other figures are then empty.
    pub readable: bool,
    /// Its limits.
    pub limits: Vec<LimitView>,
    /// Effective limits in thousandths of the configured ones; below 1000 when the provider's refusals lowered them.
    pub scale_permille: u32,
    /// Rest of the pause that the provider asked for, ms.
    pub paused_ms: Option<u64>,
    /// Calls on their way.
    pub in_flight: u64,
    /// Calls held inside Envoy, over all workers.
    pub parked: u64,
    /// Calls told to come back and still expected, parked ones included.
    pub booked: u64,
    /// Recent mean duration of a call, ms.
    pub mean_duration_ms: Option<u64>,
    /// Jain's index over the waiting flows, thousandths; 1000 when fewer than two wait.
    pub fairness_permille: u32,
    /// Waiting flows, at most [`MOST_ROWS`].
    pub flows: Vec<FlowView>,
    /// Next returns in order of time, at most [`MOST_ROWS`].
    pub returns: Vec<ReturnView>,
}

/// One refusal by this worker; in shadow mode one that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialView {
    /// How long ago, ms.
    pub ago_ms: u64,
    /// Pool name.
    pub pool: String,
    /// Class name.
    pub class: String,
    /// Configured tenant name, or `other`.
    pub tenant: String,
    /// Value of `x-backpressure-reason`.
    pub reason: &'static str,
    /// Wait that was told, ms; `None` when the call can never pass.
    pub told_ms: Option<u64>,
}

/// Everything the page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Version of the filter.
    pub version: &'static str,
    /// `enforce` or `shadow`.
    pub mode: &'static str,
    /// Moment of the snapshot, ms since the Unix epoch.
    pub at_ms: u64,
    /// Pools in the order of the configuration.
    pub pools: Vec<PoolView>,
    /// Latest refusals of this worker, newest first.
    pub denials: Vec<DenialView>,
    /// Anomalies by reason since Envoy started, over all workers; only those that occurred.
    pub anomalies: Vec<(&'static str, u64)>,
    /// Writes to the ledgers that this worker has to try again.
    pub owed: u64,
}

impl PoolView {
    /// A pool whose ledger could not be read.
    pub fn unreadable(name: &str, limits: &Limits) -> Self {
        let limits = Resource::ALL
            .into_iter()
            .filter_map(|resource| {
                let limit = (*limits.get(resource))?;
                Some(LimitView { resource, limit, at_once: limit, remaining: 0, reset_ms: 0 })
            })
            .collect();
        Self {
            name: name.to_owned(),
            readable: false,
            limits,
            scale_permille: 1_000,
            paused_ms: None,
            in_flight: 0,
            parked: 0,
            booked: 0,
            mean_duration_ms: None,
            fairness_permille: 1_000,
            flows: Vec::new(),
            returns: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
