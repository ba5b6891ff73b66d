//! The status page, answered by the filter itself.

use std::rc::Rc;

use proxy_wasm::types::Action;

use super::worker::Worker;

/// Answers a request for the status page; everything else passes.
pub(super) fn answer(_worker: &Rc<Worker>, _method: &[u8], _path: &[u8]) -> Action {
    Action::Continue
}
