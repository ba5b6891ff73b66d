//! The ABI host's own tests, and everything that runs the compiled filter in it.

mod cases;
mod filter;
mod host;
