#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| backpressure_fuzz::headers::check(input));
