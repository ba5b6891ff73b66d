//! The load generator: callers of several flows, closed or open loop, naive or obedient.

pub mod call;
pub mod flow;
pub mod random;
pub mod record;
pub mod run;
pub mod summary;
