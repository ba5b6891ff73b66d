//! The mock provider: endpoints like OpenAI's and Anthropic's, behind caps of its own.

pub mod behave;
pub mod body;
pub mod caps;
pub mod dialect;
pub mod errors;
mod others;
pub mod server;
pub mod sse;
pub mod stats;
mod write;
