//! Fakes for tests, benches and the simulator.

pub mod counts;
pub mod shared_data;
