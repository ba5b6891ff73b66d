//! How a request body is held back.
//!
//! The host knows two ways. One keeps all of the body readable, and makes the host answer 413 itself once held and newly read
//! bytes exceed its buffer; the SDK's `Pause` means this one. The other shows the filter only what is new, and stops
//! reading from the caller while the buffer is full. The SDK's types cannot say it, so the callback is exported a second time
//! here, and takes the place of the SDK's when the module is finished.

use std::cell::Cell;

use proxy_wasm::types::Action;

thread_local! {
    static ANSWER: Cell<Answer> = const { Cell::new(Answer::ByTheSdk) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The SDK's own callback runs, so that `Pause` is all there is.
    ByTheSdk,
    /// As the filter said.
    AsSaid,
    /// Paused, without the host's 413.
    Gently,
}

/// True in a callback that can be paused gently.
pub(super) fn is_gentle() -> bool {
    ANSWER.get() != Answer::ByTheSdk
}

/// Pauses gently where that is possible. The filter has to keep what it was shown: it is not shown again.
pub(super) fn gently() -> Action {
    if is_gentle() {
        ANSWER.set(Answer::Gently);
    }
    Action::Pause
}

/// The host calls across the ABI are the SDK's; this is its callback for request bodies, with one more answer.
#[allow(unsafe_code, missing_docs)]
mod callback {
    use super::{ANSWER, Answer};

    /// `FilterDataStatus::StopIterationAndWatermark` of the ABI.
    const STOP_AND_WATERMARK: u32 = 2;

    unsafe extern "C" {
        safe fn proxy_on_request_body(context: u32, size: usize, end_of_stream: bool) -> u32;
    }

    #[unsafe(export_name = "instead_of_proxy_on_request_body")]
    extern "C" fn on_request_body(context: u32, size: usize, end_of_stream: bool) -> u32 {
        let outer = ANSWER.replace(Answer::AsSaid);
        let said = proxy_on_request_body(context, size, end_of_stream);
        if ANSWER.replace(outer) == Answer::Gently { STOP_AND_WATERMARK } else { said }
    }
}
