#![allow(clippy::arithmetic_side_effects)]

use proptest::prelude::*;

use super::*;
use crate::units::Span;
use crate::upstream::ThrottleKind;

mod encoded;
mod samples;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

const HEAD: ResponseHead<'static> = ResponseHead {
    dialect: Dialect::OpenAi,
    model: None,
    content_type: b"",
    content_encoding: b"",
    failed: false,
    streams: false,
};

fn read(label: &str, body: &[u8]) -> Report {
    let head = ResponseHead { content_type: label.as_bytes(), ..HEAD };
    let mut meter = ResponseMeter::new(&head);
    meter.feed(body);
    meter.finish()
}

fn used(input: u64, output: u64) -> Option<Usage> {
    Some(Usage { input: Some(input), output: Some(output), ..Usage::default() })
}

#[test]
fn a_daily_quota_of_gemini_is_exhausted_quota() {
    let body = br#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"RequestsPerDayPerProject-FreeTier"}]}]}}"#;
    assert_eq!(read(JSON, body).error.unwrap().kind, Some(ThrottleKind::QuotaExhausted));
}

#[test]
fn a_refusal_as_first_event_generated_nothing() {
    let body = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow down\"}}\n\ndata: [DONE]\n\n";
    let report = read(EVENTS, body);
    assert_eq!((report.usage, report.output_seen), (None, 0));
    assert_eq!(report.error.unwrap().kind, Some(ThrottleKind::RateLimited));
    let body = b"event: error\ndata: {\"code\":\"rate_limit_exceeded\",\"message\":\"try again in 3s\"}\n\n";
    let error = read(EVENTS, body).error.unwrap();
    assert_eq!((error.kind, error.retry_after), (Some(ThrottleKind::RateLimited), Some(Span::from_secs(3))));
    let body = b"data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\"}\n\n";
    assert_eq!(read(EVENTS, body).error.unwrap().kind, Some(ThrottleKind::RateLimited));
}

#[test]
fn an_empty_error_is_none() {
    for error in ["null", "\"\"", "false"] {
        let body = format!(r#"{{"error":{error},"usage":{{"prompt_tokens":120,"completion_tokens":30}}}}"#);
        let report = read(JSON, body.as_bytes());
        assert_eq!((report.usage, report.error), (used(120, 30), None), "{error}");
    }
    assert!(read(JSON, br#"{"error":"it broke"}"#).error.is_some());
}

#[test]
fn text_before_a_late_error_is_counted() {
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abc\"}}]}\n\n";
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    let report = read(EVENTS, format!("{chunk}{chunk}{chunk}{error}").as_bytes());
    assert_eq!(report.usage, None);
    assert!((3..=6).contains(&report.output_seen));
    assert_eq!(report.error.unwrap().kind, Some(ThrottleKind::Overloaded));
}

#[test]
fn the_label_does_not_decide() {
    let stream = b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30,\"total_tokens\":150}}\n\ndata: [DONE]\n\n";
    let plain =
        b"{\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30,\"total_tokens\":150}}";
    for label in
        ["", JSON, "text/plain", EVENTS, "Text/Event-Stream;charset=UTF-8", "application/octet-stream"]
    {
        assert_eq!(read(label, stream).usage, used(120, 30), "{label}");
        assert_eq!(read(label, plain).usage, used(120, 30), "{label}");
    }
    let mut meter = ResponseMeter::new(&ResponseHead { content_type: b"text/plain", ..HEAD });
    meter.feed(b"");
    meter.feed(b": ping\n\n");
    meter.feed(stream);
    assert_eq!(meter.finish().usage, used(120, 30));
}

#[test]
fn null_zero_and_negative_usage_is_unknown_and_the_text_is_counted() {
    for usage in [
        "null",
        "{}",
        "[]",
        "7",
        r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
        r#"{"prompt_tokens":-5000,"completion_tokens":-1,"total_tokens":-5001}"#,
        r#"{"prompt_tokens":null,"completion_tokens":null}"#,
        r#"{"prompt_tokens":"120","completion_tokens":"30"}"#,
        r#"{"prompt_tokens":1e30,"completion_tokens":99999999999999999999}"#,
    ] {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"word word word"}}}}],"usage":{usage}}}"#);
        let report = read(JSON, body.as_bytes());
        assert_eq!((report.usage, report.anomaly), (None, Some(Anomaly::UsageMissing)), "{usage}");
        assert!((2..=5).contains(&report.output_seen), "{usage}");
        let chunk =
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}],\"usage\":{usage}}}\n\n");
        assert_eq!(read(EVENTS, chunk.as_bytes()).output_seen, 1);
    }
}

#[test]
fn a_part_that_is_missing_or_nonsense_is_noticed_and_the_rest_holds() {
    let part = |input: Option<u64>, output: Option<u64>| Usage { input, output, ..Usage::default() };
    for (usage, expected) in [
        (r#"{"prompt_tokens":-5,"completion_tokens":30,"total_tokens":25}"#, part(None, Some(30))),
        (r#"{"prompt_tokens":9000000000000000000,"completion_tokens":30}"#, part(None, Some(30))),
        (r#"{"prompt_tokens":null,"completion_tokens":30,"total_tokens":30}"#, part(None, Some(30))),
        (r#"{"prompt_tokens":"120","completion_tokens":30}"#, part(None, Some(30))),
        (r#"{"prompt_tokens":0,"completion_tokens":30}"#, part(None, Some(30))),
        (r#"{"completion_tokens":30}"#, part(None, Some(30))),
        (r#"{"prompt_tokens":120}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":null}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":-30}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":9e18}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":true}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":{"text":30}}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":[30]}"#, part(Some(120), None)),
        (r#"{"prompt_tokens":120,"completion_tokens":30,"total_tokens":-1}"#, part(Some(120), Some(30))),
        (
            r#"{"prompt_tokens":120,"completion_tokens":30,"prompt_tokens_details":{"cached_tokens":-8}}"#,
            part(Some(120), Some(30)),
        ),
        (r#"{"input_tokens":120,"output_tokens":"30"}"#, part(Some(120), None)),
        (
            r#"{"input_tokens":120,"output_tokens":30,"cache_read_input_tokens":"9"}"#,
            part(Some(120), Some(30)),
        ),
    ] {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"word word word"}}}}],"usage":{usage}}}"#);
        let report = read(JSON, body.as_bytes());
        assert_eq!((report.usage, report.anomaly), (Some(expected), Some(Anomaly::UsagePartial)), "{usage}");
        assert!((2..=5).contains(&report.output_seen), "{usage}");
    }
    let only_total = br#"{"choices":[{"message":{"content":"word"}}],"usage":{"total_tokens":150}}"#;
    assert_eq!(read(JSON, only_total).anomaly, Some(Anomaly::UsageMissing));
    for bad in ["-1", "\"26\"", "1e30", "{}"] {
        let body =
            format!("{{\"done\":true,\"response\":\"word\",\"prompt_eval_count\":{bad},\"eval_count\":5}}");
        let report = read(JSON, body.as_bytes());
        assert_eq!(
            (report.usage, report.anomaly),
            (Some(part(None, Some(5))), Some(Anomaly::UsagePartial)),
            "{bad}"
        );
    }
}

#[test]
fn what_is_rightly_left_out_of_usage_is_no_anomaly() {
    for body in [
        r#"{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#,
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":19,"totalTokenCount":19}}"#,
        r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}}"#,
        r#"{"content":[{"text":"hi"}],"usage":{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":null,"cache_creation_input_tokens":null}}"#,
    ] {
        let report = read(JSON, body.as_bytes());
        assert_eq!((report.usage.is_some(), report.anomaly), (true, None), "{body}");
    }
    let body = b"data: {\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":null}}\n\ndata: {\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30}}\n\n";
    let report = read(EVENTS, body);
    assert_eq!((report.usage, report.anomaly), (used(120, 30), None));
}

#[test]
fn usage_in_chunks_of_every_shape() {
    let usage = r#""usage":{"prompt_tokens":120,"completion_tokens":30,"total_tokens":150}"#;
    for choices in [
        r#""choices":[{"index":0,"delta":{}}],"#,
        "",
        r#""choices":[],"#,
        r#""choices":[{"index":0,"delta":{"content":"y"},"finish_reason":"stop"}],"#,
        r#""choices":null,"#,
        r#""choices":{"x":1},"#,
    ] {
        assert_eq!(read(EVENTS, format!("data: {{{choices}{usage}}}\n\n").as_bytes()).usage, used(120, 30));
    }
}

#[test]
fn cumulative_anthropic_usage_is_neither_added_nor_lost() {
    let events = [
        r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":900,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":15}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":42}}"#,
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    assert_eq!(read(EVENTS, body.as_bytes()).usage, used(900, 42));
}

#[test]
fn cached_input_is_a_part_of_the_prompt() {
    let body = br#"{"usage":{"prompt_tokens":10000,"completion_tokens":100,"total_tokens":10100,"prompt_tokens_details":{"cached_tokens":8000}}}"#;
    let expected = Usage { input: Some(10_000), cached_input: 8_000, cache_write: 0, output: Some(100) };
    assert_eq!(read(JSON, body).usage, Some(expected));
}

#[test]
fn imitations_of_usage_are_text() {
    let body = br#"{"choices":[{"message":{"content":"x","usage":{"prompt_tokens":9000}}}],"tool":{"usage":{"prompt_tokens":9}},"usage":{"prompt_tokens":3,"completion_tokens":2,"x":{"prompt_tokens":77}}}"#;
    assert_eq!(read(JSON, body).usage, used(3, 2));
}

#[test]
fn truncated_documents_state_nothing() {
    let body = br#"{"choices":[{"message":{"content":"four words of text"}}],"usage":{"prompt_tokens":120,"completion_tokens":30"#;
    let report = read(JSON, body);
    assert_eq!(report.usage, None);
    assert!(report.output_seen >= 4);
}

#[test]
fn a_line_of_garbage_costs_one_line() {
    let body = b"{\"message\":{\"content\":\"a\"},\"done\":false}\n<html>\n{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":5}\n";
    assert_eq!(read("application/x-ndjson", body).usage, used(26, 5));
    let body = b"data: <html>{\n\ndata: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
    assert_eq!(read(EVENTS, body).usage, used(1, 2));
    let body = b"data: {\"a\":1}\ndata: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n";
    assert_eq!(read(EVENTS, body).usage, used(1, 2), "no blank line between events");
}

#[test]
fn many_events_of_one_word_count_about_one_each() {
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abcd\"}}],\"obfuscation\":\"qqqqqqqqqqqq\"}\n\n".repeat(600);
    let seen = read(EVENTS, body.as_bytes()).output_seen;
    assert!((600..900).contains(&seen), "{seen}");
}

#[test]
fn text_under_two_names_counts_once() {
    let plain = r#"{"delta":{"content":"","reasoning":"word "}}"#;
    let stream = |choice: &str| {
        let event = format!("data: {{\"choices\":[{choice}]}}\n\n");
        read(EVENTS, event.repeat(100).as_bytes()).output_seen
    };
    let once = stream(plain);
    assert!((95..=110).contains(&once), "{once}");
    for choice in [
        r#"{"delta":{"content":"","reasoning":"word ","reasoning_details":[{"type":"reasoning.text","text":"word "}]}}"#,
        r#"{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"word "}],"reasoning":"word "}}"#,
        r#"{"delta":{"reasoning":"word ","reasoning_content":"word "}}"#,
        r#"{"delta":{"reasoning":"","reasoning_content":"word "}}"#,
        r#"{"delta":{"reasoning_content":"word ","thinking_blocks":[{"type":"thinking","thinking":"word "}]}}"#,
        r#"{"delta":{"thinking_blocks":[{"type":"thinking","thinking":"word "}]}}"#,
        r#"{"delta":{"content":"word "},"message":{"content":"word word word word word "}}"#,
        r#"{"message":{"content":"word "},"delta":{"content":"word "}}"#,
    ] {
        let seen = stream(choice);
        assert!(seen.abs_diff(once) <= 2, "{seen} and not {once}: {choice}");
    }
    let text = "word ".repeat(100);
    let message = format!(
        r#"{{"choices":[{{"message":{{"content":"{text}","reasoning":"{text}","reasoning_details":[{{"text":"{text}"}}]}}}}]}}"#
    );
    let seen = read(JSON, message.as_bytes()).output_seen;
    assert!((195..=215).contains(&seen), "{seen}");
}

#[test]
fn usage_inside_the_last_choice_counts() {
    let body = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":7,\"total_tokens\":27}}]}\n\ndata: [DONE]\n\n";
    let report = read(EVENTS, body);
    assert_eq!((report.usage, report.anomaly), (used(20, 7), None));
}

#[test]
fn a_total_alone_is_the_input_of_an_answer_without_text() {
    let input = Some(Usage { input: Some(11), ..Usage::default() });
    let vectors = br#"{"data":[{"embedding":[0.1]}],"usage":{"total_tokens":11}}"#;
    let report = read(JSON, vectors);
    assert_eq!((report.usage, report.anomaly), (input, None));
    let text = br#"{"choices":[{"message":{"content":"x"}}],"usage":{"total_tokens":11}}"#;
    assert_eq!(read(JSON, text).usage, None);
}

#[test]
fn text_that_is_cut_off_before_its_end_counts() {
    let body = format!(r#"{{"choices":[{{"message":{{"content":"{}"#, "rope ".repeat(400));
    let seen = read(JSON, body.as_bytes()).output_seen;
    assert!((350..=450).contains(&seen), "{seen}");
}

#[test]
fn streams_without_usage_are_counted_within_15_percent_however_they_are_cut() {
    // Cut where o200k cuts.
    let texts = [
        "Нач|аль|ник| пор|та| запис|ывает| в| книгу| кажд|ую| лод|ку|,| которая| приходит| ночью|,| и| утром| расска|зывает| о| ней| ры|ба|кам|.",
        "항|구| 관리|인은| 밤|에| 들어|오는| 모든| 배|를| 장|부|에| 적|고| 아|침|에| 어|부|들에게| 이야기|해| 줍|니다|.",
        "港|の|管理|人|は|夜|に|入|って|く|る|す|べ|て|の|船|を|帳|簿|に|書|き|、|朝|になる|と|漁|師|た|ち|に|話|します|。",
        "The| harbour| master| keeps| a| book| of| every| boat| that| comes| in| at| night| and| reads| it| to| the| fishermen| in| the| morning|.",
    ];
    for text in texts {
        let pieces: Vec<&str> = text.split('|').collect();
        for size in [1, 2, 4, 9] {
            let stream: String = pieces
                .chunks(size)
                .map(|delta| {
                    format!(
                        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
                        delta.concat()
                    )
                })
                .collect();
            let (seen, real) = (read(EVENTS, stream.as_bytes()).output_seen, pieces.len() as u64);
            assert!(seen.abs_diff(real) * 100 <= real * 15, "{seen} instead of {real} by {size}: {text}");
        }
    }
}

#[test]
fn memory_is_bounded_whatever_the_size_of_an_event() {
    assert!(std::mem::size_of::<ResponseMeter>() + std::mem::size_of::<EventStream>() < 16_384);
    let mut meter = ResponseMeter::new(&HEAD);
    meter.feed(b"data: {\"b64_json\":\"");
    for _ in 0..1_000 {
        meter.feed(&[b'A'; 4_096]);
    }
    meter.feed(b"\",\"usage\":{\"input_tokens\":18,\"output_tokens\":272}}\n\n");
    assert_eq!(meter.finish().usage, used(18, 272));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm_and_at_every_cut_the_same(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        start in 0usize..8,
        size in 1usize..40,
        failed in any::<bool>(),
        streams in any::<bool>(),
    ) {
        let start: &[u8] = [b"".as_slice(), b"data: {", b"{\"usage\":", b"[", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\0\0\0", b"event: error\n", b"\xef\xbb\xbf"][start];
        let body = [start, &body].concat();
        let head = ResponseHead { failed, streams, ..HEAD };
        let (mut whole, mut pieces) = (ResponseMeter::new(&head), ResponseMeter::new(&head));
        whole.feed(&body);
        for piece in body.chunks(size) {
            pieces.feed(piece);
        }
        prop_assert_eq!(whole.finish(), pieces.finish());
    }

    #[test]
    fn a_stream_cut_short_never_states_more_than_the_whole(
        counts in proptest::collection::vec((proptest::option::of(0u64..10_000), proptest::option::of(0u64..10_000)), 1..8),
        cut in 0usize..2_000,
    ) {
        let mut body = String::new();
        for (input, output) in counts {
            let field = |name: &str, value: Option<u64>| format!("\"{name}\":{}", value.map_or("null".to_owned(), |value| value.to_string()));
            body.push_str(&format!("data: {{\"usage\":{{{},{}}}}}\n\n", field("prompt_tokens", input), field("completion_tokens", output)));
        }
        let whole = read(EVENTS, body.as_bytes()).usage;
        let part = read(EVENTS, &body.as_bytes()[..cut.min(body.len())]).usage;
        let numbers = |usage: Option<Usage>| usage.map_or((0, 0), |usage| (usage.input.unwrap_or(0), usage.output.unwrap_or(0)));
        let (part, whole) = (numbers(part), numbers(whole));
        prop_assert!(part.0 <= whole.0 && part.1 <= whole.1);
    }
}
