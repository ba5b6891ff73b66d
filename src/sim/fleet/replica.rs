//! One worker of one Envoy: the session, the gate and the fleet's view as the filter holds them.

use std::rc::Rc;

use crate::config;
use crate::fleet::webdis::Reply;
use crate::observe::{Anomaly, Decided, Labels, LlmTokenKind, Recorder};
use crate::session::admission::Seen;
use crate::session::fleet::{Batch, Question};
use crate::session::suggestions::Suggestions;
use crate::session::{Env, Gatekeeper, Plan, Session, Verdict};
use crate::sim::load::Load;
use crate::testing::shared_data::SharedData;
use crate::units::{Span, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The filter's slow tick.
const SLOW: Span = Span::from_millis(500);

/// Counts of a worker.
#[derive(Debug, Default)]
pub struct Tally {
    /// Anomalies by name.
    pub anomalies: BTreeMap<&'static str, u64>,
}

impl Recorder for Tally {
    fn decided(&mut self, _: Labels, _: Decided) {}
    fn refused(&mut self, _: Labels, _: &'static str, _: Option<Span>) {}
    fn llm_tokens(&mut self, _: Labels, _: LlmTokenKind, _: u64) {}
    fn waited(&mut self, _: Labels, _: u64) {}
    fn estimate_error(&mut self, _: usize, _: u64) {}
    fn upstream_throttled(&mut self, _: usize) {}
    fn unmatched(&mut self) {}
    fn anomaly(&mut self, anomaly: Anomaly) {
        *self.anomalies.entry(anomaly.name()).or_default() += 1;
    }
}

/// The filter's configuration for a run.
#[allow(clippy::unreachable)]
pub fn plan(load: &Load, timeout: Span) -> Rc<Plan> {
    let mut limits = String::new();
    for (name, limit) in
        [("requests_per_minute", load.limits.requests), ("tokens_per_minute", load.limits.llm_tokens)]
    {
        if let Some(limit) = limit {
            let _ = write!(limits, "{}\"{name}\": {limit}", if limits.is_empty() { "" } else { ", " });
        }
    }
    let mut classes = BTreeMap::new();
    for group in &load.groups {
        classes.insert(group.class, group.class_weight);
    }
    let classes: Vec<String> =
        classes.iter().map(|(class, weight)| format!("\"c{class}\": {{\"weight\": {weight}}}")).collect();
    let text = format!(
        r#"{{"identity": {{"tenant": [{{"header": "x-tenant"}}], "class": [{{"header": "x-class"}}]}},
        "classes": {{{}}}, "default_class": "c0", "fleet": {{"cluster": "store", "timeout_ms": {}}}, "max_retry_after_seconds": {},
        "pools": [{{"name": "m", "limits": {{{limits}}}, "burst_seconds": {}, "strict_window": {}, "output_reserve": "max_tokens", "max_wait_ms": 0}}]}}"#,
        classes.join(", "),
        timeout.as_millis_ceil(),
        load.max_told.as_secs_ceil(),
        load.burst.as_secs_ceil(),
        load.strict_window,
    );
    match config::parse(text.as_bytes()) {
        Ok(config) => Rc::new(Plan::new(config)),
        Err(error) => unreachable!("{error}: {text}"),
    }
}

/// See the module.
#[derive(Debug)]
pub struct Worker {
    /// Index of its Envoy.
    pub replica: usize,
    plan: Rc<Plan>,
    gate: Gatekeeper,
    suggestions: Suggestions,
    /// What it counted.
    pub tally: Tally,
    /// Difference of its Envoy's clock, microseconds.
    offset: i64,
    slow_due: Timestamp,
    /// When it ticks next, by the world's time.
    pub tick: Timestamp,
    /// Batches on their way.
    pub batches: usize,
}

impl Worker {
    /// A worker that has just started. `number` is its own, `envoy` its Envoy's.
    pub fn new(plan: &Rc<Plan>, replica: usize, number: u64, envoy: u64, offset: i64) -> Self {
        let mut gate = Gatekeeper::new(Rc::clone(plan));
        if let Some(fleet) = &mut gate.fleet {
            fleet.identify(number, envoy);
        }
        Self {
            replica,
            gate,
            suggestions: Suggestions::new(plan),
            plan: Rc::clone(plan),
            tally: Tally::default(),
            offset,
            slow_due: Timestamp::EPOCH,
            tick: Timestamp::EPOCH,
            batches: 0,
        }
    }

    fn step<T>(&mut self, store: &mut SharedData, now: Timestamp, step: impl FnOnce(&mut Env<'_>) -> T) -> T {
        step(&mut Env {
            now: Timestamp::from_micros(now.as_micros().saturating_add_signed(self.offset)),
            store,
            gate: &mut self.gate,
            suggestions: &mut self.suggestions,
            recorder: &mut self.tally,
        })
    }

    /// A call arrives.
    pub fn begin(
        &mut self,
        store: &mut SharedData,
        (class, tenant): (u8, u32),
        body: &str,
        now: Timestamp,
    ) -> (Session, Verdict) {
        let (class, tenant) = (format!("c{class}"), format!("t{tenant}"));
        let headers: [(&[u8], &[u8]); 5] = [
            (b":method", b"POST"),
            (b":path", b"/v1/chat/completions"),
            (b":authority", b"llm.test"),
            (b"x-class", class.as_bytes()),
            (b"x-tenant", tenant.as_bytes()),
        ];
        let mut session = Session::begin(&self.plan, &headers, &mut |_| None, &mut self.tally);
        let verdict =
            self.step(store, now, |env| session.decide(body.as_bytes(), body.len(), Seen::Whole, env));
        (session, verdict)
    }

    /// A parked call's time has come.
    pub fn wake(&mut self, store: &mut SharedData, session: &mut Session, now: Timestamp) -> Verdict {
        self.step(store, now, |env| session.decide_parked(env))
    }

    /// A question as it goes to the store; with `load`, the script goes along.
    pub fn written(&self, load: bool, question: &Question) -> Option<String> {
        let policy = self.gate.policy(question.pool)?;
        Some(self.gate.fleet.as_ref()?.asked(load, policy, std::slice::from_ref(question)))
    }

    /// The store answered a decision, or did not.
    pub fn heard(
        &mut self,
        store: &mut SharedData,
        session: &mut Session,
        reply: Option<Reply>,
        now: Timestamp,
    ) -> Verdict {
        self.step(store, now, |env| session.heard(reply, env))
    }

    /// The provider answered.
    pub fn answered(
        &mut self,
        store: &mut SharedData,
        session: &mut Session,
        usage: Option<(u64, u64)>,
        now: Timestamp,
    ) {
        let status: &[u8] = if usage.is_some() { b"200" } else { b"429" };
        let headers: [(&[u8], &[u8]); 2] = [(b":status", status), (b"content-type", b"application/json")];
        let body = usage.map_or_else(
            || "{\"error\": {\"message\": \"too many\"}}".to_owned(),
            |(input, output)| {
                let total = input + output;
                format!(
                    r#"{{"choices": [], "usage": {{"prompt_tokens": {input}, "completion_tokens": {output}, "total_tokens": {total}}}}}"#
                )
            },
        );
        self.step(store, now, |env| session.response_head(&headers, b"via_upstream", false, env));
        session.response_body(body.as_bytes());
        session.response_complete(None);
        self.step(store, now, |env| session.end(env));
    }

    /// Does what a tick does. True when it has posts or owes writes.
    pub fn ticked(&mut self, store: &mut SharedData, now: Timestamp) {
        let slow = now >= self.slow_due;
        if slow {
            self.slow_due = now.after(SLOW);
        }
        self.step(store, now, |env| {
            env.gate.pay_owed(env.store, env.now);
            if slow {
                env.suggestions.exchange(env.store, env.recorder);
                if let Some(fleet) = &mut env.gate.fleet {
                    fleet.beat(env.now);
                }
            }
        });
    }

    /// What is to be posted next, with its command.
    pub fn next_batch(&mut self, store: &mut SharedData, now: Timestamp) -> Option<(Batch, String)> {
        self.step(store, now, |env| {
            let batch = env.gate.fleet.as_mut()?.next_batch(env.now)?;
            let policy = env.gate.policy(batch.pool)?;
            let command = env.gate.fleet.as_ref()?.batch_command(false, &batch, policy);
            Some((batch, command))
        })
    }

    /// The same batch with the script along.
    pub fn loaded(&self, batch: &Batch) -> Option<String> {
        let policy = self.gate.policy(batch.pool)?;
        Some(self.gate.fleet.as_ref()?.batch_command(true, batch, policy))
    }

    /// A batch was answered, or not.
    pub fn posted(&mut self, store: &mut SharedData, batch: Batch, reply: Option<Reply>, now: Timestamp) {
        self.step(store, now, |env| {
            let policy = env.gate.policy(batch.pool).cloned();
            if let (Some(policy), Some(fleet)) = (policy, env.gate.fleet.as_mut()) {
                fleet.posted(batch, &policy, reply, env.now, env.recorder);
            }
        });
    }

    /// How long a batch is waited for.
    pub fn patience(&self) -> Span {
        self.gate.fleet.as_ref().map_or(Span::ZERO, crate::session::fleet::Fleet::patience)
    }

    /// True when something should go out soon.
    pub fn owes(&self) -> bool {
        self.gate.owed() + self.gate.posts() > 0
    }

    /// True when decisions are asked for.
    pub fn is_well(&self) -> bool {
        self.gate.fleet.as_ref().is_some_and(crate::session::fleet::Fleet::is_well)
    }
}
