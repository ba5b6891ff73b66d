#![allow(clippy::arithmetic_side_effects)]

use proptest::prelude::*;

use super::*;

const MODEL: u64 = 7;

fn record(history: &mut History, model: u64, tenant: u32, output: u64) {
    history.record(&Observation { model, tenant, output: Some(output), input: None });
}

/// A sequence that looks random and is always the same.
fn noise(step: u64) -> u64 {
    (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
}

#[test]
fn the_declared_cap_the_suggestion_and_the_default_in_every_combination() {
    use OutputReserve::{Learned, MaxTokens};
    for (rule, declared, suggested, expected) in [
        (MaxTokens, Some(32_000), Some(400), 32_000),
        (MaxTokens, None, Some(400), 1_024),
        (Learned, Some(32_000), Some(400), 400),
        (Learned, Some(100), Some(400), 100),
        (Learned, Some(32_000), None, 32_000),
        (Learned, None, Some(400), 400),
        (Learned, None, None, 1_024),
    ] {
        assert_eq!(output_reserve(rule, declared, suggested, 1_024), expected);
    }
}

#[test]
fn agents_that_use_300_are_known_within_five_calls() {
    let mut history = History::default();
    for call in 0..5 {
        assert_eq!(history.suggest(MODEL, 1), None, "call {call}");
        record(&mut history, MODEL, 1, 300);
    }
    let suggested = history.suggest(MODEL, 1).unwrap();
    assert!((300..=420).contains(&suggested), "{suggested}");
    assert!(32_000 / suggested >= 20);
    assert_eq!(history.suggest(MODEL + 1, 1), None, "another model");
    assert_eq!(history.suggest(MODEL, 2), history.suggest(MODEL, 1), "another tenant of the model");
}

#[test]
fn the_suggestion_covers_nine_of_ten_and_follows_a_change_within_fifty_calls() {
    let mut history = History::default();
    for step in 0..300 {
        record(&mut history, MODEL, 1, 200 + noise(step) % 800);
    }
    let suggested = history.suggest(MODEL, 1).unwrap();
    assert!((920..=1_400).contains(&suggested), "{suggested}");
    for step in 0..50 {
        record(&mut history, MODEL, 1, 4_000 + noise(step) % 100);
    }
    assert!(history.suggest(MODEL, 1).unwrap() >= 4_000, "longer outputs are noticed at once");
    for _ in 0..350 {
        record(&mut history, MODEL, 1, 50);
    }
    assert!(history.suggest(MODEL, 1).unwrap() < 100, "long ones are forgotten");
}

#[test]
fn a_few_very_long_outputs_raise_the_reserve_to_the_mean() {
    let mut history = History::default();
    for step in 0..95u64 {
        record(&mut history, MODEL, 1, if step % 20 == 0 { 30_000 } else { 100 });
    }
    assert!(history.suggest(MODEL, 1).unwrap() >= 1_500);
}

#[test]
fn a_tenant_that_differs_strongly_has_its_own_reserve() {
    let mut history = History::default();
    for step in 0..400u64 {
        let (tenant, output) = if step % 8 == 0 { (2, 9_000) } else { (1, 200) };
        record(&mut history, MODEL, tenant, output);
    }
    assert!(history.suggest(MODEL, 2).unwrap() >= 9_000);
    assert!(history.suggest(MODEL, 1).unwrap() <= 300);
    assert!(history.suggest(MODEL, 3).unwrap() >= 1_000, "unknown tenants get the model's");
}

#[test]
fn many_tenants_and_models_do_not_displace_what_is_in_use() {
    let mut history = History::default();
    for step in 0..5_000u64 {
        record(&mut history, MODEL, 1, 300);
        record(&mut history, 1_000 + step, u32::try_from(step).unwrap() + 10, 90);
    }
    assert!(history.suggest(MODEL, 1).is_some());
    assert_eq!(history.encode().len(), History::LEN);
    const { assert!(History::LEN <= 2_048) };
}

#[test]
fn the_input_estimate_is_corrected_within_bounds() {
    for (real, at_least, at_most) in
        [(1_500, 1_450, 1_510), (1_000, 1_000, 1_000), (100, 500, 520), (90_000, 1_950, 2_000)]
    {
        let mut history = History::default();
        for _ in 0..60 {
            history.record(&Observation {
                model: MODEL,
                tenant: 1,
                output: Some(10),
                input: Some((1_000, real)),
            });
        }
        let corrected = history.corrected_input(MODEL, 1_000);
        assert!((at_least..=at_most).contains(&corrected), "{real}: {corrected}");
    }
    let mut history = History::default();
    history.record(&Observation { model: MODEL, tenant: 1, output: Some(10), input: Some((1_000, 2_000)) });
    assert_eq!(history.corrected_input(MODEL, 1_000), 1_000, "one call proves nothing");
    assert_eq!(History::default().corrected_input(MODEL, u64::MAX), u64::MAX);
}

#[test]
fn names_are_keys_without_case() {
    assert_eq!(key("GPT-5.4"), key("gpt-5.4"));
    assert_ne!(key("gpt-5.4"), key("gpt-5.5"));
}

#[test]
fn every_output_is_in_the_bucket_that_spans_it() {
    for output in (1..70_000u64).chain([1 << 20, u64::MAX]) {
        let at = bucket(output);
        assert!(lower(at) <= output);
        assert!(output <= upper(at) || at == BUCKETS - 1, "{output} in {at}");
    }
    assert_eq!(bucket(0), 0);
}

proptest! {
    #[test]
    fn round_trip_and_totality(calls in proptest::collection::vec((0u64..40, 0u32..50, proptest::option::of(any::<u64>()), proptest::option::of((any::<u64>(), any::<u64>()))), 0..300)) {
        let mut history = History::default();
        for (model, tenant, output, input) in calls {
            history.record(&Observation { model, tenant, output, input });
            let _ = history.suggest(model, tenant);
            prop_assert!((500..=2_000).contains(&history.corrected_input(model, 1_000)));
        }
        prop_assert_eq!(History::decode(&history.encode()), Some(history));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2_100), keep in any::<bool>()) {
        let mut bytes = bytes;
        if keep {
            bytes.resize(History::LEN, 0x5a);
            bytes[0] = VERSION;
        }
        if let Some(mut history) = History::decode(&bytes) {
            record(&mut history, 1, 1, 1);
            let _ = (history.suggest(1, 1), history.corrected_input(1, 1_000));
        }
    }
}
