//! Fakes for tests, benches and the simulator.

pub mod counts;
pub mod fleet_store;
pub mod shared_data;
