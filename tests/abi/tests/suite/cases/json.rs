//! Hostile JSON and text that is not UTF-8.

use abi_host::case::{Answer, Bench, Verdict, case_bytes, case_http, field_post};
use abi_host::{Headers, StreamId};

use super::{admitted, sound};

fn sent_as_is(bench: &mut Bench, body: &[u8]) -> StreamId {
    let id = bench.send(field_post("/v1/chat/completions"), body);
    assert_eq!(bench.verdict(id), Verdict::Admit);
    assert_eq!(bench.host.stream(id).request.sent.body, body);
    id
}

/// Bytes that are no text, in every place where a caller or an upstream can put them.
#[test]
fn case_json_utf8() {
    let file = case_http("JSON-UTF8.http");
    let mut bench = Bench::new();
    let id = bench.send(file.request(), &file.body);
    assert_eq!(bench.verdict(id), Verdict::Admit);
    assert_eq!(bench.host.stream(id).request.sent.body, file.body);
    assert_eq!(bench.host.stream(id).log_field()["tenant"], "default");
    let mut headers = Headers::from_text(&[(":status", "200"), ("content-type", "application/json")]);
    headers.add(b"x-odd", b"caf\xe9");
    headers.add(b"retry-after", b"\xe9");
    headers.add(b"x-ratelimit-remaining-tokens", b"\xff\xfe");
    bench.host.response_headers(id, headers, false);
    bench.host.response_body(id, b"{\"x\":\"\xff\xfe\"", false);
    let mut trailers = Headers::default();
    trailers.add(b"t", b"\xe9");
    bench.host.response_trailers(id, trailers);
    bench.host.end(id);
    sound(&bench);
    let mut headers = field_post("/v1/chat/completions");
    headers.replace(b":path", b"/v1/chat/\xffcompletions");
    headers.replace(b":authority", b"llm.test\xff");
    headers.replace(b"x-priority", b"\xc0\xa7");
    let _ = bench.send(headers, b"{}");
    sound(&bench);
    admitted(&mut bench, 5);
}

/// Only members of the top level count, not their like inside messages, metadata or schemas.
#[test]
fn case_json_decoy() {
    let mut bench = Bench::with(|config| {
        let mut cheap = config["pools"][0].clone();
        cheap["name"] = "m-cheap".into();
        cheap["match"]["models"] = serde_json::json!(["m-cheap"]);
        config["pools"].as_array_mut().expect("pools").insert(0, cheap);
    });
    let id = sent_as_is(&mut bench, &case_bytes("JSON-DECOY.json"));
    assert_eq!(bench.host.stream(id).log_field()["pool"], "m-chat");
    let reserved = bench.reserved(id);
    assert!((9_000..=9_200).contains(&reserved), "{reserved}");
}

/// What is no JSON object passes unchanged and costs one request and a floor.
#[test]
fn case_json_broken() {
    let mut bodies: Vec<Vec<u8>> = (0..9).map(|n| case_bytes(&format!("JSON-BROKEN.{n}.bin"))).collect();
    let mut state = 1_u32;
    bodies.push(
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(5_000)
        .collect(),
    );
    bodies.push(b"model=m-chat&max_tokens=5".to_vec());
    bodies.push(vec![b'['; 100_000]);
    bodies.push("{\"a\":".repeat(20_000).into_bytes());
    bodies.push(b"{\"model\":\"m-chat\",\"model\":\"other\",\"max_tokens\":1,\"max_tokens\":2}".to_vec());
    for (index, body) in bodies.iter().enumerate() {
        let mut bench = Bench::with(|config| {
            super::every_pool(config, |pool| pool["limits"]["tokens_per_minute"] = 200_000.into());
        });
        let id = sent_as_is(&mut bench, body);
        assert_eq!(bench.rpm_used(), 1, "body {index}");
        assert!(bench.reserved(id) > 0, "body {index}");
        sound(&bench);
        admitted(&mut bench, 5);
    }
}

/// A byte-order mark in front changes nothing, in either direction.
#[test]
fn case_json_bom() {
    let mut bench = Bench::new();
    let id = sent_as_is(&mut bench, &case_bytes("JSON-BOM.bin"));
    let reserved = bench.reserved(id);
    assert!((9_000..=9_100).contains(&reserved), "{reserved}");
    let body = "\u{feff}{\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30,\"total_tokens\":150}}";
    bench.finish(id, &Answer::ok("application/json", body));
    assert_eq!(bench.tpm_used(), 150);
}
