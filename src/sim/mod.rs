//! Virtual-time simulator over the same gate code that runs in the filter.
//!
//! A [`load::Load`] says who calls, how often, at what cost and how each caller behaves when refused. [`world::play`]
//! runs it in virtual time against a [`gatekeeper::Gatekeeper`]: the gate ([`real::RealGate`]) or one of the
//! baselines. Everything is drawn from one seed, so the same seed gives the same [`outcome::Outcome`] to the last
//! digit, and the numbers can be assertions in tests.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

pub mod baseline;
pub mod chart;
pub mod client;
pub mod figures;
pub mod fleet;
pub mod gatekeeper;
pub mod ideal;
pub mod load;
pub mod loads;
pub mod outcome;
pub mod provider;
pub mod real;
pub mod report;
pub mod rng;
pub mod suite;
pub mod world;

pub use gatekeeper::{Answer, Gatekeeper, Knock};
pub use load::Load;
pub use outcome::Outcome;
pub use world::play;
