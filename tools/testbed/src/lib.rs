//! Mock LLM provider and load generator, for the demo, the end-to-end tests and the benchmarks.
//!
//! Nothing here is part of the filter. Both programs read the real clock and sleep; that is their job.
#![allow(clippy::arithmetic_side_effects, clippy::disallowed_methods, clippy::indexing_slicing)]

pub mod args;
pub mod llm_tokens;
pub mod load;
pub mod mock;
