//! Does single things that the filter relies on, so that a test can pin what Envoy does.
//!
//! The configuration is words: `tick=MS`, `free=N` or `refuse=N` (so many parked calls go on or are refused per tick),
//! `from=MS` (not before a root is so old), `wait=1` (not before a call with `x-probe-go` came), `lame=N` (only the first N times that any thread is configured succeed).
//! Request headers: `x-probe-create: KEY` tries to create the shared-data entry under a version that never matches,
//! `x-probe-define` defines one metric twice, `x-probe-park: headers` or `body` holds the call there, `x-probe-trap`
//! ends the VM. Every answer that passed carries `x-probe`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, MetricType};

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Root::default()));
}}

fn count(name: &str) {
    if let Ok(id) = hostcalls::define_metric(MetricType::Counter, name) {
        let _ = hostcalls::increment_metric(id, 1);
    }
}

fn now() -> SystemTime {
    hostcalls::get_current_time().unwrap_or(SystemTime::UNIX_EPOCH)
}

type Parked = Rc<RefCell<VecDeque<u32>>>;

#[derive(Default)]
struct Root {
    words: Vec<(String, u64)>,
    began: Option<SystemTime>,
    ticked: bool,
    parked: Parked,
}

impl Root {
    fn word(&self, name: &str) -> Option<u64> {
        self.words.iter().find(|(word, _)| word == name).map(|(_, value)| *value)
    }
}

/// How often any thread was configured so far, this time included.
fn configured() -> u64 {
    loop {
        let Ok((value, cas)) = hostcalls::get_shared_data("probe.configured") else { return 0 };
        let count = value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes) + 1;
        let expected = cas.or(Some(u32::MAX));
        if hostcalls::set_shared_data("probe.configured", Some(&count.to_le_bytes()), expected).is_ok() {
            return count;
        }
    }
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let text = self.get_plugin_configuration().unwrap_or_default();
        let pairs = String::from_utf8_lossy(&text).into_owned();
        let pairs = pairs.split_whitespace().filter_map(|word| word.split_once('='));
        self.words = pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
        if let Some(millis) = self.word("tick") {
            self.set_tick_period(Duration::from_millis(millis));
        }
        self.began = Some(now());
        self.word("lame").is_none_or(|most| configured() <= most)
    }

    fn on_tick(&mut self) {
        if !std::mem::replace(&mut self.ticked, true) {
            count("probe.tickers");
        }
        let age = self.began.and_then(|began| now().duration_since(began).ok()).unwrap_or_default();
        if age < Duration::from_millis(self.word("from").unwrap_or(0)) {
            return;
        }
        let go = hostcalls::get_shared_data("probe.go").is_ok_and(|(value, _)| value.is_some());
        if self.word("wait").is_some() && !go {
            return;
        }
        let (freed, refused) = (self.word("free"), self.word("refuse"));
        for _ in 0..freed.or(refused).unwrap_or(0) {
            let Some(call) = self.parked.borrow_mut().pop_front() else { return };
            if hostcalls::set_effective_context(call).is_err() {
                continue;
            }
            if freed.is_some() {
                let _ = hostcalls::resume_http_request();
            } else {
                let _ = hostcalls::send_http_response(429, vec![("x-probe", "refused")], Some(b"refused"));
            }
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Call { id, parked: Rc::clone(&self.parked), at_body: false }))
    }
}

struct Call {
    id: u32,
    parked: Parked,
    at_body: bool,
}

impl Call {
    fn park(&self) -> Action {
        count("probe.parked");
        self.parked.borrow_mut().push_back(self.id);
        Action::Pause
    }
}

impl Context for Call {
    fn on_done(&mut self) -> bool {
        count("probe.done");
        true
    }
}

impl HttpContext for Call {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        if let Some(key) = self.get_http_request_header("x-probe-create") {
            let value = self.id.to_le_bytes();
            let answer = match hostcalls::set_shared_data(&key, Some(&value), Some(u32::MAX)) {
                Ok(()) => "created",
                Err(_) => "exists",
            };
            self.send_http_response(200, Vec::new(), Some(answer.as_bytes()));
            return Action::Pause;
        }
        if self.get_http_request_header("x-probe-define").is_some() {
            let define = || hostcalls::define_metric(MetricType::Counter, "probe.twice").unwrap_or(0);
            let (one, other) = (define(), define());
            let _ = hostcalls::increment_metric(one, 3);
            let _ = hostcalls::increment_metric(other, 4);
            let value = |id| hostcalls::get_metric(id).unwrap_or(0);
            let answer = format!("{} {} {}", one == other, value(one), value(other));
            self.send_http_response(200, Vec::new(), Some(answer.as_bytes()));
            return Action::Pause;
        }
        if self.get_http_request_header("x-probe-go").is_some() {
            let _ = hostcalls::set_shared_data("probe.go", Some(b"go"), None);
        }
        if self.get_http_request_header("x-probe-trap").is_some() {
            panic!("asked for");
        }
        match self.get_http_request_header("x-probe-park").as_deref() {
            Some("headers") => return self.park(),
            Some("body") => self.at_body = true,
            _ => {}
        }
        Action::Continue
    }

    fn on_http_request_body(&mut self, _: usize, _: bool) -> Action {
        // While the headers are held the body comes all the same, and to let it go would let the headers go.
        if self.parked.borrow().contains(&self.id) {
            return Action::Pause;
        }
        if std::mem::take(&mut self.at_body) { self.park() } else { Action::Continue }
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        self.set_http_response_header("x-probe", Some("passed"));
        Action::Continue
    }

    fn on_log(&mut self) {
        count("probe.logged");
    }
}
