//! A snapshot as compact JSON, for the page and for programs.

use crate::cost::json::quote;
use core::fmt::Write as _;

use super::{DenialView, FlowView, LimitView, PoolView, ReturnView, Snapshot};

/// Writes objects and lists one member at a time.
struct Writer {
    out: String,
    /// The next member is the first of its object or list.
    first: bool,
}

impl Writer {
    fn comma(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    fn text(&mut self, value: &str) {
        quote(&mut self.out, value);
    }

    fn key(&mut self, name: &str) {
        self.comma();
        self.text(name);
        self.out.push(':');
    }

    fn string(&mut self, name: &str, value: &str) {
        self.key(name);
        self.text(value);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.key(name);
        let _ = write!(self.out, "{value}");
    }

    fn word(&mut self, name: &str, value: &str) {
        self.key(name);
        self.out.push_str(value);
    }

    fn optional(&mut self, name: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(name, value),
            None => self.word(name, "null"),
        }
    }

    fn within(&mut self, open: char, close: char, inside: impl FnOnce(&mut Self)) {
        self.out.push(open);
        self.first = true;
        inside(self);
        self.first = false;
        self.out.push(close);
    }

    fn list<T>(&mut self, name: &str, items: &[T], member: impl Fn(&mut Self, &T)) {
        self.key(name);
        self.within('[', ']', |writer| {
            for item in items {
                writer.comma();
                writer.within('{', '}', |writer| member(writer, item));
            }
        });
    }
}

fn pool(writer: &mut Writer, pool: &PoolView) {
    writer.string("name", &pool.name);
    writer.word("readable", if pool.readable { "true" } else { "false" });
    writer.list("limits", &pool.limits, limit);
    writer.number("scale_permille", pool.scale_permille.into());
    writer.optional("paused_ms", pool.paused_ms);
    writer.number("in_flight", pool.in_flight);
    writer.number("parked", pool.parked);
    writer.number("booked", pool.booked);
    writer.optional("mean_duration_ms", pool.mean_duration_ms);
    writer.number("fairness_permille", pool.fairness_permille.into());
    writer.list("flows", &pool.flows, flow);
    writer.list("returns", &pool.returns, returning);
}

fn limit(writer: &mut Writer, limit: &LimitView) {
    writer.string("resource", limit.resource.name());
    writer.number("limit", limit.limit);
    writer.number("at_once", limit.at_once);
    writer.number("remaining", limit.remaining);
    writer.number("reset_ms", limit.reset_ms);
}

fn flow(writer: &mut Writer, flow: &FlowView) {
    writer.string("class", &flow.class);
    writer.string("tenant", &flow.tenant);
    writer.number("waiting", flow.waiting.into());
    writer.number("entitled_permille", flow.entitled_permille.into());
    writer.number("received_permille", flow.received_permille.into());
    writer.number("returning_permille", flow.returning_permille.into());
}

fn returning(writer: &mut Writer, returning: &ReturnView) {
    writer.string("class", &returning.class);
    writer.string("tenant", &returning.tenant);
    writer.number("in_ms", returning.in_ms);
}

fn denial(writer: &mut Writer, denial: &DenialView) {
    writer.number("ago_ms", denial.ago_ms);
    writer.string("pool", &denial.pool);
    writer.string("class", &denial.class);
    writer.string("tenant", &denial.tenant);
    writer.string("reason", denial.reason);
    writer.optional("told_ms", denial.told_ms);
}

impl Snapshot {
    /// The snapshot as one JSON object.
    pub fn to_json(&self) -> String {
        let mut writer = Writer { out: String::with_capacity(4_096), first: true };
        writer.within('{', '}', |writer| {
            writer.string("version", self.version);
            writer.string("mode", self.mode);
            writer.number("at_ms", self.at_ms);
            writer.list("pools", &self.pools, pool);
            writer.list("denials", &self.denials, denial);
            writer.key("anomalies");
            writer.within('{', '}', |writer| {
                for (reason, count) in &self.anomalies {
                    writer.number(reason, *count);
                }
            });
            writer.number("owed", self.owed);
        });
        writer.out
    }
}
