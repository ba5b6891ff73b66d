#![no_main]

use backpressure_fuzz::bytes::with_tail;
use backpressure_fuzz::response;

// Gemini's stream without SSE is one array, an element at a time.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (body, choices) = with_tail(input, 6);
    let array = [b"[", body, b"]"].concat();
    response::check(b"application/json", b"", &array, choices);
});
