#![allow(clippy::arithmetic_side_effects)]

use proptest::prelude::*;

use super::*;
use crate::units::Span;
use crate::upstream::ThrottleKind;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// One line of `tests/samples/responses.tsv` with its body.
struct Sample {
    file: String,
    body: Vec<u8>,
    failed: bool,
    streams: bool,
    content_type: String,
    model: String,
    expected: Option<Usage>,
}

fn samples() -> Vec<Sample> {
    let folder = format!("{}/tests/samples", env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(format!("{folder}/responses.tsv")).unwrap();
    let samples: Vec<Sample> = table
        .lines()
        .skip(1)
        .map(|line| {
            let [file, status, input, output, cached, written, streams, content_type, model] =
                line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let usage = Usage {
                input: input.parse().ok(),
                output: output.parse().ok(),
                cached_input: cached.parse().unwrap_or(0),
                cache_write: written.parse().unwrap_or(0),
            };
            Sample {
                file: file.to_owned(),
                body: std::fs::read(format!("{folder}/{file}")).unwrap(),
                failed: status.parse::<u16>().unwrap() >= 400,
                streams: streams == "true",
                content_type: content_type.to_owned(),
                model: model.to_owned(),
                expected: (usage != Usage::default()).then_some(usage),
            }
        })
        .collect();
    assert!(samples.len() > 80);
    samples
}

impl Sample {
    fn meter(&self) -> ResponseMeter {
        let encoding: &[u8] = if self.file.ends_with(".gz") { b"gzip" } else { b"" };
        let model = if self.file.contains("gptcache") { "openai.gpt-5.6" } else { &self.model };
        ResponseMeter::new(&ResponseHead {
            content_type: self.content_type.as_bytes(),
            content_encoding: encoding,
            failed: self.failed,
            streams: self.streams,
            model: Some(model),
            dialect: if self.file.starts_with("anthropic") { Dialect::Anthropic } else { Dialect::OpenAi },
        })
    }

    fn read(&self, pieces: &[&[u8]]) -> Report {
        let mut meter = self.meter();
        for piece in pieces {
            meter.feed(piece);
        }
        meter.finish()
    }
}

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
fn every_sample_is_read_as_the_table_says() {
    let mut wrong = Vec::new();
    for sample in samples() {
        let report = sample.read(&[&sample.body]);
        // Placeholders of cut Anthropic streams are a floor under the count of what was seen.
        let expected = sample.expected.map(|usage| match sample.file.as_str() {
            "anthropic-messages-startonly.sse" | "anthropic-messages-overloaded.sse" => {
                Usage { output: usage.output.max(Some(report.output_seen)), ..usage }
            }
            _ => usage,
        });
        if report.usage != expected {
            wrong.push(format!("{}: {:?} instead of {:?}", sample.file, report, expected));
        }
        assert_eq!(report.usage.is_none(), report.anomaly.is_some());
        assert_eq!(report.body_bytes, sample.body.len() as u64);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_sample_cut_at_every_byte_is_read_the_same() {
    for sample in samples() {
        let whole = sample.read(&[&sample.body]);
        // Streams at every byte; single documents, which only the scanner cuts, at every fifth.
        for at in (0..=sample.body.len()).step_by(if sample.streams { 1 } else { 5 }) {
            let (a, b) = sample.body.split_at(at);
            assert_eq!(sample.read(&[a, b]), whole, "{} cut at {at}", sample.file);
        }
        for size in [1, 7] {
            let pieces: Vec<&[u8]> = sample.body.chunks(size).collect();
            assert_eq!(sample.read(&pieces), whole, "{} in pieces of {size}", sample.file);
        }
    }
}

#[test]
fn what_is_visible_is_counted_close_to_what_is_stated() {
    let (mut seen, mut stated) = (0, 0);
    // The samples whose stated output fits their text; in most the numbers are chosen for other reasons.
    for sample in samples().iter().filter(|sample| sample.file.starts_with("openai-chat-stream-")) {
        let Some(output) = sample.expected.and_then(|usage| usage.output) else { continue };
        if ["multidata", "splitutf8"].iter().any(|word| sample.file.contains(word)) {
            continue;
        }
        seen += sample.read(&[&sample.body]).output_seen;
        stated += output;
    }
    assert!(stated > 90 && seen.abs_diff(stated) * 100 <= stated * 15, "{seen} seen, {stated} stated");
}

#[test]
fn errors_in_a_successful_response_are_told_apart() {
    for (file, kind) in [
        ("openai-chat-stream-error.sse", None),
        ("anthropic-messages-overloaded.sse", Some(ThrottleKind::Overloaded)),
        ("vllm-chat-errdone.sse", None),
        ("openai-responses-failed.sse", Some(ThrottleKind::QuotaExhausted)),
        ("ollama-chat-error.ndjson", None),
        ("bedrock-converse-stream-throttle.eventstream", Some(ThrottleKind::RateLimited)),
    ] {
        let sample = samples().into_iter().find(|sample| sample.file == file).unwrap();
        let error = sample.read(&[&sample.body]).error;
        assert_eq!(error.map(|error| error.kind), Some(kind), "{file}");
    }
    let clean = samples().into_iter().filter(|sample| sample.expected.is_some() && !sample.failed);
    for sample in clean.filter(|sample| !sample.file.contains("overloaded")) {
        assert_eq!(sample.read(&[&sample.body]).error, None, "{}", sample.file);
    }
}

#[test]
fn error_bodies_tell_delay_and_kind() {
    for (file, kind, millis) in [
        ("openai-chat-429.resp.json", Some(ThrottleKind::RateLimited), Some(1_220)),
        ("openai-chat-429-quota.resp.json", Some(ThrottleKind::QuotaExhausted), None),
        ("azure-chat-429.resp.json", Some(ThrottleKind::RateLimited), Some(45_000)),
        ("anthropic-messages-429.resp.json", Some(ThrottleKind::RateLimited), None),
        ("anthropic-messages-529.resp.json", Some(ThrottleKind::Overloaded), None),
        ("gemini-generate-429.resp.json", Some(ThrottleKind::RateLimited), Some(34_075)),
        ("gemini-stream-429-array.resp.json", Some(ThrottleKind::RateLimited), None),
        ("mistral-chat-429.resp.json", Some(ThrottleKind::RateLimited), None),
        ("cohere-chat-429.resp.json", None, None),
        ("bedrock-converse-429.resp.json", None, None),
        ("tgi-generate-429.resp.json", Some(ThrottleKind::Overloaded), None),
        ("vllm-chat-503.resp.json", Some(ThrottleKind::Overloaded), None),
        ("ollama-chat-503.resp.json", None, None),
    ] {
        let sample = samples().into_iter().find(|sample| sample.file == file).unwrap();
        let error = sample.read(&[&sample.body]).error.unwrap();
        assert_eq!(error.kind, kind, "{file}");
        assert_eq!(error.retry_after.map(Span::as_millis_ceil), millis, "{file}");
    }
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

fn gzip(body: &[u8]) -> Vec<u8> {
    let deflated = miniz_oxide::deflate::compress_to_vec(body, 6);
    let mut crc = crc::Crc::new();
    crc.update(body);
    // With a name, an extra field, a comment and a header checksum.
    let mut file = vec![0x1f, 0x8b, 8, 30, 0, 0, 0, 0, 0, 255, 2, 0, b'x', b'y'];
    file.extend_from_slice(b"name\0comment\0\x12\x34");
    file.extend_from_slice(&deflated);
    file.extend_from_slice(&crc.value().to_le_bytes());
    file.extend_from_slice(&(body.len() as u32).to_le_bytes());
    file
}

fn read_encoded(encoding: &str, body: &[u8]) -> Report {
    let head = ResponseHead { content_encoding: encoding.as_bytes(), ..HEAD };
    let mut meter = ResponseMeter::new(&head);
    for piece in body.chunks(3) {
        meter.feed(piece);
    }
    meter.finish()
}

#[test]
fn compressed_answers_are_read_and_damaged_ones_are_unknown() {
    let plain = br#"{"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":30,"total_tokens":150}}"#;
    let zipped = gzip(plain);
    for encoding in ["gzip", "GZIP", "x-gzip", "", "identity"] {
        assert_eq!(read_encoded(encoding, &zipped).usage, used(120, 30), "{encoding}");
    }
    assert_eq!(read_encoded("gzip", plain).usage, used(120, 30), "labelled, but plain");
    assert_eq!(
        read_encoded("deflate", &miniz_oxide::deflate::compress_to_vec_zlib(plain, 6)).usage,
        used(120, 30)
    );
    for at in [0, 2, 30, 40, zipped.len() - 6] {
        let mut damaged = zipped.clone();
        damaged[at] ^= 0x55;
        let report = read_encoded("gzip", &damaged);
        assert_eq!(report.usage, None, "byte {at}");
        assert!(at == 0 || report.output_seen > 0, "never nothing");
    }
    let report = read_encoded("br", plain);
    assert_eq!((report.usage, report.anomaly), (None, Some(Anomaly::UnreadableEncoding)));
    assert!(report.output_seen > 0);
    for encoding in ["gzip", "br", ""] {
        let report = read_encoded(encoding, b"");
        assert_eq!((report.usage, report.output_seen, report.body_bytes), (None, 0, 0));
    }
}

#[test]
fn a_gzip_bomb_is_given_up() {
    let bomb = gzip(&vec![b' '; 20_000_000]);
    let report = read_encoded("gzip", &bomb);
    assert_eq!((report.usage, report.anomaly), (None, Some(Anomaly::Damaged)));
}

#[test]
fn many_events_of_one_word_count_about_one_each() {
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abcd\"}}],\"obfuscation\":\"qqqqqqqqqqqq\"}\n\n".repeat(600);
    let seen = read(EVENTS, body.as_bytes()).output_seen;
    assert!((600..900).contains(&seen), "{seen}");
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

#[test]
fn an_exception_frame_without_readable_text_is_an_error_all_the_same() {
    let frame =
        frame(&[(":message-type", "exception"), (":exception-type", "serviceUnavailableException")], b"");
    let error = read("application/vnd.amazon.eventstream", &frame).error.unwrap();
    assert_eq!(error.kind, Some(ThrottleKind::Overloaded));
}

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(name.len() as u8);
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(7);
        encoded.extend_from_slice(&(value.len() as u16).to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    let checksum = |bytes: &[u8]| {
        let mut crc = crc::Crc::new();
        crc.update(bytes);
        crc.value().to_be_bytes()
    };
    let mut frame = ((encoded.len() + payload.len() + 16) as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&(encoded.len() as u32).to_be_bytes());
    frame.extend_from_slice(&checksum(&frame));
    frame.extend_from_slice(&encoded);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&checksum(&frame));
    frame
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
