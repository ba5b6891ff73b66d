//! Probes: calls on a copy of the shared world, so that looking changes nothing.

use serde_json::Value;

use super::bench::{Bench, Verdict, chat_body, field_post};
use crate::host::{Host, Options, StreamId};
use crate::stats::Kind;
use crate::wire::Headers;

/// An amount of LLM tokens in a log field: a number, or an object with one member per resource.
pub(super) fn amount(value: &Value) -> u64 {
    let member = |name: &str| value[name].as_u64().unwrap_or(0);
    value.as_u64().unwrap_or_else(|| member("tokens").max(member("input_tokens") + member("output_tokens")))
}

/// A fresh worker on a copy of a bench's world.
pub struct Probe {
    host: Host,
}

impl Probe {
    /// Copies the world of `bench`; the configuration may be changed for the probe.
    pub fn new(bench: &Bench, change: impl FnOnce(&mut Value)) -> Self {
        let mut config = bench.config.clone();
        change(&mut config);
        let options = Options { workers: 1, main_thread: false, canary: false, ..bench.host.options.clone() };
        let host = Host::start_in(options, &config.to_string(), bench.host.snapshot())
            .unwrap_or_else(|log| panic!("the probe's configuration is refused: {log}"));
        Self { host }
    }

    /// Sends one call.
    pub fn send(&mut self, headers: Headers, body: &[u8]) -> (Verdict, StreamId) {
        let id = self.host.open(0, headers, false);
        self.host.request_body(id, body, true);
        (Verdict::of(self.host.stream(id)), id)
    }

    /// Sends a chat call.
    pub fn chat(&mut self, max_tokens: u64) -> (Verdict, StreamId) {
        self.send(field_post("/v1/chat/completions"), &chat_body(max_tokens))
    }

    /// The host on the copy.
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }
}

impl Bench {
    /// A probe with the bench's own configuration.
    pub fn probe(&self) -> Probe {
        Probe::new(self, |_| {})
    }

    fn admits(&self, max_tokens: u64) -> Option<u64> {
        let mut probe = self.probe();
        let (verdict, id) = probe.chat(max_tokens);
        (verdict == Verdict::Admit).then(|| amount(&probe.host.stream(id).log_field()["reserved"]))
    }

    /// 10 000 (or the pool's limit) less the largest chat call still admitted.
    pub fn tpm_used(&self) -> u64 {
        let pools = self.config["pools"].as_array().expect("pools");
        let pool = pools.iter().find(|pool| pool["name"] == "m-chat").expect("m-chat");
        let limit = pool["limits"]["tokens_per_minute"].as_u64().expect("a limit");
        let (mut good, mut bad) = (0, limit + 1);
        let mut largest = 0;
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match self.admits(middle) {
                Some(reserved) => (good, largest) = (middle, reserved),
                None => bad = middle,
            }
        }
        limit.saturating_sub(largest)
    }

    /// Whether exactly `amount` is in use: the largest call that fits beside it is admitted, one more is not.
    pub fn uses(&self, amount: u64) -> bool {
        let Some(smallest) = self.admits(1) else { return false };
        let room = 10_000_u64.saturating_sub(amount + smallest - 1);
        self.admits(room).is_some() && self.admits(room + 1).is_none()
    }

    /// The requests a minute that are taken: the limit less the small calls still admitted.
    pub fn rpm_used(&self) -> u64 {
        let pools = self.config["pools"].as_array().expect("pools");
        let pool = pools.iter().find(|pool| pool["name"] == "m-chat").expect("m-chat");
        let limit = pool["limits"]["requests_per_minute"].as_u64().expect("a limit");
        let mut probe = self.probe();
        let free = (0..limit).take_while(|_| probe.chat(1).0 == Verdict::Admit).count();
        limit - free as u64
    }

    /// Calls in flight in `m-chat`, as the gauge tells after its next update.
    pub fn in_flight(&self) -> u64 {
        let mut probe = self.probe();
        probe.host.advance_secs(1);
        let world = probe.host.world.borrow();
        world.stats.sum(Kind::Gauge, &["in_flight", "pool.=.m-chat;"])
    }

    /// Whether the pool waits for its upstream: the next small call is refused for that reason.
    pub fn paused(&self) -> bool {
        let mut probe = self.probe();
        let (_, id) = probe.chat(1);
        probe.host.stream(id).client_header("x-backpressure-reason").as_deref() == Some("upstream_paused")
    }

    /// Sum of the counters whose name holds every part.
    pub fn counted(&self, parts: &[&str]) -> u64 {
        self.host.world.borrow().stats.sum(Kind::Counter, parts)
    }
}
