//! A small proxy-wasm host for the compiled filter.
