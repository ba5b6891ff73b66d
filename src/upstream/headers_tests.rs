use super::*;

/// Sun, 29 Nov 2026 18:00:00 GMT.
const NOW: Timestamp = Timestamp::from_millis(1_795_975_200_000);

fn read(file: &str) -> ProviderHeaders {
    let text =
        std::fs::read_to_string(format!("{}/tests/samples/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut headers = ProviderHeaders::new(NOW);
    for line in text.lines().skip(1) {
        if let Some((name, value)) = line.split_once(':') {
            headers.see(name.as_bytes(), value.trim().as_bytes());
        }
    }
    headers
}

fn hints(requests: Option<(u64, u64)>, llm_tokens: Option<(u64, u64)>) -> LimitHints {
    let mut hints = LimitHints::default();
    hints.remaining.requests = requests.map(|told| told.0);
    hints.reset.requests = requests.map(|told| Span::from_micros(told.1));
    hints.remaining.llm_tokens = llm_tokens.map(|told| told.0);
    hints.reset.llm_tokens = llm_tokens.map(|told| Span::from_micros(told.1));
    hints
}

#[test]
fn names_are_sorted_and_families_in_order() {
    assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(NAMES.iter().map(|(name, _)| name.len()).max(), Some(LONGEST_NAME));
    assert!(FAMILIES.iter().enumerate().all(|(at, family)| *family as usize == at));
}

#[test]
fn of_a_repeated_header_the_tighter_value_counts() {
    for values in [["5000", "9000"], ["9000", "5000"], ["5000", "odd"], ["odd", "5000"]] {
        let mut headers = ProviderHeaders::new(NOW);
        for value in values {
            headers.see(b"x-ratelimit-remaining-tokens", value.as_bytes());
        }
        headers.see(b"x-ratelimit-reset-tokens", b"2s");
        headers.see(b"x-ratelimit-reset-tokens", b"1s");
        let limits = headers.limits();
        assert_eq!(limits.remaining.llm_tokens, Some(5_000), "{values:?}");
        assert_eq!(limits.reset.llm_tokens, Some(Span::from_secs(2)), "{values:?}");
    }
}

#[test]
fn remaining_amounts_of_every_provider() {
    let second = 1_000_000;
    for (file, expected) in [
        ("openai-chat-200.headers", hints(Some((9_998, 17_000)), Some((1_998_720, 360 * second)))),
        ("openai-chat-200-odd.headers", hints(Some((2, 3_723_500_000)), Some((8_100, 5_500_000)))),
        ("azure-chat-200.headers", hints(Some((118, second)), Some((117_310, 2 * second)))),
        ("azure-responses-minusone.headers", LimitHints::default()),
        ("groq-chat-200.headers", hints(Some((14_370, 179_560_000)), Some((17_997, 7_660)))),
        ("cerebras-chat-200.headers", hints(Some((1_439_998, 33_011_382_867)), Some((59_000, 11_382_867)))),
        ("mistral-chat-new.headers", hints(Some((59, 60 * second)), Some((499_312, 60 * second)))),
        ("mistral-chat-old.headers", hints(None, Some((499_312, 29 * second)))),
        ("cohere-trial.headers", hints(Some((18, 60 * second)), None)),
        ("ietf-draft.headers", hints(Some((0, 30 * second)), None)),
        ("anthropic-unified-200.headers", LimitHints::default()),
        ("tgi-generate-200.headers", LimitHints::default()),
    ] {
        assert_eq!(read(file).limits(), expected, "{file}");
    }
    let anthropic = read("anthropic-messages-200.headers").limits();
    assert_eq!(anthropic.remaining.requests, Some(3_999));
    assert_eq!(anthropic.remaining.input, Some(1_998_000));
    assert_eq!(anthropic.remaining.output, Some(400_000));
    assert_eq!(anthropic.remaining.llm_tokens, Some(2_398_000));
    assert_eq!(anthropic.reset.output, Some(Span::from_secs(2)));
}

#[test]
fn refusals_name_their_wait_most_precise_header_first() {
    for (file, status, millis) in [
        ("openai-chat-429.headers", 429, Some(1_220)),
        ("azure-chat-429.headers", 429, Some(44_120)),
        ("anthropic-messages-429.headers", 429, Some(11_000)),
        ("bedrock-converse-429.headers", 429, Some(2_500)),
        ("ietf-draft.headers", 429, Some(30_000)),
        ("openai-chat-200.headers", 503, None),
    ] {
        let throttle = read(file).throttle(status).unwrap();
        assert_eq!(throttle.retry_after.map(Span::as_millis_ceil), millis, "{file}");
    }
    assert_eq!(read("openai-chat-200.headers").throttle(200), None);
    assert_eq!(read("openai-chat-200.headers").throttle(400), None);
    assert_eq!(ProviderHeaders::new(NOW).throttle(529).unwrap().kind, ThrottleKind::Overloaded);
}

#[test]
fn without_retry_after_the_reset_of_the_exhausted_limit_counts() {
    let mut headers = ProviderHeaders::new(NOW);
    headers.see(b"x-ratelimit-remaining-requests", b"59");
    headers.see(b"x-ratelimit-reset-requests", b"17ms");
    headers.see(b"X-RateLimit-Remaining-Tokens", b"0");
    headers.see(b"X-Rate-Limit-Reset-Tokens", b"41");
    assert_eq!(headers.throttle(429).unwrap().retry_after, Some(Span::from_secs(41)));
}

#[test]
fn unusable_waits_are_no_waits() {
    for value in
        ["Wed, 21 Oct 2020 07:28:30 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "soon", "", "0", "-3", "NaN"]
    {
        let mut headers = ProviderHeaders::new(NOW);
        headers.see(b"retry-after", value.as_bytes());
        assert_eq!(headers.throttle(429).unwrap().retry_after, None, "{value}");
    }
}

#[test]
fn usage_in_headers() {
    let usage = |input, output| Some(Usage { input: Some(input), output: Some(output), ..Usage::default() });
    assert_eq!(read("bedrock-invoke-200.headers").usage(), usage(9, 7));
    assert_eq!(read("tgi-generate-200.headers").usage(), usage(4, 2));
    assert_eq!(read("openai-chat-200.headers").usage(), None);
}

#[test]
fn usage_that_cannot_be_is_nothing() {
    for nonsense in ["-5", "9000000000000000000", "1000000001", "many", ""] {
        let mut headers = ProviderHeaders::new(Timestamp::from_millis(1_792_567_680_000));
        headers.see(b"x-amzn-bedrock-input-token-count", nonsense.as_bytes());
        assert_eq!(headers.usage(), None, "{nonsense}");
        headers.see(b"x-amzn-bedrock-output-token-count", b"7");
        let usage = headers.usage().unwrap();
        assert_eq!((usage.input, usage.output), (None, Some(7)), "{nonsense}");
    }
}

#[test]
fn negative_limits_make_the_amounts_beside_them_unbelievable() {
    let mut headers = ProviderHeaders::new(NOW);
    headers.see(b"x-ratelimit-limit-tokens", b"-1");
    headers.see(b"x-ratelimit-remaining-tokens", b"5");
    headers.see(b"x-ratelimit-remaining-requests", b"NaN");
    assert!(headers.limits().is_empty());
}

#[test]
fn limits_in_another_unit_than_requests_are_not_taken_for_requests() {
    for (policy, remaining) in [
        (r#""b";q=100;w=60"#, Some(5)),
        (r#""b";q=100;w=60;qu="requests""#, Some(5)),
        (r#""b";q=65535;w=10;qu="content-bytes""#, None),
        (r#""a";q=100;qu="requests", "b";q=9; qu="concurrent-requests""#, None),
    ] {
        let mut headers = ProviderHeaders::new(NOW);
        headers.see(b"RateLimit", br#""b";r=5;t=30"#);
        headers.see(b"RateLimit-Policy", policy.as_bytes());
        assert_eq!(headers.limits().remaining.requests, remaining, "{policy}");
    }
}

proptest::proptest! {
    #[test]
    fn any_header_is_read_without_harm(
        value in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
        name in 0usize..NAMES.len(),
        raw in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
    ) {
        let mut headers = ProviderHeaders::new(NOW);
        headers.see(NAMES[name].0.as_bytes(), &value);
        headers.see(&raw, &value);
        let _ = (headers.limits(), headers.throttle(429), headers.usage());
    }
}
