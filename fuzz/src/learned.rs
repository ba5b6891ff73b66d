//! Learned sizes of any bytes.

use envoy_backpressure::cost::reserve::{History, Observation, key};
use envoy_backpressure::upstream::UpstreamState;

/// The value of learned sizes, as any plugin that shares the data could have written it.
pub fn check(input: &[u8]) {
    if let Some(state) = UpstreamState::decode(input) {
        let mut stored = Vec::new();
        state.encode(&mut stored);
        assert_eq!(UpstreamState::decode(&stored), Some(state));
    }
    // Few bytes are a history by chance, so the input is laid over one that has seen some calls.
    let mut seen = History::default();
    for round in 0..input.first().copied().unwrap_or(0).into() {
        seen.record(&Observation {
            model: round % 20,
            tenant: 3,
            output: Some(round * round),
            input: Some((100, 90 + round)),
        });
    }
    let mut bytes = seen.encode();
    for (byte, other) in bytes.iter_mut().skip(4).zip(input.iter().skip(1)) {
        *byte ^= other;
    }
    let Some(mut history) = History::decode(input).or_else(|| History::decode(&bytes)) else { return };
    for round in 0..40_u64 {
        let model = key(if round % 3 == 0 { "a" } else { "b" });
        let call = Observation {
            model,
            tenant: round as u32 % 5,
            output: (round % 4 > 0).then_some(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (round % 64)),
            input: (round % 5 > 0).then_some((round * 7, u64::MAX >> round)),
        };
        history.record(&call);
        let _ = history.suggest(model, call.tenant);
        let corrected = history.corrected_input(model, 1_000);
        assert!((100..=10_000).contains(&corrected), "an estimate of 1000 became {corrected}");
    }
    let stored = history.encode();
    assert!(stored.len() <= 1_924, "{}", stored.len());
    assert!(History::decode(&stored).is_some());
}
