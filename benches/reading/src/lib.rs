//! The readers of the filter behind plain functions. `benches/reading/reading.mjs` fills the buffer and takes the time.
#![allow(unsafe_code, reason = "exported names; no other unsafe code stands here")]

use std::cell::RefCell;

use envoy_backpressure::cost::dialect::classify;
use envoy_backpressure::cost::request::{BodySeen, read_request};
use envoy_backpressure::cost::text::{Family, Sample, llm_tokens};

thread_local! {
    static BODY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn low(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

/// Makes room for a body of `len` bytes and says where it is.
#[unsafe(no_mangle)]
pub extern "C" fn room(len: usize) -> *const u8 {
    BODY.with_borrow_mut(|body| {
        body.clear();
        body.resize(len, 0);
        body.as_ptr()
    })
}

/// LLM tokens of the buffer as text, every byte counted.
#[unsafe(no_mangle)]
pub extern "C" fn count_all() -> u32 {
    BODY.with_borrow(|body| low(llm_tokens(body, Family::O200k)))
}

/// LLM tokens of the buffer as text, by windows, as the filter does.
#[unsafe(no_mangle)]
pub extern "C" fn count_sampled() -> u32 {
    BODY.with_borrow(|body| {
        let mut sample = Sample::default();
        sample.feed(body);
        sample.cut();
        low(sample.llm_tokens(Family::O200k))
    })
}

/// Input LLM tokens of the buffer as the body of a chat call: the one pass of the filter.
#[unsafe(no_mangle)]
pub extern "C" fn read_body() -> u32 {
    let Some(endpoint) = classify(b"/v1/chat/completions", None) else { return 0 };
    BODY.with_borrow(|body| low(read_request(&endpoint, body, BodySeen::Complete).input_llm_tokens))
}

/// Copies the buffer: how fast memory is.
#[unsafe(no_mangle)]
pub extern "C" fn copy() -> u32 {
    BODY.with_borrow(|body| {
        COPY.with_borrow_mut(|copy| {
            copy.clear();
            copy.extend_from_slice(body);
            low(copy.last().copied().unwrap_or_default().into())
        })
    })
}
