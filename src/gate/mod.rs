//! The admission rule: one pure decision on a snapshot of a pool's ledger, written back by one compare-and-swap.
//!
//! [`Ask`] goes in, [`Decision`] comes out. A call that may not pass now is *booked*: it gets a time at which it
//! will be admitted, in weighted-fair order over the flows that wait. Parking a call inside Envoy is the same
//! waiting, done there; the caller of this module decides which of the two it is.

use crate::config::ClassId;
use crate::units::{Cost, Limits, PerResource, Span, Timestamp};

pub mod admit;
mod calls;
mod codec;
mod codec_queue;
mod compact;
mod crowd;
mod curve;
mod flow_state;
mod horizon;
mod lease;
pub mod ledger;
mod line;
mod memory;
mod meter;
mod queue;
mod rule;
pub mod settle;
mod slots;
pub mod standing;
pub mod store;
mod sums;
mod usage;
mod weight;

pub use admit::{admit, cancel, charge, charge_late};
pub use lease::{Lease, PART_LENT, draw, give_back, lend};
pub use ledger::{Ledger, LedgerError};
pub use settle::{adopt_remaining, settle};
pub use standing::{standings, summary};
pub use store::{
    Cas, Expected, PutError, Scratch, SharedStore, StoreError, TransactError, inspect, transact,
};

/// Who is accounted: 31 bits of a hash of the name, with the high bit set for tenants that the configuration does not
/// name. The configured ones never collide; made by [`crate::identity::resolve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantKey(pub u32);

/// One (class, tenant) pair in one pool, with its present weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The priority class.
    pub class: ClassId,
    /// The tenant within it.
    pub tenant: TenantKey,
    /// Weight of the class, 1 to 1000.
    pub class_weight: u32,
    /// Weight of the tenant within its class, 1 to 1000.
    pub tenant_weight: u32,
}

/// What a pool allows; derived from the configuration, the same in every worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The caps.
    pub limits: Limits,
    /// How much of each per-minute limit may be used at once.
    pub burst: Span,
    /// Never more than the limit in any trailing 60 s.
    pub strict_window: bool,
    /// Age at which a reservation whose end was never seen is settled at its estimate.
    pub reservation_ttl: Span,
}

/// One call that wants to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whose call it is.
    pub flow: Flow,
    /// What is reserved for it. Already clamped to the limits: no amount exceeds its limit.
    pub cost: Cost,
    /// Hash of (flow, body): the same body coming back is the same call.
    pub fingerprint: u64,
    /// Longest wait that may be told to this caller.
    pub max_told: Span,
    /// Longest time for which the caller may be held here instead of being told; zero = never.
    pub max_park: Span,
    /// The caller is held here and holds a booking, so it is recognised however early it asks.
    pub parked: bool,
}

/// Why a call may not pass now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// The pool is empty.
    Exhausted,
    /// The amount is there, but others are owed it.
    OverShare,
    /// All slots are in use.
    Concurrency,
    /// The provider asked for a pause.
    UpstreamPaused,
}

/// What a caller may be told of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The configured limit per minute (or slots).
    pub limit: u64,
    /// What could be taken now, at least 0.
    pub remaining: u64,
    /// Until everything is available again if nobody takes any.
    pub reset: Span,
}

/// Proof of an admission; handed back to be settled exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// When it was taken.
    pub taken_at: Timestamp,
    /// Who took it.
    pub flow: Flow,
    /// What was taken.
    pub cost: Cost,
}

/// A time booked for a call that may not pass now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Identifies the booking together with the flow.
    pub fingerprint: u64,
    /// The flow it belongs to.
    pub flow: Flow,
    /// Wait until its fair turn, at least 1 ms.
    pub wait: Span,
    /// Wait to tell a client: `wait`, at most [`Ask::max_told`]. When shorter than `wait`, the caller comes back to
    /// renew and keeps its place.
    pub told: Span,
}

/// The outcome of one admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Pass.
    Admit(Reservation),
    /// Come back at the booked time.
    Wait(Booking, WaitReason),
}

/// How a call ended, for settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The real cost; the request and the slot's use are counted.
    Actual(Cost),
    /// The upstream was never reached: everything is given back, the request too.
    Unused,
}

/// Standing of every limited resource.
pub type Standings = PerResource<Option<Standing>>;

/// What a settlement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The reservation was older than `reservation_ttl`: it had been settled at its estimate, nothing was done.
    pub late: bool,
    /// Given back to the moment it was taken from.
    pub refunded: Cost,
    /// Charged on top of what was reserved.
    pub overrun: Cost,
}

/// One flow's part of a pool, for the status page and the fairness gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowShare {
    /// Whose.
    pub flow: Flow,
    /// Calls that were told to come back and are still expected.
    pub waiting: u32,
    /// Share of the pool it is entitled to among those that wait, thousandths.
    pub entitled_permille: u32,
    /// Share of the service that the waiting flows lately received, thousandths.
    pub received_permille: u32,
    /// Part of its refused calls that come back, thousandths.
    pub returning_permille: u32,
}

/// A booked return, for the status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// Whose.
    pub flow: Flow,
    /// Time until it.
    pub wait: Span,
}

/// A pool at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls in flight.
    pub in_flight: u32,
    /// Calls that were told to come back and are still expected; parked ones too.
    pub booked: u32,
    /// Recent mean duration of a call; `None` before the first one ended.
    pub mean_duration: Option<Span>,
    /// Rest of the pause that the provider asked for.
    pub paused: Option<Span>,
    /// Effective limits in thousandths of the configured ones.
    pub scale_permille: u32,
    /// Flows that wait, at most the number asked for.
    pub flows: Vec<FlowShare>,
    /// The next returns in order of time, at most the number asked for.
    pub upcoming: Vec<Upcoming>,
    /// Jain's index of received over entitled share of the flows that wait, thousandths; 1000 when fewer than two.
    pub jain_permille: u32,
}
