#![no_main]

use backpressure_fuzz::response;

libfuzzer_sys::fuzz_target!(|input: &[u8]| response::target(b"application/vnd.amazon.eventstream", input));
