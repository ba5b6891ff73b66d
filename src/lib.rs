//! Admission gate for LLM traffic inside Envoy.
//!
//! The way of a call, in the order the modules are used:
//!
//! ```text
//! headers -> identity (tenant, class) -> body -> cost::dialect (which API?) -> cost (estimate) -> pool (which cap?)
//!     -> gate: one compare-and-swap on the pool's ledger: admit | park | deny with booking | too large
//!     -> upstream ... response -> cost::usage -> settle (refund, debt) -> upstream (limit headers, 429)
//! ```
//!
//! Below [`plugin`] nothing reads a clock, draws randomness or calls the host: time, entropy and storage are
//! arguments, so that simulator, interleaving tests, fuzzers and the filter run the same code.

#[cfg(not(target_arch = "wasm32"))]
pub mod check;
pub mod config;
pub mod cost;
pub mod fleet;
pub mod gate;
pub mod hash;
pub mod identity;
pub mod observe;
pub mod pool;
pub mod reply;
pub mod session;
mod sorted;
pub mod units;
pub mod upstream;

#[cfg(target_os = "wasi")]
pub mod plugin;
#[cfg(not(target_arch = "wasm32"))]
pub mod sim;
#[cfg(not(target_os = "wasi"))]
pub mod testing;
