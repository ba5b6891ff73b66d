//! Random callbacks on the calls of several workers over one store, as a host could make them, and what must hold.

use std::collections::VecDeque;
use std::rc::Rc;

use envoy_backpressure::config;
use envoy_backpressure::gate::Ledger;
use envoy_backpressure::session::admission::Seen;
use envoy_backpressure::session::suggestions::Suggestions;
use envoy_backpressure::session::{Env, Gatekeeper, Phase, Plan, Session, Verdict};
use envoy_backpressure::testing::counts::Counts;
use envoy_backpressure::testing::shared_data::{Fate, Operation, SharedData};
use envoy_backpressure::units::{Resource, Span, Timestamp};
use serde_json::Value;

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

    fn open(&mut self, choices: &mut Choices<'_>) {
        if self.calls.len() >= MOST_CALLS {
            return self.end(0);
        }
        let worker = choices.below(self.workers.len());
        let tenant = [b'a' + choices.byte() % 4];
        let class: &[u8] = choices.pick(&[b"high", b"low", b"\xff"]);
        let path: &[u8] =
            choices.pick(&[b"/v1/chat/completions", b"/v1/messages", b"/model/m/converse", b"/v1/models"]);
        let raw = choices.byte() & 3 == 0;
        let body = if raw {
            choices.slice().to_vec()
        } else {
            let cap = choices.number() % 4_000;
            let stream = choices.byte() & 1 == 1;
            format!(
                r#"{{"model":"m","stream":{stream},"max_tokens":{cap},"messages":[{{"role":"user","content":"{}"}}]}}"#,
                choices.byte()
            )
            .into_bytes()
        };
        let length =
            if choices.byte() & 3 == 0 { choices.number().to_string() } else { body.len().to_string() };
        let headers: [(&[u8], &[u8]); 6] = [
            (b":method", b"POST"),
            (b":path", path),
            (b":authority", b"llm.test"),
            (b"x-tenant", &tenant),
            (b"x-priority", class),
            (b"content-length", length.as_bytes()),
        ];
        let plan = Rc::clone(&self.workers[worker].plan);
        let mut session = Session::begin(&plan, &headers, &mut |_| None, &mut self.counts);
        let seen = if choices.byte() & 7 == 0 { Seen::Beginning } else { Seen::Whole };
        let verdict = self.step(worker, |env| session.decide(&body, body.len(), seen, env));
        self.calls.push(Call { worker, session, admitted: None, answered: false });
        self.note(self.calls.len() - 1, &verdict);
    }

    /// Takes note of an admission.
    fn note(&mut self, index: usize, verdict: &Verdict) {
        let call = &mut self.calls[index];
        match verdict {
            Verdict::Forward(_) => {
                let Some(field) = field(&call.session) else { return };
                if field["decision"] != "failed_open" {
                    call.admitted = Some((self.millis, field["reserved"].as_u64().unwrap_or(0)));
                }
            }
            Verdict::Consult(_) => panic!("no fleet is configured"),
            Verdict::Park { due } => {
                assert!(*due > Timestamp::from_millis(self.millis), "parked for the past")
            }
            Verdict::Answer(answer) => {
                assert!(matches!(answer.status, 429 | 413));
                let named = |name: &str| answer.headers.iter().filter(|(other, _)| *other == name).count();
                assert_eq!(named("retry-after"), usize::from(answer.status == 429));
            }
        }
    }

    fn answer_head(&mut self, index: usize, choices: &mut Choices<'_>) {
        let status: &[u8] = choices.pick(&[b"200", b"429", b"503", b"529", b"400", b"\xff", b"0"]);
        let details: &[u8] = choices.pick(&[
            b"via_upstream",
            b"upstream_reset_before_response_started{connection_failure}",
            b"upstream_reset_before_response_started{remote_reset}",
            b"response_timeout",
            b"ext_authz_denied",
        ]);
        let name: &[u8] = choices.pick(&[
            b"retry-after",
            b"x-ratelimit-remaining-tokens",
            b"x-ratelimit-reset-requests",
            b"x-other",
        ]);
        let value = choices.slice();
        let kind: &[u8] = choices.pick(&[b"application/json", b"text/event-stream"]);
        let headers: [(&[u8], &[u8]); 3] = [(b":status", status), (b"content-type", kind), (name, value)];
        let ends = choices.byte() & 7 == 0;
        self.on_call(index, |session, env| session.response_head(&headers, details, ends, env));
    }

    fn end(&mut self, index: usize) {
        self.on_call(index, Session::end);
        let (gets, sets) = (self.store.gets, self.store.sets);
        self.on_call(index, Session::end);
        assert_eq!((gets, sets), (self.store.gets, self.store.sets), "settled twice");
        let call = self.calls.swap_remove(index);
        assert_eq!(call.session.phase(), Phase::Settled);
        if let (Some((at, reserved)), Some(field)) = (call.admitted, field(&call.session)) {
            // A call that never reached the provider gives everything back, the request too; it cannot be told from
            // one that failed, so neither counts here.
            let used = field["used"].as_u64();
            self.past.push_back(Past {
                at,
                requests: usize::from(used != Some(0)),
                llm_tokens: used.unwrap_or(reserved).min(reserved),
            });
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

    fn check(&mut self) {
        if let Some(stored) = self.store.value(KEY) {
            assert!(stored.len() <= 65_536, "{} bytes", stored.len());
            assert!(self.disturbed || Ledger::decode(stored).is_ok(), "the ledger cannot be read");
        }
        // Looking must not be disturbed by a failing store.
        let standings = self.step(0, |env| env.gate.standings(env.store, 0, env.now));
        for resource in Resource::ALL {
            if let Some(standing) = standings.get(resource) {
                assert!(standing.remaining <= standing.limit, "{resource:?}: {standing:?}");
            }
        }
        let now = self.millis;
        while self.past.front().is_some_and(|past| past.at + 120_000 < now) {
            self.past.pop_front();
        }
        if self.disturbed || !self.strict {
            return;
        }
        let recent = |at: u64| now.saturating_sub(at) < 60_000;
        let open = || self.calls.iter().filter_map(|call| call.admitted).filter(|(at, _)| recent(*at));
        let past = || self.past.iter().filter(|past| recent(past.at));
        // Those that are open and were answered already may be given back by now, and are not: an upper bound.
        let requests = open().count() + past().map(|past| past.requests).sum::<usize>();
        assert!(requests <= REQUESTS, "{requests} requests in a minute of {REQUESTS}");
        let llm_tokens = open().map(|(_, reserved)| reserved.min(LLM_TOKENS)).sum::<u64>()
            + past().map(|past| past.llm_tokens).sum::<u64>();
        assert!(
            self.extra() || llm_tokens <= LLM_TOKENS,
            "{llm_tokens} LLM tokens in a minute of {LLM_TOKENS}"
        );
        let slots =
            self.calls.iter().filter(|call| call.admitted.is_some_and(|(at, _)| now < at + TTL)).count();
        assert!(slots <= SLOTS, "{slots} calls at once of {SLOTS}");
    }

    /// True when the reserve of a call was raised by bytes that came late; those are charged whatever is left.
    fn extra(&self) -> bool {
        self.calls.iter().any(|call| {
            call.admitted.is_some_and(|(_, reserved)| {
                field(&call.session).is_some_and(|field| field["reserved"].as_u64() > Some(reserved))
            })
        })
    }

    /// Ends every call, and sees that nothing is left of them.
    fn finish(mut self) {
        self.store.clear_hook();
        while !self.calls.is_empty() {
            self.end(self.calls.len() - 1);
        }
        for _ in 0..64 {
            self.millis += 100;
            self.tick();
        }
        for worker in 0..self.workers.len() {
            assert_eq!(self.workers[worker].gate.owed(), 0, "writes wait for ever");
        }
        // What a dead worker held comes back by itself. A ledger takes note of a clock that was set back when it is next
        // written, so somebody calls now and then.
        for _ in 0..2 {
            self.millis += TTL + 10_000;
            self.open(&mut Choices(&[]));
            self.end(0);
        }
        self.millis += TTL + 10_000;
        let now = Timestamp::from_millis(self.millis);
        let glance = self.step(0, |env| env.gate.summary(env.store, 0, 0, now));
        if let Some((summary, _)) = glance {
            assert_eq!(summary.in_flight, 0, "calls are in flight for ever");
            assert_eq!(summary.booked, 0, "bookings stay for ever");
            assert!(summary.paused.is_none_or(|pause| pause <= Span::from_secs(60)), "{:?}", summary.paused);
        }
        assert!(self.store.keys().count() <= 2, "keys grow");
    }
}

fn field(session: &Session) -> Option<Value> {
    serde_json::from_str(&session.log_field()?).ok()
}
