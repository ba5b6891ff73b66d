//! The only place that knows the proxy-wasm ABI.
