//! The admission rule: one pure decision on a snapshot of a pool's ledger, written back by one compare-and-swap.
//!
//! [`Ask`] goes in, [`Decision`] comes out. A call that may not pass now is *booked*: it gets a time at which it
//! will be admitted, in weighted-fair order over the flows that wait. Parking a call inside Envoy is the same
//! waiting, done there; the caller of this module decides which of the two it is.

use crate::config::ClassId;
use crate::units::{Cost, Limits, PerResource, Resource, Span, Timestamp};

/// Who is accounted: a named tenant's index, or a bounded slot for unnamed ones.
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

#[allow(unused_imports)]
use Resource as _;
