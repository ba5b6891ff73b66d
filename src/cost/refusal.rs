//! The JSON body of a refusal, in the dialect of the call.
//!
//! Shapes are those of the providers, so that each SDK shows the message; the message says what the headers say.
//! Words that client libraries take for a hopeless billing problem are kept out of it: LangChain.js stops retrying
//! when it reads "billing", "quota exhausted" and the like.

use super::dialect::Dialect;
use super::json::quote;
use crate::units::{Resource, Span};

/// What the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// 429 or 413.
    pub status: u16,
    /// The value of `x-backpressure-reason`.
    pub reason: &'a str,
    /// The facts in words; see [`wait_message`] and [`too_large_message`].
    pub message: &'a str,
    /// Exact wait in milliseconds; `None` when coming back is useless.
    pub wait_ms: Option<u64>,
}

/// The message of a call that may come back after `wait`.
pub fn wait_message(reason: &str, wait: Span) -> String {
    let why = match reason {
        "exhausted" => "The capacity shared by all callers is in use.",
        "over_share" => "The capacity that is free now is owed to other callers.",
        "concurrency" => "All concurrent calls that are allowed are running.",
        "upstream_paused" => "The provider asked for a pause.",
        _ => "There is no capacity for this call now.",
    };
    let millis = wait.as_millis_ceil();
    let seconds = millis / 1_000;
    let rest = millis % 1_000;
    format!(
        "{why} A place is booked for this call: send it again in {seconds}.{rest:03} seconds. (reason: {reason})"
    )
}

/// The message of a call whose input alone exceeds a limit.
pub fn too_large_message(resource: Resource, limit: u64, need: u64) -> String {
    let name = resource.name();
    format!(
        "This call needs about {need} {name}, more than the limit of {limit} a minute, so it can never pass. \
         Send less at once. (reason: exceeds_limit)"
    )
}

/// The error body. Valid JSON whatever the strings hold.
pub fn body(dialect: Dialect, refusal: &Refusal<'_>) -> Vec<u8> {
    let mut message = String::with_capacity(256);
    quote(&mut message, refusal.message);
    let large = refusal.status == 413;
    let kind = |small| if large { "invalid_request_error" } else { small };
    let code = |small| if large { "exceeds_limit" } else { small };
    let text = match dialect {
        Dialect::OpenAi => format!(
            r#"{{"error":{{"message":{message},"type":"{}","param":null,"code":"{}"}}}}"#,
            kind("rate_limit_error"),
            code("rate_limit_exceeded")
        ),
        Dialect::AzureOpenAi => {
            format!(r#"{{"error":{{"code":"{}","message":{message}}}}}"#, refusal.status)
        }
        Dialect::Anthropic => format!(
            r#"{{"type":"error","error":{{"type":"{}","message":{message}}}}}"#,
            if large { "request_too_large" } else { "rate_limit_error" }
        ),
        Dialect::Gemini => gemini(refusal, &message),
        Dialect::Mistral => format!(
            r#"{{"object":"error","message":{message},"type":"{}","param":null,"code":"{}"}}"#,
            kind("rate_limited"),
            code("1300")
        ),
        Dialect::Bedrock | Dialect::Cohere => format!(r#"{{"message":{message}}}"#),
        Dialect::Ollama => format!(r#"{{"error":{message}}}"#),
    };
    text.into_bytes()
}

/// Google's error status with the wait as `RetryInfo`, a duration with milliseconds.
fn gemini(refusal: &Refusal<'_>, message: &str) -> String {
    let mut reason = String::new();
    quote(&mut reason, refusal.reason);
    let status = if refusal.wait_ms.is_some() { "RESOURCE_EXHAUSTED" } else { "INVALID_ARGUMENT" };
    let retry = refusal.wait_ms.map_or_else(String::new, |millis| {
        format!(
            r#",{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{}.{:03}s"}}"#,
            millis / 1_000,
            millis % 1_000
        )
    });
    format!(
        r#"{{"error":{{"code":{},"message":{message},"status":"{status}","details":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":{reason},"domain":"backpressure"}}{retry}]}}}}"#,
        refusal.status
    )
}

#[cfg(test)]
mod tests {
    use super::{Refusal, body, too_large_message, wait_message};
    use crate::cost::dialect::Dialect;
    use crate::units::{Resource, Span};
    use serde_json::Value;

    const HOSTILE: &str = "a\"b\\c\n\u{0}\u{2028}😀</script>{}";

    fn parsed(dialect: Dialect, status: u16, message: &str, wait_ms: Option<u64>) -> Value {
        let refusal = Refusal { status, reason: "exhausted", message, wait_ms };
        serde_json::from_slice(&body(dialect, &refusal)).unwrap()
    }

    #[test]
    fn each_dialect_has_the_message_where_its_sdk_looks() {
        for (dialect, place) in [
            (Dialect::OpenAi, "/error/message"),
            (Dialect::AzureOpenAi, "/error/message"),
            (Dialect::Anthropic, "/error/message"),
            (Dialect::Gemini, "/error/message"),
            (Dialect::Bedrock, "/message"),
            (Dialect::Mistral, "/message"),
            (Dialect::Cohere, "/message"),
            (Dialect::Ollama, "/error"),
        ] {
            for (status, wait) in [(429, Some(7_200)), (413, None)] {
                let value = parsed(dialect, status, HOSTILE, wait);
                assert_eq!(value.pointer(place).and_then(Value::as_str), Some(HOSTILE), "{dialect:?}");
            }
        }
    }

    #[test]
    fn gemini_states_the_exact_delay() {
        let value = parsed(Dialect::Gemini, 429, "m", Some(7_205));
        assert_eq!(value.pointer("/error/details/1/retryDelay").and_then(Value::as_str), Some("7.205s"));
        assert_eq!(value.pointer("/error/status").and_then(Value::as_str), Some("RESOURCE_EXHAUSTED"));
        assert!(parsed(Dialect::Gemini, 413, "m", None).pointer("/error/details/1").is_none());
    }

    #[test]
    fn no_message_sounds_like_a_billing_problem() {
        let reasons = ["exhausted", "over_share", "concurrency", "upstream_paused", "other"];
        let mut messages: Vec<String> =
            reasons.iter().map(|reason| wait_message(reason, Span::from_micros(1_500_001))).collect();
        messages.extend(Resource::ALL.map(|resource| too_large_message(resource, 10, 20)));
        for message in messages {
            let lower = message.to_lowercase();
            for word in ["billing", "credit", "quota", "will reset at", "insufficient"] {
                assert!(!lower.contains(word), "{message}");
            }
        }
        assert!(wait_message("exhausted", Span::from_micros(1_500_001)).contains("1.501 seconds"));
        assert!(too_large_message(Resource::LlmTokens, 10, 20).contains("20 tokens"));
    }
}
