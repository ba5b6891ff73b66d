//! Answers each request with the outcome of one host call, so that a test can pin what Envoy does.
//!
//! `x-probe-create: KEY` tries to create the shared-data entry `KEY` under a version that never matches.

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Root));
}}

struct Root;

impl Context for Root {}

impl RootContext for Root {
    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Call(id)))
    }
}

struct Call(u32);

impl Context for Call {}

impl HttpContext for Call {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(key) = self.get_http_request_header("x-probe-create") else { return Action::Continue };
        let value = self.0.to_le_bytes();
        let answer = match hostcalls::set_shared_data(&key, Some(&value), Some(u32::MAX)) {
            Ok(()) => "created",
            Err(_) => "exists",
        };
        self.send_http_response(200, Vec::new(), Some(answer.as_bytes()));
        Action::Pause
    }
}
