//! Cost of reading responses: the filter does this for every byte that a provider sends.
#![allow(missing_docs, clippy::arithmetic_side_effects)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use envoy_backpressure::cost::dialect::Dialect;
use envoy_backpressure::cost::usage::{ResponseHead, ResponseMeter};

const HEAD: ResponseHead<'static> = ResponseHead {
    dialect: Dialect::OpenAi,
    model: Some("gpt-5.4"),
    content_type: b"text/event-stream",
    content_encoding: b"",
    failed: false,
    streams: true,
};

fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let words = ["The", " harbour", " pilot", " wrote", " 42", " lines", ",", " then", " slept", "."];
    let chunk = |word: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-S1\",\"object\":\"chat.completion.chunk\",\"created\":1795900100,\"model\":\"gpt-5.4-2026-03-05\",\
             \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"logprobs\":null,\"finish_reason\":null}}],\"usage\":null}}\n\n"
        )
    };
    let stream: String = words.iter().cycle().take(2_000).map(|word| chunk(word)).collect();
    let text = words.concat().repeat(10_000);
    let document = format!(
        "{{\"choices\":[{{\"index\":0,\"message\":{{\"content\":\"{text}\"}}}}],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":2}}}}"
    );
    let image = format!(
        "{{\"data\":[{{\"b64_json\":\"{}\"}}],\"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}}",
        "QUJD".repeat(250_000)
    );
    vec![("stream", stream.into_bytes()), ("document", document.into_bytes()), ("image", image.into_bytes())]
}

fn read(body: &[u8]) -> u64 {
    let mut meter = ResponseMeter::new(&HEAD);
    for piece in body.chunks(4_096) {
        meter.feed(piece);
    }
    meter.finish().output_seen
}

fn responses(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("response");
    for (name, body) in bodies() {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), &body, |bencher, body| {
            bencher.iter(|| read(body));
        });
    }
    group.finish();
}

criterion_group!(benches, responses);
criterion_main!(benches);
