#![no_main]

use backpressure_fuzz::world;

libfuzzer_sys::fuzz_target!(|input: &[u8]| world::play(input));
