//! What the fuzz targets do with their input. The targets themselves are one line each, so that an ordinary test can run
//! the same checks on the seeds and on inputs made from them: `tests/fuzz_seeds.rs`.

pub mod bytes;
pub mod config;
pub mod headers;
pub mod learned;
pub mod ledger;
pub mod request;
pub mod response;
pub mod world;
