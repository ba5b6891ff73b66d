//! Settlement: the real cost in place of the reserved one, exactly once, however the call ends.

use super::admission::scaled;
use super::gatekeeper::Lesson;
use super::response::Origin;
use super::{Claim, Env, Phase, Priced, Session};
use crate::cost::price;
use crate::cost::reserve::Observation;
use crate::cost::usage::{self, Report, Usage};
use crate::gate::Settlement;
use crate::observe::{Anomaly, Decided, LlmTokenKind};
use crate::units::Cost;

/// Reason in the access log of a call whose caller left while it was parked.
const LEFT: &str = "caller_left";

/// What a call used, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    usage: Usage,
    /// What the provider stated of it; the rest are estimates.
    stated: Usage,
}

impl Used {
    const fn is_stated(&self) -> bool {
        self.stated.input.is_some() || self.stated.output.is_some()
    }
}

impl Session {
    /// Ends the call: settles, or frees the place of one that still waited. Further calls do nothing.
    pub fn end(&mut self, env: &mut Env<'_>) {
        match self.phase {
            Phase::Forwarded => self.settle(env),
            Phase::Parked { since, .. } => {
                // For the access log alone: what is counted is what became of calls.
                (self.decided, self.reason) = (Some(Decided::Parked), Some(LEFT));
                (self.wait, self.used_llm_tokens) = (env.now.since(since), Some(0));
                if let (Some(booking), Some(pool)) = (self.take_booking(), self.pool()) {
                    env.gate.cancel(env.store, pool, booking, env.now, env.recorder);
                }
            }
            Phase::Asking { .. } => self.give_up_asking(env),
            Phase::Passed | Phase::Undecided | Phase::Answered | Phase::Settled => {}
        }
        self.phase = Phase::Settled;
    }

    fn settle(&mut self, env: &mut Env<'_>) {
        self.read_out();
        let report = self.response.report.take();
        let Some(priced) = self.priced.take() else { return };
        // Counted here, where nobody waits for the host's answer, and with what late body bytes added.
        env.recorder.llm_tokens(self.labels(), LlmTokenKind::Reserved, self.reserved);
        let claim = core::mem::replace(&mut self.claim, Claim::None);
        let extra = core::mem::replace(&mut self.extra, Claim::None);
        let how = self.account(&priced, report.as_ref(), env);
        let lesson = self.lesson(priced.pool, report.as_ref(), env);
        env.gate.settle(env.store, priced.pool, claim, (how, lesson), env.now, env.recorder);
        // The whole real cost stands on the first claim, so what was added for late body bytes goes back.
        env.gate.settle(
            env.store,
            priced.pool,
            extra,
            (Settlement::Unused, Lesson::None),
            env.now,
            env.recorder,
        );
        self.priced = Some(priced);
    }

    /// What the end of this call teaches about the provider.
    fn lesson(&self, pool: usize, report: Option<&Report>, env: &mut Env<'_>) -> Lesson {
        let Some(learn) = self.plan.config.pools.get(pool).map(|pool| pool.learn) else {
            return Lesson::None;
        };
        if self.response.origin != Origin::Upstream {
            return Lesson::None;
        }
        let error = report.and_then(|report| report.error.as_ref());
        let throttle = match (self.response.throttle, error) {
            (Some(throttle), Some(error)) => Some(throttle.refined_by(error)),
            (Some(throttle), None) => Some(throttle),
            // Words such as `insufficient_quota` come with 400 to 404 and 500 too, where waiting mends nothing.
            (None, Some(error)) if self.response.status < 400 => error.throttle(),
            (None, _) => None,
        };
        match throttle {
            Some(throttle) => {
                env.recorder.upstream_throttled(pool);
                Lesson::Refusal(throttle, learn, self.plan.config.max_retry_after)
            }
            None if self.response.status < 400 && error.is_none() => {
                Lesson::Success(learn, env.now.since(self.response.answered))
            }
            None => Lesson::None,
        }
    }

    /// Works out what the call used and counts it.
    fn account(&mut self, priced: &Priced, report: Option<&Report>, env: &mut Env<'_>) -> Settlement {
        if self.response.origin == Origin::NeverReached {
            self.used_llm_tokens = Some(0);
            return Settlement::Unused;
        }
        if report.is_some_and(|report| report.error.is_some()) && self.response.status < 400 {
            env.recorder.anomaly(Anomaly::StreamError);
        }
        let Some(used) = self.used(priced, report) else {
            // Failed without usage: the provider counted a request, not LLM tokens.
            self.used_llm_tokens = Some(0);
            return Settlement::Actual(Cost { requests: 1, concurrency: 1, ..Cost::default() });
        };
        if let (true, Some(cause)) = (self.response.complete, self.unstated(&used, report)) {
            env.recorder.anomaly(cause);
        }
        self.count_usage(priced, &used, env);
        match self.plan.config.pools.get(priced.pool) {
            Some(pool) => {
                // What nobody stated is never charged beyond the limit: it could shut the pool for hours by a guess.
                let minutes = if used.is_stated() { price::BELIEVED_MINUTES } else { 1 };
                Settlement::Actual(price::within(pool, price::actual(pool, &used.usage), minutes))
            }
            None => Settlement::Actual(priced.ask.cost),
        }
    }

    /// `None`: nothing but the request counts.
    fn used(&self, priced: &Priced, report: Option<&Report>) -> Option<Used> {
        let read = report.and_then(|report| report.usage);
        let stated = match (read, self.response.published) {
            (Some(read), Some(published)) => Some(read.most(published)),
            (read, published) => read.or(published).or(self.response.header_usage),
        };
        let failed = self.response.status >= 400 || self.response.origin == Origin::Lost;
        if failed && stated.is_none() {
            return None;
        }
        let seen = report.map_or(0, |report| report.output_seen);
        let output = match stated.and_then(|usage| usage.output) {
            Some(output) if self.response.complete => output,
            // A stream that was cut may have stated only its beginning.
            Some(output) => output.max(seen),
            None => seen,
        };
        let stated = stated.unwrap_or_default();
        let input = stated.input.unwrap_or_else(|| self.estimated_input(priced));
        Some(Used { usage: Usage { input: Some(input), output: Some(output), ..stated }, stated })
    }

    /// Why not all that was used is known from the provider.
    fn unstated(&self, used: &Used, report: Option<&Report>) -> Option<Anomaly> {
        let cause = match report {
            Some(report) => report.anomaly?,
            // No body came at all, and nothing else tells.
            None if used.is_stated() => return None,
            None => usage::Anomaly::UsageMissing,
        };
        if !used.is_stated() {
            return Some(match cause {
                usage::Anomaly::UsageMissing | usage::Anomaly::UsagePartial => Anomaly::UsageMissing,
                usage::Anomaly::UnreadableEncoding | usage::Anomaly::Damaged => Anomaly::UsageUnreadable,
            });
        }
        // What the body lacks may stand in the headers, or the host may have told it.
        let other = self.response.published.or(self.response.header_usage);
        let is_whole = other.is_some_and(|usage| usage.input.is_some() && usage.output.is_some());
        (!is_whole).then_some(Anomaly::UsagePartial)
    }

    /// The input estimate, without what was declared and never came.
    fn estimated_input(&self, priced: &Priced) -> u64 {
        let estimate = priced.facts.input_llm_tokens;
        if self.body_seen >= self.body_assumed {
            return estimate;
        }
        scaled(estimate, self.body_seen, self.body_assumed).max(1)
    }

    fn count_usage(&mut self, priced: &Priced, used: &Used, env: &mut Env<'_>) {
        let labels = self.labels();
        let input = used.usage.input.unwrap_or(0);
        let output = used.usage.output.unwrap_or(0);
        let cached = used.usage.cached_input.min(input);
        self.used_llm_tokens = Some(input.saturating_add(output));
        env.recorder.llm_tokens(labels, LlmTokenKind::Input, input.saturating_sub(cached));
        env.recorder.llm_tokens(labels, LlmTokenKind::Cached, cached);
        env.recorder.llm_tokens(labels, LlmTokenKind::Output, output);
        let stated = used.stated;
        if let Some(error) = stated.input.and_then(|input| permille_off(priced.facts.input_llm_tokens, input))
        {
            env.recorder.estimate_error(priced.pool, error);
        }
        if self.response.complete && used.is_stated() {
            let call = Observation {
                model: priced.model_hash,
                tenant: priced.ask.flow.tenant.0,
                output: stated.output.filter(|_| priced.facts.generates_output),
                input: stated
                    .input
                    .filter(|_| priced.estimated_input > 0)
                    .map(|input| (priced.estimated_input, input)),
            };
            env.suggestions.record(priced.pool, call);
        }
    }
}

/// How far `estimate` is from `real`, in thousandths of `real`; `None` when nothing is known of it.
fn permille_off(estimate: u64, real: u64) -> Option<u64> {
    estimate.abs_diff(real).saturating_mul(1_000).checked_div(real)
}

#[cfg(test)]
mod tests {
    use super::permille_off;

    #[test]
    fn estimate_errors_are_thousandths_of_the_real_amount() {
        assert_eq!(permille_off(90, 100), Some(100));
        assert_eq!(permille_off(150, 100), Some(500));
        assert_eq!(permille_off(5, 0), None);
    }
}
