//! The only place that knows the proxy-wasm ABI: callbacks in, host calls out.
//!
//! `root` is one configuration in one worker, `generations` which of several counts, `http` one call, `verdict` what is done with it, `parking` the calls held back, `pause` how bodies are, `watch` whether the
//! host shows bodies at all then, `host` the raw host calls, `fleet` callouts to the store of a fleet, `questions` the decisions among them, `shared` the store and
//! the counters.
#![allow(clippy::disallowed_methods)]

mod fleet;
mod generations;
mod host;
mod http;
mod meters;
mod parking;
mod pause;
mod questions;
mod root;
mod shared;
mod status;
mod verdict;
mod watch;
mod worker;

use proxy_wasm::traits::RootContext;

/// Registers the filter; Envoy calls it once per VM.
#[allow(unsafe_code, missing_docs)]
mod entry {
    use super::{RootContext, root::Root};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(proxy_wasm::types::LogLevel::Info);
        proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> { Box::new(Root::new(id)) });
    }}
}
