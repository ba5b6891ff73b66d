//! What stands between callers and the provider: the real gate, or something to compare it with.

use crate::gate::{Ask, Policy, Reservation, Settlement};
use crate::units::{Cost, Span, Timestamp};

/// One try of one call, as a worker of the proxy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Knock {
    /// Index of the worker the try reached.
    pub worker: usize,
    /// What is asked for.
    pub ask: Ask,
}

/// What a refused caller learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Time until its turn, as far as the gatekeeper knows.
    pub wait: Span,
    /// Time it is told: `wait`, at most the longest that may be told.
    pub told: Span,
}

/// What becomes of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Goes on to the provider; the reservation, if any, is handed back when the call ends.
    Pass(Option<Reservation>),
    /// Refused. `None`: the caller is told no time and backs off by itself.
    Later(Option<Turn>),
}

/// Decides on each try. Time is an argument, as everywhere below the plugin.
pub trait Gatekeeper {
    /// Name in tables and figures.
    fn name(&self) -> &'static str;

    /// Decides one try.
    fn call(&mut self, knock: &Knock, now: Timestamp) -> Answer;

    /// An admitted call is over.
    fn end(&mut self, worker: usize, reservation: &Reservation, settlement: Settlement, now: Timestamp);

    /// The provider refused a call that was let go: it counted a request, and nothing else.
    fn refused(&mut self, worker: usize, reservation: &Reservation, now: Timestamp) {
        self.end(worker, reservation, Settlement::Actual(Cost { requests: 1, ..Cost::default() }), now);
    }

    /// The configuration was reloaded with other limits.
    fn reload(&mut self, policy: &Policy, now: Timestamp);

    /// What the provider did with the traffic is visible to nobody but naive callers: true when the gatekeeper lets
    /// everything through and the provider alone refuses.
    fn is_absent(&self) -> bool {
        false
    }
}
