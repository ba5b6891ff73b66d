//! Random callbacks on the calls of several workers over one store, as a host could make them, and what must hold.

mod calls;
mod checks;

use std::collections::VecDeque;
use std::rc::Rc;

use envoy_backpressure::config;
use envoy_backpressure::session::suggestions::Suggestions;
use envoy_backpressure::session::{Env, Gatekeeper, Phase, Plan, Session, Verdict};
use envoy_backpressure::testing::counts::Counts;
use envoy_backpressure::testing::shared_data::{Fate, Operation, SharedData};
use envoy_backpressure::units::Timestamp;

use super::bytes::Choices;

const START: u64 = 1_792_567_680_000;
const KEY: &str = "bp.ledger.chat";
const REQUESTS: usize = 40;
const LLM_TOKENS: u64 = 5_000;
const SLOTS: usize = 6;
const TTL: u64 = 90_000;
const MOST_CALLS: usize = 40;

struct Worker {
    plan: Rc<Plan>,
    gate: Gatekeeper,
    suggestions: Suggestions,
}

struct Call {
    worker: usize,
    session: Session,
    /// When it was admitted by a decision, ms, and with what reserve; a call that passed undecided has none.
    admitted: Option<(u64, u64)>,
    answered: bool,
}

/// A call that is over, as far as the window is concerned.
struct Past {
    at: u64,
    requests: usize,
    llm_tokens: u64,
}

/// The calls of some workers over one store.
struct World {
    workers: Vec<Worker>,
    store: SharedData,
    counts: Counts,
    millis: u64,
    calls: Vec<Call>,
    past: VecDeque<Past>,
    strict: bool,
    /// The clock stepped, or foreign bytes were written: what was counted may be lost.
    disturbed: bool,
}

fn plan(shape: u8) -> Rc<Plan> {
    let bit = |n: u8| shape >> n & 1 == 1;
    let text = serde_json::json!({
        "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
        "classes": {"high": {"weight": 4}, "low": {"weight": 1}},
        "default_class": "low",
        "reservation_ttl_seconds": TTL / 1_000,
        "cas_attempts": 3,
        "body_limit_bytes": 4_096,
        "pools": [{
            "name": "chat",
            "limits": {"requests_per_minute": REQUESTS, "tokens_per_minute": LLM_TOKENS, "concurrent_requests": SLOTS},
            "strict_window": bit(0),
            "burst_seconds": if bit(1) { 60 } else { 10 },
            "max_wait_ms": if bit(2) { 2_000 } else { 0 },
            "output_reserve": if bit(3) { "learned" } else { "max_tokens" },
            "inject_stream_usage": bit(4),
            "learn": {"headers": bit(5), "pause_on_429": bit(6), "adapt": bit(7)},
        }],
    });
    Rc::new(Plan::new(config::parse(text.to_string().as_bytes()).expect("a sound configuration")))
}

/// Plays `input` and ends everything.
pub fn play(input: &[u8]) {
    let mut choices = Choices(input);
    let shape = choices.byte();
    let plan = plan(shape);
    let worker = || Worker {
        gate: Gatekeeper::new(Rc::clone(&plan)),
        suggestions: Suggestions::new(&plan),
        plan: Rc::clone(&plan),
    };
    let mut world = World {
        workers: vec![worker(), worker()],
        store: SharedData::new(),
        counts: Counts::default(),
        millis: START,
        calls: Vec::new(),
        past: VecDeque::new(),
        strict: shape & 1 == 1,
        disturbed: false,
    };
    while !choices.is_empty() {
        world.act(&mut choices);
        world.check();
    }
    world.finish();
}

impl World {
    fn step<T>(&mut self, worker: usize, step: impl FnOnce(&mut Env<'_>) -> T) -> T {
        let worker = &mut self.workers[worker];
        step(&mut Env {
            now: Timestamp::from_millis(self.millis),
            store: &mut self.store,
            gate: &mut worker.gate,
            suggestions: &mut worker.suggestions,
            recorder: &mut self.counts,
        })
    }

    fn on_call<T>(&mut self, index: usize, step: impl FnOnce(&mut Session, &mut Env<'_>) -> T) -> T {
        let mut call = self.calls.swap_remove(index);
        let result = self.step(call.worker, |env| step(&mut call.session, env));
        self.calls.push(call);
        let last = self.calls.len() - 1;
        self.calls.swap(index, last);
        result
    }

    fn act(&mut self, choices: &mut Choices<'_>) {
        let action = choices.below(16);
        if action <= 3 {
            return self.open(choices);
        }
        if action == 4 {
            let by = choices.pick(&[1, 5, 20, 300, 1_000, 7_000, 61_000]);
            self.millis += by;
            return self.tick();
        }
        if action == 5 {
            return self.disturb(choices);
        }
        if self.calls.is_empty() {
            return;
        }
        let index = choices.below(self.calls.len());
        match action {
            6 | 7 => self.answer_head(index, choices),
            8 | 9 => {
                let piece = choices.slice();
                self.calls[index].session.response_body(piece);
            }
            10 => {
                let (input, output) = (choices.number() % 3_000, choices.number() % 3_000);
                let body = format!(r#"{{"usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}}}"#);
                self.calls[index].session.response_body(body.as_bytes());
                self.calls[index].session.response_complete(None);
                self.end(index);
            }
            11 => {
                let bytes = choices.number() % 100_000;
                self.calls[index].session.body_passed(bytes);
                self.on_call(index, Session::charge_excess);
            }
            12 if matches!(self.calls[index].session.phase(), Phase::Parked { .. }) => {
                // One whose turn is later than may be told is decided anew, and may find room by now.
                let verdict = self.on_call(index, Session::deny_instead_of_park);
                assert!(
                    !matches!(verdict, Verdict::Park { .. }),
                    "parked in spite of a full store of parked calls"
                );
                self.note(index, &verdict);
            }
            13 if self.calls[index].session.phase() == Phase::Answered && !self.calls[index].answered => {
                let verdict = self.on_call(index, Session::reply_failed);
                assert!(matches!(verdict, Verdict::Forward(_)));
                self.calls[index].answered = true;
            }
            _ => self.end(index),
        }
    }

    fn tick(&mut self) {
        for worker in 0..self.workers.len() {
            self.step(worker, |env| env.gate.pay_owed(env.store, env.now));
            self.step(worker, |env| env.suggestions.exchange(env.store, env.recorder));
        }
        for index in 0..self.calls.len() {
            if let Phase::Parked { due, .. } = self.calls[index].session.phase()
                && due <= Timestamp::from_millis(self.millis)
            {
                let verdict = self.on_call(index, Session::decide_parked);
                self.note(index, &verdict);
            }
        }
    }

    fn disturb(&mut self, choices: &mut Choices<'_>) {
        match choices.below(6) {
            0 | 1 => {
                let (fate, mut times) = (choices.pick(&[Fate::Mismatch, Fate::Fail]), choices.below(9));
                self.store.set_hook(move |_: Operation, _: &str| {
                    times = times.saturating_sub(1);
                    if times > 0 { fate } else { Fate::Pass }
                });
            }
            2 => {
                let hour = 3_600_000;
                self.millis = if choices.byte() & 1 == 1 { self.millis + hour } else { self.millis - hour };
                self.disturbed = true;
            }
            3 => {
                let garbage = choices.slice();
                let _ = self.store.set_raw(KEY, garbage, 0);
                self.disturbed = true;
            }
            4 => {
                let garbage = choices.slice();
                let _ = self.store.set_raw("bp.output.chat", garbage, 0);
            }
            _ => {
                // A worker's VM dies with what it held.
                let dead = choices.below(self.workers.len());
                let plan = Rc::clone(&self.workers[dead].plan);
                self.calls.retain(|call| call.worker != dead);
                self.workers[dead] = Worker {
                    gate: Gatekeeper::new(Rc::clone(&plan)),
                    suggestions: Suggestions::new(&plan),
                    plan,
                };
            }
        }
    }
}
