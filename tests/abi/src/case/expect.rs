//! Expectations of event scripts.

use serde_json::Value;

use super::bench::Verdict;
use super::player::Player;

/// WebAssembly instructions that run in a millisecond on a slow core: counted instead of timed, so that a busy machine
/// changes nothing.
pub const INSTRUCTIONS_PER_MILLI: u64 = 5_000_000;

fn range(value: &Value) -> (f64, f64) {
    match value.as_f64() {
        Some(exact) => (exact, exact),
        None => (value[0].as_f64().expect("a lower bound"), value[1].as_f64().expect("an upper bound")),
    }
}

impl Player {
    fn within(&mut self, what: &str, got: f64, wanted: &Value) {
        let (low, high) = range(wanted);
        self.require(low <= got && got <= high, format!("{what}: {got} is not in {low}..={high}"));
    }

    fn require(&mut self, holds: bool, failure: String) {
        self.report.checked += 1;
        if !holds {
            let at = self.now as f64 / 1e6;
            self.report.failures.push(format!("at {at} s, {failure}"));
        }
    }

    pub(super) fn expect(&mut self, name: &str, body: &Value) {
        let members = body.as_object().expect("an object");
        if let Some(millis) = body["within_ms"].as_u64()
            && self.verdict_of(name) == Verdict::Held
        {
            self.bench.host.advance_millis(millis);
            self.now += millis * 1_000;
        }
        for (key, wanted) in members {
            match key.as_str() {
                "t" | "s" | "ev" | "within_ms" => {}
                "verdict" | "retry_after" | "headers" | "client_status" | "not_status" | "reserved"
                | "priority_in" | "upstream_bytes" => self.expect_of_call(name, key, wanted),
                _ => self.expect_of_pool(key, wanted),
            }
        }
    }

    fn verdict_of(&mut self, name: &str) -> Verdict {
        let id = self.calls[name].id;
        self.bench.verdict(id)
    }

    fn expect_of_call(&mut self, name: &str, key: &str, wanted: &Value) {
        let id = self.calls[name].id;
        let stream = self.bench.host.stream(id).clone();
        let number =
            |name: &str| stream.client_header(name).and_then(|v| v.parse::<f64>().ok()).unwrap_or(-1.0);
        match key {
            "verdict" => {
                let got = Verdict::of(&stream);
                let holds = match wanted.as_str().unwrap_or_default() {
                    "admit" => got == Verdict::Admit,
                    "deny" => got == Verdict::Deny,
                    "admit_or_deny" => got == Verdict::Admit || got == Verdict::Deny,
                    other => panic!("unknown verdict {other}"),
                };
                self.require(
                    holds,
                    format!("{name}: {wanted} was expected, got {got:?}, {}", stream.log_field()),
                );
            }
            "retry_after" => self.within(&format!("{name}: retry-after"), number("retry-after"), wanted),
            "headers" => {
                for (header, bounds) in wanted.as_object().expect("an object") {
                    let full = format!("x-ratelimit-{}", header.replace('_', "-"));
                    self.within(&format!("{name}: {full}"), number(&full), bounds);
                }
            }
            "client_status" => {
                self.within(
                    &format!("{name}: status"),
                    f64::from(stream.client_status().unwrap_or(0)),
                    wanted,
                );
            }
            "not_status" => {
                let got = stream.client_status().map(u64::from);
                self.require(got != wanted.as_u64(), format!("{name}: the client got {wanted}"));
            }
            "reserved" => {
                let got = self.bench.reserved(id) as f64;
                self.within(&format!("{name}: reserved"), got, wanted);
            }
            "priority_in" => {
                let class = stream.log_field()["class"].clone();
                let holds = wanted.as_array().is_some_and(|classes| classes.contains(&class));
                self.require(holds, format!("{name}: class {class} is not in {wanted}"));
            }
            _ => {
                let same = stream.request.sent.body == self.calls[name].sent;
                self.require(same, format!("{name}: the upstream got other bytes"));
            }
        }
    }

    fn expect_of_pool(&mut self, key: &str, wanted: &Value) {
        match key {
            "tpm_used" => {
                let used = self.bench.tpm_used();
                self.within("tpm_used", used as f64, wanted);
            }
            "not_zero" => {
                let used = self.bench.tpm_used();
                self.require(used > 0, "nothing was charged".to_owned());
            }
            "rpm_used" => {
                let used = self.bench.rpm_used();
                self.within("rpm_used", used as f64, wanted);
            }
            "inflight" => {
                let count = self.bench.in_flight();
                self.within("calls in flight", count as f64, wanted);
            }
            "client_bytes" => {
                let calls: Vec<_> = self.calls.values().cloned().collect();
                for call in calls {
                    let same = self.bench.host.stream(call.id).response.sent.body == call.answered;
                    self.require(same, "the client got other bytes".to_owned());
                }
            }
            "vm" => {
                let alive = self.bench.host.alive();
                self.require(alive, "a virtual machine is dead".to_owned());
            }
            "learned_pause" => {
                let paused = self.bench.paused();
                self.require(!paused, "the pool waits for its upstream".to_owned());
            }
            "admitted" | "admitted_total" => {
                let count = self.report.admissions.len();
                self.within(key, count as f64, wanted);
            }
            "admitted_requests" => {
                let count = self.admissions_between(&wanted["frm"], &wanted["to"], None);
                let max = wanted["max"].as_u64().expect("a bound");
                self.require(count <= max, format!("{count} admissions, at most {max} were allowed"));
            }
            "share" => {
                let all = self.admissions_between(&wanted["frm"], &wanted["to"], None);
                let own = self.admissions_between(&wanted["frm"], &wanted["to"], wanted["tenant"].as_str());
                self.within("share", own as f64 / all.max(1) as f64, &wanted["range"]);
            }
            "first_retry_success" => {
                let (good, all) = self.report.first_returns;
                self.require(all > 0, "no one came back".to_owned());
                self.within("first returns admitted", good as f64 / all.max(1) as f64, wanted);
            }
            "new_stats" => {
                let now = self.bench.host.world.borrow().stats.len();
                self.within("new stats", (now - self.stats_before) as f64, wanted);
            }
            "shared_keys" => {
                let keys = self.bench.host.world.borrow().data.len();
                self.within("shared keys", keys as f64, wanted);
            }
            "cpu_ms" => {
                let run = self.bench.host.vm(0).instructions() - self.instructions_before;
                let spent = run as f64 / INSTRUCTIONS_PER_MILLI as f64;
                self.require(spent > 0.0, "the machine's instructions are not counted".to_owned());
                self.within("milliseconds of instructions", spent, wanted);
            }
            other => panic!("unknown expectation {other}"),
        }
    }

    fn admissions_between(&self, from: &Value, to: &Value, tenant: Option<&str>) -> u64 {
        let bounds = (from.as_f64().unwrap_or(0.0) * 1e6, to.as_f64().unwrap_or(f64::MAX) * 1e6);
        let inside = self.report.admissions.iter().filter(|(at, who)| {
            let at = *at as f64;
            bounds.0 <= at && at <= bounds.1 && tenant.is_none_or(|tenant| tenant == who)
        });
        inside.count() as u64
    }
}
