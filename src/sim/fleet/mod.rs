//! Fleets in virtual time: many Envoys, each running the code of the filter, around one store.
//!
//! Calls go through [`crate::session::Session`] and its gate, commands through the wire format to the Rust twin of the
//! script ([`crate::testing::fleet_store`]); between them is a network that delays, loses and breaks as it is told. Every Envoy has a
//! clock of its own.

pub mod network;
pub mod outcome;
pub mod replica;
pub mod suite;
pub mod world;

pub use outcome::FleetOutcome;
pub use world::play;

use crate::sim::load::Load;
use crate::units::Span;

/// Which Envoy a try reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Routing {
    /// Any of them.
    Random,
    /// A call's first any of them, each further one so many places after the last.
    Next(usize),
    /// The first with this probability, else any of them.
    Skewed(f64),
    /// Calls of one class reach one Envoy only, those of the others any.
    Pinned {
        /// The class.
        class: u8,
        /// Index of the Envoy.
        replica: usize,
    },
}

/// How the store and the way to it are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// In order.
    Well,
    /// Connections are refused.
    Down,
    /// Nothing is answered.
    Hangs,
    /// Each answer takes this much longer.
    Slow(Span, Span),
    /// Each answer takes longer by an exponential time of this mean.
    Jittery(Span),
    /// Refuses for want of memory.
    Full,
    /// Holds data of a newer version.
    Foreign,
    /// Something else answers.
    Garbage,
}

/// Something that happens to a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// The store becomes so.
    Store(State),
    /// The store restarts empty and is well.
    Restart,
    /// This Envoy does not reach the store any more.
    Cut(usize),
    /// This Envoy reaches it again.
    Mend(usize),
    /// This Envoy dies with all its calls.
    Die(usize),
    /// An Envoy begins where this one was.
    Join(usize),
}

/// One run of a fleet.
#[derive(Clone, Debug)]
pub struct FleetLoad {
    /// Callers, limits and times; its `workers` are those of one Envoy.
    pub load: Load,
    /// Envoys at the beginning.
    pub replicas: usize,
    /// Where tries go.
    pub routing: Routing,
    /// The filter's `timeout_ms`.
    pub timeout: Span,
    /// Shortest and longest round trip.
    pub round_trip: (Span, Span),
    /// The store's time for one operation.
    pub service: Span,
    /// Requests or answers that are lost.
    pub lost: f64,
    /// Clocks of the Envoys are apart by up to this much.
    pub clocks: Span,
    /// What happens.
    pub troubles: Vec<(Span, Trouble)>,
}

impl FleetLoad {
    /// A fleet under `load`: round trips of 0.5 to 5 ms, one answer in a hundred lost, clocks up to a minute apart, and the
    /// filter's default timeout.
    pub fn new(replicas: usize, load: Load) -> Self {
        Self {
            load,
            replicas,
            routing: Routing::Random,
            timeout: Span::from_millis(50),
            round_trip: (Span::from_micros(500), Span::from_millis(5)),
            service: Span::from_micros(100),
            lost: 0.01,
            clocks: Span::from_secs(60),
            troubles: Vec::new(),
        }
    }

    /// The same fleet changed by `change`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same fleet, to which this happens.
    #[must_use]
    pub fn and(mut self, after: f64, trouble: Trouble) -> Self {
        self.troubles.push((crate::sim::load::secs(after), trouble));
        self
    }
}
