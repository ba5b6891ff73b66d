//! Does what the request header `x-do` says and logs what it sees; the host's own tests read the log.

use std::cell::RefCell;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, BufferType, LogLevel, MapType, MetricType};

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|id| Box::new(Root { id }));
}}

thread_local! {
    static PARKED: RefCell<Vec<(u32, bool)>> = const { RefCell::new(Vec::new()) };
    static COUNTER: RefCell<Option<u32>> = const { RefCell::new(None) };
}

unsafe extern "C" {
    fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        len: usize,
        out: *mut *mut u8,
        out_len: *mut usize,
    ) -> u32;
    fn proxy_set_effective_context(id: u32) -> u32;
    fn proxy_get_property(path: *const u8, len: usize, out: *mut *mut u8, out_len: *mut usize) -> u32;
}

/// Status of reading one header, without the panic of the ordinary wrapper.
fn header_status(map: u32, name: &str) -> u32 {
    let (mut at, mut len) = (std::ptr::null_mut(), 0);
    unsafe { proxy_get_header_map_value(map, name.as_ptr(), name.len(), &mut at, &mut len) }
}

fn property(path: &str) -> (u32, Vec<u8>) {
    let (mut at, mut len) = (std::ptr::null_mut(), 0);
    let status = unsafe { proxy_get_property(path.as_ptr(), path.len(), &mut at, &mut len) };
    let bytes = if at.is_null() { Vec::new() } else { unsafe { Vec::from_raw_parts(at, len, len) } };
    (status, bytes)
}

fn say(line: String) {
    hostcalls::log(LogLevel::Info, &line).expect("logging works");
}

struct Root {
    id: u32,
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body: usize, _: usize) {
        say(format!("answer {token} {headers} {body}"));
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, size: usize) -> bool {
        let text = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size)
            .expect("readable")
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        say(format!("configure {text}"));
        hostcalls::set_tick_period(Duration::from_millis(10)).expect("ticks work");
        COUNTER.with_borrow_mut(|counter| {
            let id = *counter.get_or_insert_with(|| {
                hostcalls::define_metric(MetricType::Counter, "probe.calls").expect("defined")
            });
            let again = hostcalls::define_metric(MetricType::Counter, "probe.calls").expect("defined");
            assert_ne!(id, again, "each definition has its own number");
        });
        text != "refuse"
    }

    fn on_tick(&mut self) {
        for (stream, reply) in PARKED.take() {
            if unsafe { proxy_set_effective_context(stream) } != 0 {
                say(format!("gone {stream}"));
                continue;
            }
            if reply {
                hostcalls::send_http_response(429, vec![("retry-after", "1")], Some(b"later")).expect("sent");
            } else {
                hostcalls::resume_http_request().expect("resumed");
            }
        }
        unsafe { proxy_set_effective_context(self.id) };
        if hostcalls::get_shared_data("probe.callout").expect("readable").0.is_some() {
            hostcalls::set_shared_data("probe.callout", None, None).expect("writable");
            let fields = vec![(":method", "GET"), (":path", "/"), (":authority", "a")];
            for cluster in ["unknown", "known"] {
                let sent = hostcalls::dispatch_http_call(
                    cluster,
                    fields.clone(),
                    None,
                    vec![],
                    Duration::from_millis(50),
                );
                say(format!("callout {cluster} {}", sent.is_ok()));
            }
        }
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Http { id, orders: String::new() }))
    }

    fn get_type(&self) -> Option<proxy_wasm::types::ContextType> {
        Some(proxy_wasm::types::ContextType::HttpContext)
    }
}

struct Http {
    id: u32,
    orders: String,
}

impl Http {
    fn told(&self, order: &str) -> bool {
        self.orders.split(',').any(|o| o == order)
    }
}

impl Context for Http {
    fn on_done(&mut self) -> bool {
        say("done".to_owned());
        true
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        say("dropped".to_owned());
    }
}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, count: usize, end: bool) -> Action {
        self.orders = hostcalls::get_map_value(MapType::HttpRequestHeaders, "X-Do")
            .expect("readable")
            .unwrap_or_default();
        say(format!("request headers {count} {end}"));
        COUNTER.with_borrow(|id| hostcalls::increment_metric(id.expect("defined"), 1).expect("counted"));
        if self.told("trap") {
            panic!("told to");
        }
        if self.told("bytes") {
            let value =
                hostcalls::get_map_value_bytes(MapType::HttpRequestHeaders, "x-odd").expect("readable");
            hostcalls::add_map_value_bytes(MapType::HttpRequestHeaders, "x-copy", &value.unwrap_or_default())
                .expect("added");
        }
        if self.told("count") {
            loop {
                let (value, cas) = hostcalls::get_shared_data("probe.count").expect("readable");
                let now = value.map_or(0, |v| u64::from_le_bytes(v.try_into().expect("eight bytes"))) + 1;
                let cas = Some(cas.unwrap_or(u32::MAX));
                if hostcalls::set_shared_data("probe.count", Some(&now.to_le_bytes()), cas).is_ok() {
                    break;
                }
            }
        }
        if self.told("state") {
            hostcalls::set_property(vec!["probe"], Some(b"kept")).expect("set");
            let org = property("metadata\0filter_metadata\0jwt\0org");
            say(format!("org {} {}", org.0, String::from_utf8_lossy(&org.1)));
        }
        if self.told("reply") {
            hostcalls::send_http_response(429, vec![("retry-after", "7")], Some(b"no")).expect("sent");
            return Action::Pause;
        }
        if self.told("park") || self.told("park-reply") {
            let reply = self.told("park-reply");
            PARKED.with_borrow_mut(|parked| parked.push((self.id, reply)));
            return Action::Pause;
        }
        if self.told("hold") { Action::Pause } else { Action::Continue }
    }

    fn on_http_request_body(&mut self, size: usize, end: bool) -> Action {
        let body = hostcalls::get_buffer(BufferType::HttpRequestBody, 0, usize::MAX >> 1).expect("readable");
        let status = header_status(0, "x-do");
        say(format!("request body {size} {end} {} {status}", body.map_or(0, |b| b.len())));
        if self.told("park-body") && end {
            PARKED.with_borrow_mut(|parked| parked.push((self.id, false)));
            return Action::Pause;
        }
        if self.told("reply-at-end") && end {
            hostcalls::send_http_response(413, vec![], None).expect("sent");
            return Action::Pause;
        }
        if self.told("gather") && !end { Action::Pause } else { Action::Continue }
    }

    fn on_http_request_trailers(&mut self, count: usize) -> Action {
        say(format!("request trailers {count}"));
        Action::Continue
    }

    fn on_http_response_headers(&mut self, count: usize, end: bool) -> Action {
        let status = header_status(0, "x-do");
        let details = property("response\0code_details");
        let code = property("response\0code").1;
        say(format!(
            "response headers {count} {end} {status} {} {code:?}",
            String::from_utf8_lossy(&details.1)
        ));
        hostcalls::add_map_value(MapType::HttpResponseHeaders, "x-seen", "1").expect("added");
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end: bool) -> Action {
        say(format!("response body {size} {end}"));
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, count: usize) -> Action {
        say(format!("response trailers {count}"));
        Action::Continue
    }

    fn on_log(&mut self) {
        say(format!("log {} {}", header_status(0, "x-do"), header_status(2, "x-none")));
    }
}
