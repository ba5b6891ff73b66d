//! A small proxy-wasm host (ABI 0.2.1) that runs the compiled filter as Envoy does: several workers, each with its
//! own linear memory, over one shared store; a virtual clock; header maps, body buffers, pauses, local replies and
//! end callbacks with Envoy's rules; failing host calls and traps on demand.
//!
//! What Envoy would leave undefined (resuming a call that is not held, reading past a buffer) is written down in
//! [`World::violations`] instead of being tolerated.

pub mod case;
pub mod clock;
pub mod env;
pub mod fault;
pub mod host;
pub mod http;
pub mod module;
pub mod state;
pub mod stats;
pub mod status;
pub mod store;
pub mod stream;
pub mod vm;
pub mod wasi;
pub mod wire;
pub mod world;

pub use fault::{Effect, Fault};
pub use host::{FailurePolicy, Host, Options, StreamId};
pub use status::Status;
pub use stream::{ReplyOrigin, Stream};
pub use wire::Headers;
pub use world::World;
