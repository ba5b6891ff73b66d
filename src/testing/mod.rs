//! Fakes for tests, benches and the simulator.

pub mod shared_data;
