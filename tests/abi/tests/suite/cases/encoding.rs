//! Compressed bodies.

use std::io::Write;

use abi_host::case::{Answer, Bench, Verdict, case_bytes, field_post, play};
use flate2::{Compression, write::GzEncoder};

use super::{admitted, after_plain, client_bytes, sound};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory is writable");
    encoder.finish().expect("memory is writable")
}

fn gzipped(parts: Vec<Vec<u8>>) -> Answer {
    Answer::ok("application/json", "").header("content-encoding", "gzip").parts(parts)
}

/// The upstream is asked for plain bytes; gzip that comes all the same is read, wherever it is cut.
#[test]
fn case_enc_gzip() {
    play("ENC-GZIP.jsonl", |_| {});
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 400);
    let asked = bench.host.stream(id).request.sent.headers.as_ref().and_then(|h| h.text("accept-encoding"));
    assert_eq!(asked.as_deref(), Some("identity"));

    let file = case_bytes("ENC-GZIP.bin");
    for cut in 0..=file.len() {
        let (head, tail) = file.split_at(cut);
        let bench = after_plain(&gzipped(vec![head.to_vec(), tail.to_vec()]));
        assert!(bench.uses(150), "cut at {cut}: {}", bench.tpm_used());
    }
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x55;
        let mut bench = Bench::new();
        let id = admitted(&mut bench, 400);
        bench.finish(id, &gzipped(vec![damaged.clone()]));
        assert_eq!(client_bytes(&mut bench, id), damaged);
        sound(&bench);
        assert!(!bench.uses(0), "damage at {at} makes the call free");
    }
    let bench = after_plain(&gzipped(vec![file[..60].to_vec()]));
    assert!(bench.tpm_used() > 0);
}

/// An answer that inflates to much more than it weighs stays bounded.
#[test]
fn case_enc_gzip_bomb() {
    let bomb = gzip(&vec![b' '; 50 << 20]);
    let bench = after_plain(&gzipped(bomb.chunks(4_096).map(<[u8]>::to_vec).collect()));
    assert!(bench.host.memory_bytes() < 48 << 20, "{} bytes", bench.host.memory_bytes());
    assert!(bench.tpm_used() > 0);
}

/// A compressed request is handed on as it came and costs by its length.
#[test]
fn case_enc_request() {
    play("ENC-REQUEST.jsonl", |_| {});
    let bodies = [
        ("gzip", case_bytes("ENC-REQUEST.gzip.bin")),
        ("zstd", case_bytes("ENC-REQUEST.zstd.bin")),
        ("gzip", gzip(&vec![0; 10 << 20])),
    ];
    for (coding, body) in bodies {
        let mut bench = Bench::new();
        let mut headers = field_post("/v1/chat/completions");
        headers.add(b"content-encoding", coding.as_bytes());
        let id = bench.send(headers, &body);
        assert_eq!(bench.verdict(id), Verdict::Admit);
        assert!(bench.host.stream(id).request.sent.body == body);
        let reserved = bench.reserved(id);
        assert!((1..=8_000).contains(&reserved), "{reserved} for {} bytes of {coding}", body.len());
        sound(&bench);
    }
}

/// An encoding without any bytes is no error.
#[test]
fn case_enc_empty() {
    play("ENC-EMPTY.jsonl", |_| {});
    let empty = gzipped(vec![Vec::new()]);
    let headers_only = gzipped(Vec::new());
    for answer in [empty, headers_only] {
        let mut bench = Bench::new();
        let id = admitted(&mut bench, 400);
        bench.finish(id, &answer);
        assert_eq!(bench.host.stream(id).client_status(), Some(200));
        assert!(bench.in_flight() == 0);
        let used = bench.tpm_used();
        assert!((1..=420).contains(&used), "{used}");
    }
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 400);
    bench.host.response_headers(
        id,
        abi_host::Headers::from_text(&[(":status", "200"), ("content-encoding", "gzip")]),
        false,
    );
    bench.host.reset(id);
    bench.host.end(id);
    assert!(bench.in_flight() == 0);
    sound(&bench);
}
