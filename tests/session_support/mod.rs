//! One worker with the store, the clock and the counters in hand, and short ways to say calls and answers.
#![allow(dead_code, unreachable_pub)]

use std::rc::Rc;

use envoy_backpressure::config;
use envoy_backpressure::session::admission::Seen;
use envoy_backpressure::session::fleet::Question;
use envoy_backpressure::session::suggestions::Suggestions;
use envoy_backpressure::session::{Env, Gatekeeper, Plan, Session, Verdict};
use envoy_backpressure::testing::counts::Counts;
use envoy_backpressure::testing::shared_data::SharedData;
use envoy_backpressure::units::Timestamp;

pub const START: u64 = 1_792_000_000_000;

pub struct Worker {
    pub plan: Rc<Plan>,
    pub store: SharedData,
    pub gate: Gatekeeper,
    pub suggestions: Suggestions,
    pub counts: Counts,
    pub millis: u64,
}

impl Worker {
    pub fn new(pool: &str) -> Self {
        Self::with(&format!(r#"{{"pools": [{pool}]}}"#))
    }

    pub fn with(text: &str) -> Self {
        let plan =
            Rc::new(Plan::new(config::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))));
        Self {
            store: SharedData::new(),
            gate: Gatekeeper::new(Rc::clone(&plan)),
            suggestions: Suggestions::new(&plan),
            counts: Counts::default(),
            millis: START,
            plan,
        }
    }

    pub fn step<T>(&mut self, step: impl FnOnce(&mut Env<'_>) -> T) -> T {
        step(&mut Env {
            now: Timestamp::from_millis(self.millis),
            store: &mut self.store,
            gate: &mut self.gate,
            suggestions: &mut self.suggestions,
            recorder: &mut self.counts,
        })
    }

    pub fn begin(&mut self, path: &str) -> Session {
        let headers: [(&[u8], &[u8]); 3] =
            [(b":method", b"POST"), (b":path", path.as_bytes()), (b":authority", b"llm.test")];
        Session::begin(&self.plan, &headers, &mut |_| None, &mut self.counts)
    }

    pub fn send(&mut self, body: &str) -> (Session, Verdict) {
        let mut session = self.begin("/v1/chat/completions");
        let verdict = self.step(|env| session.decide(body.as_bytes(), body.len(), Seen::Whole, env));
        (session, verdict)
    }

    pub fn answer(&mut self, session: &mut Session, status: &str, body: &str) {
        let headers: [(&[u8], &[u8]); 2] =
            [(b":status", status.as_bytes()), (b"content-type", b"application/json")];
        self.step(|env| session.response_head(&headers, b"via_upstream", body.is_empty(), env));
        if !body.is_empty() {
            session.response_body(body.as_bytes());
        }
        session.response_complete(None);
        self.step(|env| session.end(env));
    }

    /// A question as it goes to the fleet's store.
    pub fn written(&self, load: bool, question: &Question) -> String {
        let policy = self.gate.policy(question.pool).unwrap();
        self.gate.fleet.as_ref().unwrap().asked(load, policy, std::slice::from_ref(question))
    }

    /// LLM tokens that could be taken now.
    pub fn left(&mut self) -> u64 {
        self.step(|env| env.gate.standings(env.store, 0, env.now).llm_tokens.unwrap().remaining)
    }
}

pub const POOL: &str = r#"{"name": "chat", "limits": {"requests_per_minute": 60, "tokens_per_minute": 10000},
    "burst_seconds": 60, "output_reserve": "max_tokens", "max_wait_ms": 0}"#;

pub fn chat(max_output: u32) -> String {
    format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": "hello there"}}], "max_tokens": {max_output}}}"#
    )
}

pub fn usage(input: u64, output: u64) -> String {
    format!(
        r#"{{"choices": [{{"message": {{"content": "ok"}}}}], "usage": {{"prompt_tokens": {input}, "completion_tokens": {output}, "total_tokens": {}}}}}"#,
        input + output
    )
}
