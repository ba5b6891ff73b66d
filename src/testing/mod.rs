//! Fakes for tests, benches and the simulator.
