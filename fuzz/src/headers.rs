//! Headers of a provider's answer.

use super::bytes::Choices;
use envoy_backpressure::config::Learn;
use envoy_backpressure::cost::dialect::classify;
use envoy_backpressure::units::{Resource, Span, Timestamp};
use envoy_backpressure::upstream::error::{classify as classify_error, delay_in_text};
use envoy_backpressure::upstream::moment::{Unit, parse_wait};
use envoy_backpressure::upstream::{ProviderHeaders, UpstreamState};

const LONGEST: Span = Span::from_secs(59);

/// Headers of a provider's answer, and the states that they lead to.
pub fn check(input: &[u8]) {
    let mut choices = Choices(input);
    let mut now = Timestamp::from_millis(1_792_567_680_000);
    let names: Vec<&str> = ProviderHeaders::names().collect();
    let learn = Learn { headers: true, pause_on_429: true, adapt: true };
    let mut state = UpstreamState::default();
    for _ in 0..8 {
        let mut headers = ProviderHeaders::new(now);
        for _ in 0..choices.below(12) {
            let name = choices.pick(&names);
            let value = choices.slice();
            headers.see(name.as_bytes(), value);
            headers.see(value, name.as_bytes());
            let _ = parse_wait(value, choices.pick(&[Unit::Seconds, Unit::Millis]), now);
            let _ = (delay_in_text(value), classify_error(value), classify(value, None));
        }
        let hints = headers.limits();
        for resource in Resource::PER_MINUTE {
            // What is said of a moment without an amount is not used.
            assert!(hints.remaining.get(resource).is_some() || hints.reset.get(resource).is_none());
        }
        if let Some(usage) = headers.usage() {
            assert!(usage.input.is_some() || usage.output.is_some());
        }
        state.on_hints(&hints, &learn, LONGEST, now);
        if let Some(throttle) = headers.throttle(choices.pick(&[200, 429, 503, 529])) {
            state.on_throttle(&throttle, &learn, LONGEST, now);
        } else if choices.byte() & 1 == 1 {
            state.on_success(&learn, now, now);
        }
        if let Some(until) = state.blocked_until(now) {
            assert!(until > now && until.since(now) <= Span::from_secs(3_600), "a pause without end");
        }
        let scale = state.scale_permille(now);
        assert!((100..=1_000).contains(&scale), "{scale}");
        let mut stored = Vec::new();
        state.encode(&mut stored);
        assert_eq!(UpstreamState::decode(&stored), Some(state), "what was learned is not what is read");
        now = now.after(Span::from_millis(choices.number() % 100_000));
    }
}
