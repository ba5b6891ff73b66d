//! The pure core on wasm32-unknown-unknown, where `usize` has 32 bits.
#![cfg(all(target_arch = "wasm32", target_os = "unknown"))]

use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
fn spans_round_up_as_on_64_bits() {
    use envoy_backpressure::units::Span;
    assert_eq!(Span::from_micros(5_000_000_001).as_secs_ceil(), 5_001);
}
