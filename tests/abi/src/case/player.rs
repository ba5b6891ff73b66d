//! Plays an event script against the bench.

use std::collections::BTreeMap;

use serde_json::Value;

use super::bench::{Bench, Verdict};
use super::script::{Event, Script, body_of};
use crate::clock::NANOS_PER_SECOND;
use crate::fault::Fault;
use crate::host::{Options, StreamId};
use crate::status::Status;
use crate::stream::LocalReply;
use crate::wire::Headers;

/// One call of a script.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub id: StreamId,
    pub tenant: Option<String>,
    pub opened: u64,
    pub counted: bool,
    /// How often the caller has been refused so far.
    pub refusals: u32,
    /// Its request events, to send again.
    pub request: Vec<Event>,
    pub sent: Vec<u8>,
    pub answered: Vec<u8>,
}

/// What a script shows in the end.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Moments (microseconds) and tenants of admissions.
    pub admissions: Vec<(u64, String)>,
    pub refused: u64,
    /// Calls that were admitted when they came back the first time, and all that came back.
    pub first_returns: (u64, u64),
    /// Expectations that were checked.
    pub checked: usize,
    /// Expectations that did not hold.
    pub failures: Vec<String>,
}

/// The player.
pub struct Player {
    pub bench: Bench,
    pub report: Report,
    pub(super) calls: BTreeMap<String, Played>,
    pub(super) now: u64,
    pub(super) stats_before: usize,
    pub(super) instructions_before: u64,
    /// Identity comes from this property instead of the header when set.
    pub identity_property: Option<Vec<u8>>,
    returning: BTreeMap<(u64, String), Vec<Event>>,
    ends_alone: bool,
    first: Option<String>,
}

/// Plays a case on the bench profile with changes and demands that every expectation holds.
pub fn play(name: &str, change: impl FnOnce(&mut Value)) -> Player {
    let script = Script::case(name);
    let bench = Bench::start(Options::filter().workers(script.workers()), change);
    Player::new(bench).play(name)
}

impl Player {
    /// A player on a bench.
    pub fn new(bench: Bench) -> Self {
        let mut bench = bench;
        let stats_before = bench.host.world.borrow().stats.len();
        let instructions_before = bench.host.vm(0).instructions();
        Self {
            bench,
            report: Report::default(),
            calls: BTreeMap::new(),
            now: 0,
            stats_before,
            instructions_before,
            identity_property: None,
            returning: BTreeMap::new(),
            ends_alone: false,
            first: None,
        }
    }

    /// Plays a case and demands that every expectation holds.
    pub fn play(self, name: &str) -> Self {
        self.play_script(name, Script::case(name))
    }

    /// Plays a script that was changed, under the name of its case.
    pub fn play_script(mut self, name: &str, script: Script) -> Self {
        self.run(script);
        assert!(self.report.checked > 0, "{name} expects nothing");
        assert!(self.report.failures.is_empty(), "{name}: {:#?}", self.report.failures);
        self
    }

    /// Plays a script to its end.
    pub fn run(&mut self, script: Script) {
        for event in script {
            self.run_returns(event.at);
            self.step(&event);
        }
        self.check_violations();
    }

    fn check_violations(&mut self) {
        let world = self.bench.host.world.borrow();
        self.report.failures.extend(world.violations.iter().map(|v| format!("undefined on Envoy: {v}")));
        self.report.failures.extend(world.traps.iter().map(|t| format!("trap: {t}")));
    }

    fn run_returns(&mut self, until: u64) {
        while let Some(entry) = self.returning.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let (at, _) = *entry.key();
            let events = entry.remove();
            for event in events {
                self.step(&Event { at, ..event });
            }
        }
    }

    fn move_to(&mut self, at: u64) {
        if at > self.now {
            self.bench.host.advance_nanos((at - self.now) * (NANOS_PER_SECOND / 1_000_000));
            self.now = at;
        }
    }

    fn step(&mut self, event: &Event) {
        self.move_to(event.at);
        let body = &event.body;
        let name = body["s"].as_str().unwrap_or_default().to_owned();
        match body["ev"].as_str().unwrap_or_default() {
            "req_headers" => self.open(&name, event),
            "config" => self.configure(body),
            "host" => self.misbehave(body),
            "clock" => {
                let seconds =
                    body["step_s"].as_f64().or_else(|| body["by_s"].as_f64()).expect("a step in seconds");
                self.bench.host.world.borrow_mut().clock.step_wall((seconds * 1e9) as i64);
            }
            "expect" => self.expect(&name, body),
            other => self.on_call(&name, other, event),
        }
    }

    fn open(&mut self, name: &str, event: &Event) {
        let mut headers = Headers::default();
        for pair in event.body["headers"].as_array().expect("headers") {
            let text = |index: usize| pair[index].as_str().unwrap_or_default().as_bytes();
            headers.add(text(0), text(1));
        }
        let tenant = headers.text("x-tenant").filter(|_| event.body["untrusted"] != true);
        let mut properties = BTreeMap::new();
        if let (Some(path), Some(tenant)) = (&self.identity_property, &tenant) {
            properties.insert(path.clone(), tenant.clone().into_bytes());
        }
        let end = event.body["eos"] == true;
        let id = self.bench.host.open_with(event.worker, headers, end, properties);
        let refusals = self.calls.get(name).map_or(0, |call| call.refusals);
        let call = Played {
            id,
            tenant,
            opened: self.now,
            counted: false,
            refusals,
            request: vec![event.clone()],
            sent: Vec::new(),
            answered: Vec::new(),
        };
        self.calls.insert(name.to_owned(), call);
        self.first.get_or_insert_with(|| name.to_owned());
        self.note(name, event);
    }

    fn on_call(&mut self, name: &str, kind: &str, event: &Event) {
        let Some(call) = self.calls.get_mut(name) else {
            assert!(event.looped, "event {kind} for unknown call {name}");
            return;
        };
        let id = call.id;
        let body = &event.body;
        let end = body["eos"] == true;
        let host = &mut self.bench.host;
        match kind {
            "req_body" => {
                let bytes = body_of(body);
                call.sent.extend(&bytes);
                if event.obeys {
                    call.request.push(event.clone());
                }
                let size = body["chunk"].as_u64().map_or(bytes.len(), |n| n as usize).max(1);
                // A script that leaves the body open means its last chunk to be the end of what matters.
                let parts: Vec<&[u8]> =
                    if bytes.is_empty() { vec![&[]] } else { bytes.chunks(size).collect() };
                for (index, part) in parts.iter().enumerate() {
                    host.request_body(id, part, end && index + 1 == parts.len());
                }
            }
            "req_trailers" => host.request_trailers(id, headers_of(body)),
            "resp_headers" if body["own_reply"] == true => {}
            "resp_headers" => host.response_headers(id, headers_of(body), end),
            "resp_body" => {
                let bytes = body_of(body);
                call.answered.extend(&bytes);
                let size = body["chunk"].as_u64().map_or(bytes.len(), |n| n as usize).max(1);
                let parts: Vec<&[u8]> =
                    if bytes.is_empty() { vec![&[]] } else { bytes.chunks(size).collect() };
                for (index, part) in parts.iter().enumerate() {
                    host.response_body(id, part, end && index + 1 == parts.len());
                }
            }
            "resp_trailers" => host.response_trailers(id, headers_of(body)),
            "reset" => host.reset(id),
            "log" => {
                self.ends_alone = true;
                host.log(id);
            }
            "done" if self.ends_alone => host.done(id),
            "done" => host.end(id),
            "delete" => host.delete(id),
            "local_reply" => {
                let status = body["status"].as_u64().unwrap_or(503) as u32;
                let details = body["details"].as_str().unwrap_or("rbac_access_denied_matched_policy[none]");
                let reply = LocalReply {
                    status,
                    body: body_of(body),
                    details: details.to_owned(),
                    ..LocalReply::default()
                };
                host.local_reply(id, reply);
            }
            other => panic!("unknown event {other}"),
        }
        self.note(name, event);
    }

    /// Counts a call's verdict once it is there; a refused one ends, and comes back when told if it obeys.
    fn note(&mut self, name: &str, event: &Event) {
        let obeys = event.obeys;
        let Some(call) = self.calls.get_mut(name) else { return };
        if call.counted {
            return;
        }
        let stream = self.bench.host.stream(call.id);
        let verdict = Verdict::of(stream);
        let retry_ms = stream.client_header("retry-after-ms").and_then(|v| v.parse::<u64>().ok());
        let retry_s = stream.client_header("retry-after").and_then(|v| v.parse::<u64>().ok());
        match verdict {
            Verdict::Admit => {
                call.counted = true;
                let tenant = call.tenant.clone().unwrap_or_else(|| "default".to_owned());
                self.report.admissions.push((call.opened, tenant));
            }
            Verdict::Deny | Verdict::TooLarge => {
                call.counted = true;
                self.report.refused += 1;
            }
            _ => return,
        }
        if obeys && call.refusals == 1 {
            self.report.first_returns.1 += 1;
            self.report.first_returns.0 += u64::from(verdict == Verdict::Admit);
        }
        if verdict == Verdict::Deny {
            self.bench.host.end(call.id);
            call.refusals += 1;
            let wait = retry_ms.map(|ms| ms * 1_000).or(retry_s.map(|s| s * 1_000_000));
            if let Some(wait) = wait.filter(|_| obeys && call.refusals <= 10) {
                self.returning.insert((self.now + wait, name.to_owned()), call.request.clone());
            } else if event.looped {
                let id = call.id;
                self.calls.remove(name);
                self.bench.host.forget(id);
            }
        }
    }

    fn configure(&mut self, body: &Value) {
        if let Some(pool) = body["pool"].as_str() {
            let limits = &mut Bench::pool(&mut self.bench.config, pool)["limits"];
            for (short, key) in [("rpm", "requests_per_minute"), ("tpm", "tokens_per_minute")] {
                if let Some(limit) = body[short].as_u64() {
                    limits[key] = limit.into();
                }
            }
        }
        let text = self.bench.config.to_string();
        self.bench.host.configure(&text).unwrap_or_else(|log| panic!("refused: {log}"));
    }

    fn misbehave(&mut self, body: &Value) {
        let call = body["call"].as_str().expect("a host call");
        let status = body["result"].as_str().and_then(Status::code_of).expect("a known status");
        let times = body["times"].as_u64().unwrap_or(1);
        self.bench.host.world.borrow_mut().faults.add(Fault::status(call, status, times));
    }

    /// The only or first call of the script.
    pub fn first_call(&self) -> StreamId {
        self.calls[self.first.as_deref().expect("the script opened a call")].id
    }
}

fn headers_of(body: &Value) -> Headers {
    let mut headers = Headers::default();
    for pair in body["headers"].as_array().into_iter().flatten() {
        headers.add(
            pair[0].as_str().unwrap_or_default().as_bytes(),
            pair[1].as_str().unwrap_or_default().as_bytes(),
        );
    }
    headers
}
