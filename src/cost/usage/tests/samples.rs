//! The payload samples: `tests/samples/responses.tsv` lists what is read from each.

use super::*;

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

#[test]
fn every_sample_is_read_as_the_table_says() {
    let mut wrong = Vec::new();
    for sample in samples() {
        let report = sample.read(&[&sample.body]);
        // What stands in for an output that is not stated: nothing, or for cut Anthropic streams what was seen.
        let filled = |usage: Usage| Usage { output: usage.output.or(Some(report.output_seen)), ..usage };
        let at_least = |usage: Usage| match sample.file.as_str() {
            "anthropic-messages-startonly.sse" | "anthropic-messages-overloaded.sse" => {
                Usage { output: usage.output.max(Some(report.output_seen)), ..usage }
            }
            _ => usage,
        };
        let expected = sample.expected.map(at_least);
        let partial = ["startonly", "overloaded", "noprompt"].iter().any(|part| sample.file.contains(part));
        let anomaly = report.anomaly.filter(|_| expected.is_some());
        assert_eq!(anomaly, partial.then_some(Anomaly::UsagePartial), "{}", sample.file);
        if report.usage.map(filled) != expected {
            wrong.push(format!("{}: {:?} instead of {:?}", sample.file, report, expected));
        }
        assert!(report.usage.is_some() || report.anomaly.is_some());
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
