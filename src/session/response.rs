//! What the upstream answers: status, limit headers, usage.

use super::gatekeeper::anomaly_of;
use super::head::{Headers, first};
use super::{Env, Meter, Phase, Session};
use crate::cost::usage::{Report, ResponseHead, ResponseMeter, Usage};
use crate::units::{Resource, Timestamp};
use crate::upstream::headers::ProviderHeaders;
use crate::upstream::{LONGEST_RESET, Throttle};

/// Who produced a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nothing came.
    #[default]
    None,
    /// The provider.
    Upstream,
    /// This Envoy, before the provider was reached.
    NeverReached,
    /// This Envoy, after the call had been sent to the provider and nothing usable came back.
    Lost,
    /// This Envoy, because the provider took too long; it may well be working on the call.
    TimedOut,
}

/// What is known of a call's response.
#[derive(Debug, Default)]
pub struct ResponseState {
    pub(super) origin: Origin,
    pub(super) status: u16,
    /// When the headers came.
    pub(super) answered: Timestamp,
    pub(super) meter: Meter,
    /// What the meter said in the end.
    pub(super) report: Option<Report>,
    pub(super) complete: bool,
    pub(super) throttle: Option<Throttle>,
    pub(super) header_usage: Option<Usage>,
    /// What Envoy's own reader published, see [`crate::cost::usage::published`].
    pub(super) published: Option<Usage>,
}

/// Tells from `%RESPONSE_CODE_DETAILS%` who answered; the names are Envoy's.
pub fn origin_of(details: &[u8]) -> Origin {
    let starts = |prefix: &[u8]| details.starts_with(prefix);
    let has = |part: &[u8]| details.windows(part.len()).any(|window| window == part);
    if details.is_empty() || starts(b"via_upstream") {
        Origin::Upstream
    } else if starts(b"upstream_reset_before_response_started") {
        if has(b"connection_failure") || has(b"connection_timeout") || has(b"overflow") {
            Origin::NeverReached
        } else {
            Origin::Lost
        }
    } else if starts(b"upstream_reset_after_response_started") {
        Origin::Upstream
    } else if has(b"timeout") {
        Origin::TimedOut
    } else {
        Origin::NeverReached
    }
}

impl Session {
    /// True when response callbacks matter to this call.
    pub fn reads_response(&self) -> bool {
        self.phase == Phase::Forwarded
    }

    /// Takes in the response headers. `details` is `%RESPONSE_CODE_DETAILS%` so far; `ends`: no body follows.
    pub fn response_head(&mut self, headers: &Headers<'_>, details: &[u8], ends: bool, env: &mut Env<'_>) {
        if !self.reads_response() {
            return;
        }
        let status =
            first(headers, ":status").and_then(|value| core::str::from_utf8(value).ok()?.parse().ok());
        self.response.status = status.unwrap_or(0);
        self.response.answered = env.now;
        self.response.origin = origin_of(details);
        if self.response.origin != Origin::Upstream {
            return;
        }
        let mut provider = ProviderHeaders::new(env.now);
        for (name, value) in headers {
            provider.see(name, value);
        }
        self.response.throttle = provider.throttle(self.response.status);
        self.response.header_usage = provider.usage();
        self.adopt(&provider, env);
        let Some(priced) = &self.priced else { return };
        if !ends {
            self.response.meter = Some(Box::new(ResponseMeter::new(&ResponseHead {
                content_type: first(headers, "content-type").unwrap_or_default(),
                content_encoding: first(headers, "content-encoding").unwrap_or_default(),
                failed: self.response.status >= 400,
                streams: priced.facts.streams,
                model: priced.facts.model.as_deref(),
                dialect: priced.endpoint.dialect,
            })));
        }
    }

    /// Adopts the provider's remaining amounts where they are lower than ours. Of a refusal that says how long to stay away, with
    /// room for such a call: after the pause the provider has that.
    fn adopt(&self, provider: &ProviderHeaders, env: &mut Env<'_>) {
        let Some(priced) = &self.priced else { return };
        let Some(learn) = self.plan.config.pools.get(priced.pool).map(|pool| pool.learn) else { return };
        let mut hints = provider.limits();
        if learn.pause_on_429 && self.response.throttle.is_some_and(|refusal| refusal.retry_after.is_some()) {
            for resource in Resource::PER_MINUTE {
                if hints.reset.get(resource).is_none_or(|reset| reset <= LONGEST_RESET) {
                    let left = hints.remaining.get_mut(resource);
                    *left = left.map(|left| left.max(*priced.ask.cost.get(resource)));
                }
            }
        }
        if !learn.headers || hints.is_empty() {
            return;
        }
        let (now, ceiling) = (env.now, self.plan.config.max_retry_after);
        let adopted = env.gate.adopt(env.store, priced.pool, &hints, &learn, ceiling, now, env.recorder);
        if let Err(error) = adopted {
            env.recorder.anomaly(anomaly_of(&error));
        }
    }

    /// Takes in a piece of the response body.
    pub fn response_body(&mut self, chunk: &[u8]) {
        if let Some(meter) = &mut self.response.meter {
            meter.feed(chunk);
        }
    }

    /// Whether the body, which has ended, states all that the call used, so that the host need not be asked.
    pub fn states_usage(&mut self) -> bool {
        self.read_out();
        self.response.report.as_ref().is_some_and(|report| report.usage.is_some() && report.anomaly.is_none())
    }

    /// Ends the reading of the body.
    pub(super) fn read_out(&mut self) {
        if let Some(mut meter) = self.response.meter.take() {
            self.response.report = Some(meter.finish());
        }
    }

    /// Marks the response as having ended by itself. `published`: usage that the host knows of it.
    pub const fn response_complete(&mut self, published: Option<Usage>) {
        self.response.complete = true;
        self.response.published = published;
    }
}
