//! A call from its request to its end.

use std::rc::Rc;

use envoy_backpressure::session::admission::Seen;
use envoy_backpressure::session::{Phase, Session, Verdict};
use envoy_backpressure::units::Timestamp;
use serde_json::Value;

use super::super::bytes::Choices;
use super::{Call, MOST_CALLS, Past, World};

impl World {
    pub(super) fn open(&mut self, choices: &mut Choices<'_>) {
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
    pub(super) fn note(&mut self, index: usize, verdict: &Verdict) {
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

    pub(super) fn answer_head(&mut self, index: usize, choices: &mut Choices<'_>) {
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

    pub(super) fn end(&mut self, index: usize) {
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
}

/// The access-log field of a call.
pub(super) fn field(session: &Session) -> Option<Value> {
    serde_json::from_str(&session.log_field()?).ok()
}
