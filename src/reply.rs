//! Answers of the gate itself: 429 with a booked return, 413, and the limit headers.

use crate::config::Pool;
use crate::cost::dialect::Dialect;
use crate::cost::price::ExceedsLimit;
use crate::cost::refusal::{self, Refusal};
use crate::gate::{Standing, Standings, WaitReason};
use crate::units::Span;

/// A response that the filter sends in place of the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u32,
    /// `x-backpressure-reason`.
    pub reason: &'static str,
    /// All headers; every name once.
    pub headers: Vec<(&'static str, String)>,
    /// JSON error in the dialect of the call.
    pub body: Vec<u8>,
}

/// Value of `x-backpressure-reason`.
pub const fn reason_name(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Exhausted => "exhausted",
        WaitReason::OverShare => "over_share",
        WaitReason::Concurrency => "concurrency",
        WaitReason::UpstreamPaused => "upstream_paused",
    }
}

/// Names of limit headers: the limit, the rest, and when it is whole again.
struct HeaderNames {
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
}

const REQUESTS: HeaderNames = HeaderNames {
    limit: "x-ratelimit-limit-requests",
    remaining: "x-ratelimit-remaining-requests",
    reset: "x-ratelimit-reset-requests",
};

const LLM_TOKENS: HeaderNames = HeaderNames {
    limit: "x-ratelimit-limit-tokens",
    remaining: "x-ratelimit-remaining-tokens",
    reset: "x-ratelimit-reset-tokens",
};

/// Headers that tell what is left, grouped so that a group which the upstream sent itself can be left alone.
///
/// A pool that limits input or output apart shows the one of which less is left under `-tokens`.
pub fn limit_headers(standings: &Standings) -> Vec<(&'static str, String)> {
    let mut headers = Vec::with_capacity(6);
    push_group(&mut headers, &REQUESTS, standings.requests);
    let tightest = [standings.llm_tokens, standings.input, standings.output]
        .into_iter()
        .flatten()
        .min_by_key(|standing| standing.remaining);
    push_group(&mut headers, &LLM_TOKENS, tightest);
    headers
}

fn push_group(out: &mut Vec<(&'static str, String)>, names: &HeaderNames, standing: Option<Standing>) {
    if let Some(standing) = standing {
        out.push((names.limit, standing.limit.to_string()));
        out.push((names.remaining, standing.remaining.to_string()));
        out.push((names.reset, duration(standing.reset)));
    }
}

/// A duration as limit headers write it: seconds with up to three decimals, rounded up, e.g. `1.5s`.
pub fn duration(span: Span) -> String {
    let millis = span.as_millis_ceil();
    let (whole, rest) = (millis / 1_000, millis % 1_000);
    let mut text = whole.to_string();
    if rest > 0 {
        // The 1 keeps the zeros in front.
        let decimals = rest.saturating_add(1_000).to_string();
        text.push('.');
        text.push_str(decimals.get(1..).unwrap_or_default().trim_end_matches('0'));
    }
    text.push('s');
    text
}

/// The 429 for a call that was given a time.
pub fn denied(
    pool: &Pool,
    dialect: Dialect,
    reason: WaitReason,
    told: Span,
    max_told: Span,
    standings: &Standings,
) -> Answer {
    let millis = told.as_millis_ceil().max(1);
    let ceiling = max_told.as_secs_ceil().max(1);
    let seconds = millis.div_ceil(1_000).clamp(1, ceiling);
    let name = reason_name(reason);
    let message = format!("Pool '{}': {}", pool.name, refusal::wait_message(name, Span::from_millis(millis)));
    let mut headers = vec![
        ("content-type", String::from("application/json")),
        ("cache-control", String::from("no-store")),
        ("retry-after", seconds.to_string()),
        ("retry-after-ms", millis.to_string()),
        ("x-should-retry", String::from("true")),
        ("x-backpressure-reason", String::from(name)),
    ];
    if dialect == Dialect::Bedrock {
        headers.push(("x-amz-retry-after", millis.to_string()));
        headers.push(("x-amzn-errortype", String::from("ThrottlingException")));
    }
    headers.extend(limit_headers(standings));
    let body = refusal::body(
        dialect,
        &Refusal { status: 429, reason: name, message: &message, wait_ms: Some(millis) },
    );
    Answer { status: 429, reason: name, headers, body }
}

/// The 413 for a call that can never pass.
pub fn too_large(pool: &Pool, dialect: Dialect, exceeds: &ExceedsLimit, standings: &Standings) -> Answer {
    let message = refusal::too_large_message(exceeds.resource, exceeds.limit, exceeds.need);
    let message = format!("Pool '{}': {message}", pool.name);
    let name = "exceeds_limit";
    let mut headers = vec![
        ("content-type", String::from("application/json")),
        ("cache-control", String::from("no-store")),
        ("x-should-retry", String::from("false")),
        ("x-backpressure-reason", String::from(name)),
    ];
    if dialect == Dialect::Bedrock {
        headers.push(("x-amzn-errortype", String::from("ValidationException")));
    }
    headers.extend(limit_headers(standings));
    let body =
        refusal::body(dialect, &Refusal { status: 413, reason: name, message: &message, wait_ms: None });
    Answer { status: 413, reason: name, headers, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_and_drop_zeros() {
        assert_eq!(duration(Span::from_micros(1_500_000)), "1.5s");
        assert_eq!(duration(Span::from_micros(1)), "0.001s");
        assert_eq!(duration(Span::ZERO), "0s");
        assert_eq!(duration(Span::from_secs(60)), "60s");
        assert_eq!(duration(Span::from_micros(17_001_000)), "17.001s");
    }

    #[test]
    fn the_tightest_of_input_and_output_is_shown() {
        let standing = |remaining| Some(Standing { limit: 100, remaining, reset: Span::ZERO });
        let standings = Standings { input: standing(40), output: standing(7), ..Standings::default() };
        let headers = limit_headers(&standings);
        assert_eq!(headers.len(), 3);
        assert!(headers.contains(&("x-ratelimit-remaining-tokens", String::from("7"))));
    }
}
