//! Error objects: is it a refusal by limit, and how long does its text ask to wait?
//!
//! Needed where the status does not say it: inside a stream that began with 200, and for what only bodies carry
//! (Gemini's `RetryInfo`, OpenAI's "try again in 1.22s", exhausted quota).

use crate::units::{Span, Timestamp};

use super::moment::{Unit, parse_wait, spoken_duration};
use super::{Throttle, ThrottleKind};

/// What an error object of the provider says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorEvent {
    /// The kind of refusal; `None` for errors that say nothing about limits.
    pub kind: Option<ThrottleKind>,
    /// How long it asks to wait.
    pub retry_after: Option<Span>,
}

impl ErrorEvent {
    /// The refusal that an error inside a successful response expresses.
    pub fn throttle(&self) -> Option<Throttle> {
        self.kind.map(|kind| Throttle { retry_after: self.retry_after, kind })
    }

    /// Takes note of a type, code or status word of the error object. The gravest kind wins.
    pub fn see_word(&mut self, word: &[u8]) {
        self.kind = self.kind.max_by_gravity(classify(word));
    }

    /// Joins what two error objects of the same response say.
    pub fn merge(&mut self, other: &Self) {
        self.kind = self.kind.max_by_gravity(other.kind);
        self.retry_after = self.retry_after.max(other.retry_after);
    }

    /// Takes note of a delay such as `34.07s`, given for `RetryInfo` and the like.
    pub fn see_delay(&mut self, text: &[u8]) {
        let wait = parse_wait(text, Unit::Seconds, Timestamp::EPOCH).filter(|wait| *wait > Span::ZERO);
        self.retry_after = self.retry_after.max(wait);
    }

    /// Takes note of the error's text for humans. A delay told in words counts only when none is told otherwise.
    pub fn see_message(&mut self, text: &[u8]) {
        if self.retry_after.is_none() {
            self.retry_after = delay_in_text(text);
        }
    }
}

impl Throttle {
    /// The same refusal with what the error body adds: exhausted quota, and a delay where the headers named none.
    pub fn refined_by(self, error: &ErrorEvent) -> Self {
        let quota = error.kind == Some(ThrottleKind::QuotaExhausted);
        Self {
            retry_after: self.retry_after.or(error.retry_after),
            kind: if quota { ThrottleKind::QuotaExhausted } else { self.kind },
        }
    }
}

trait Gravity {
    fn max_by_gravity(self, other: Self) -> Self;
}

impl Gravity for Option<ThrottleKind> {
    fn max_by_gravity(self, other: Self) -> Self {
        let rank = |kind: Self| match kind {
            None => 0,
            Some(ThrottleKind::Overloaded) => 1,
            Some(ThrottleKind::RateLimited) => 2,
            Some(ThrottleKind::QuotaExhausted) => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// Longest word that is known.
const LONGEST_WORD: usize = 64;

/// The kind of refusal that an error's type, code, status or exception name stands for.
pub fn classify(word: &[u8]) -> Option<ThrottleKind> {
    const KNOWN: [(&str, ThrottleKind); 28] = [
        ("429", ThrottleKind::RateLimited),
        ("503", ThrottleKind::Overloaded),
        ("529", ThrottleKind::Overloaded),
        ("billing_error", ThrottleKind::QuotaExhausted),
        ("billing_hard_limit_reached", ThrottleKind::QuotaExhausted),
        ("enforced_spend_limit_reached", ThrottleKind::QuotaExhausted),
        ("engine_overloaded_error", ThrottleKind::Overloaded),
        ("exceeded_current_quota_error", ThrottleKind::QuotaExhausted),
        ("insufficient_quota", ThrottleKind::QuotaExhausted),
        ("modelnotreadyexception", ThrottleKind::Overloaded),
        ("overloaded", ThrottleKind::Overloaded),
        ("overloaded_error", ThrottleKind::Overloaded),
        ("quota_exceeded", ThrottleKind::QuotaExhausted),
        ("ramp_limit_exceeded", ThrottleKind::RateLimited),
        ("rate_limit", ThrottleKind::RateLimited),
        ("rate_limit_error", ThrottleKind::RateLimited),
        ("rate_limit_exceeded", ThrottleKind::RateLimited),
        ("rate_limited", ThrottleKind::RateLimited),
        ("ratelimiterror", ThrottleKind::RateLimited),
        ("requests", ThrottleKind::RateLimited),
        ("resource_exhausted", ThrottleKind::RateLimited),
        ("servicequotaexceededexception", ThrottleKind::QuotaExhausted),
        ("serviceunavailableerror", ThrottleKind::Overloaded),
        ("serviceunavailableexception", ThrottleKind::Overloaded),
        ("throttlingexception", ThrottleKind::RateLimited),
        ("tokens", ThrottleKind::RateLimited),
        ("too_many_requests", ThrottleKind::RateLimited),
        ("unavailable", ThrottleKind::Overloaded),
    ];
    // `ThrottlingException:http://...` and `com.amazon#ThrottlingException` name the same thing.
    let word = word.split(|byte| *byte == b':').next()?;
    let word = word.rsplit(|byte| *byte == b'#').next()?.trim_ascii();
    let mut lower = [0u8; LONGEST_WORD];
    let lower = lower.get_mut(..word.len())?;
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    let at = KNOWN.binary_search_by(|(known, _)| known.as_bytes().cmp(lower)).ok()?;
    KNOWN.get(at).map(|(_, kind)| *kind)
}

/// The delay in sentences like "Please try again in 1.22s." or "Retry after 45 seconds."
pub fn delay_in_text(text: &[u8]) -> Option<Span> {
    const LEADS: [&str; 4] = ["again in ", "again after ", "retry in ", "retry after "];
    (0..text.len()).find_map(|at| {
        let rest = text.get(at..)?;
        let lead = LEADS.iter().find(|lead| {
            rest.get(..lead.len()).is_some_and(|start| start.eq_ignore_ascii_case(lead.as_bytes()))
        })?;
        spoken_duration(rest.get(lead.len()..)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_in_words_are_found() {
        for (text, millis) in [
            ("Token budget is spent: cap 30000, taken 29110. Please try again in 1.22s.", 1_220),
            ("Calls passed the rate. Retry after 45 seconds.", 45_000),
            ("Please retry in 34.074824224s.", 34_075),
            ("try again in 6m0s. Visit the page", 360_000),
            ("Try again in 20 ms", 20),
            ("please try again after 2 minutes, then", 120_000),
            ("try again in 3", 3_000),
        ] {
            assert_eq!(delay_in_text(text.as_bytes()).map(Span::as_millis_ceil), Some(millis), "{text}");
        }
        for text in ["", "try again in a while", "again in", "slow down 20s", "try again in 5 parsecs"] {
            assert_eq!(delay_in_text(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_gravest_word_decides() {
        let mut error = ErrorEvent::default();
        for word in ["tokens", "Insufficient_Quota", "429", "server_error"] {
            error.see_word(word.as_bytes());
        }
        assert_eq!(error.kind, Some(ThrottleKind::QuotaExhausted));
        assert_eq!(classify(b"ThrottlingException:http://x/"), Some(ThrottleKind::RateLimited));
        assert_eq!(classify(&[b'a'; 1_000]), None);
        assert_eq!(classify(b"invalid_request_error"), None);
    }

    #[test]
    fn the_body_adds_to_the_headers_and_does_not_replace_them() {
        let told = Throttle { retry_after: Some(Span::from_secs(2)), kind: ThrottleKind::RateLimited };
        let error =
            ErrorEvent { kind: Some(ThrottleKind::Overloaded), retry_after: Some(Span::from_secs(9)) };
        assert_eq!(told.refined_by(&error), told);
        let silent = Throttle { retry_after: None, ..told };
        assert_eq!(silent.refined_by(&error).retry_after, Some(Span::from_secs(9)));
        let quota = ErrorEvent { kind: Some(ThrottleKind::QuotaExhausted), retry_after: None };
        assert_eq!(told.refined_by(&quota).kind, ThrottleKind::QuotaExhausted);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let mut error = ErrorEvent::default();
            error.see_word(&text);
            error.see_delay(&text);
            error.see_message(&text);
        }
    }
}
