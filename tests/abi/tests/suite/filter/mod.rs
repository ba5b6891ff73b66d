//! The compiled filter under faults, random callbacks, several workers and parking.

mod adversaries;
mod bounds;
mod faults;
mod fuzz;
mod parking;
mod workers;
