//! Framing of event streams.

use abi_host::case::{Answer, Bench, case_bytes, case_http, play};

use super::{admitted_stream, after_stream, client_bytes, sound};

const SSE: &str = "text/event-stream";

/// An event cut across body callbacks loses nothing, wherever the cut is.
#[test]
fn case_sse_split() {
    play("SSE-SPLIT.jsonl", |_| {});
    let bytes = case_bytes("SSE-SPLIT.sse");
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        let bench = after_stream(&Answer::ok(SSE, "").parts(vec![head.to_vec(), tail.to_vec()]));
        assert!(bench.uses(150), "cut at {cut}: {}", bench.tpm_used());
    }
    let bench = after_stream(&Answer::ok(SSE, "").parts(bytes.iter().map(|b| vec![*b]).collect()));
    assert_eq!(bench.tpm_used(), 150);
}

/// No byte of a stream is changed or kept back.
#[test]
fn case_sse_split_is_never_delayed() {
    let bytes = case_bytes("SSE-SPLIT.sse");
    let mut bench = Bench::new();
    let id = admitted_stream(&mut bench);
    bench.host.response_headers(
        id,
        abi_host::Headers::from_text(&[(":status", "200"), ("content-type", SSE)]),
        false,
    );
    for (index, byte) in bytes.iter().enumerate() {
        bench.host.response_body(id, &[*byte], false);
        assert_eq!(client_bytes(&mut bench, id).len(), index + 1);
    }
    assert_eq!(client_bytes(&mut bench, id), bytes);
}

/// Carriage returns, comments, `data:` without a space, `id` and `event` lines, empty data.
#[test]
fn case_sse_crlf() {
    let bench = after_stream(&Answer::ok(SSE, case_bytes("SSE-CRLF.sse")));
    assert_eq!(bench.tpm_used(), 150);
}

/// The bytes decide when the content type is wrong, missing or oddly written.
#[test]
fn case_sse_label() {
    let stream = case_http("SSE-LABEL.a.http").body;
    let object = case_http("SSE-LABEL.c.http").body;
    let with_comment = vec![Vec::new(), b": ping\n\n".to_vec(), stream.clone()];
    let variants = [
        ("stream as JSON", Answer::ok("application/json", stream.clone())),
        (
            "stream as text, starting with nothing and a comment",
            Answer::ok("text/plain", "").parts(with_comment),
        ),
        ("object for a stream", Answer::ok("application/json", object.clone())),
        ("object as a stream", Answer::ok(SSE, object)),
        ("odd case", Answer::ok("Text/Event-STREAM;charset=UTF-8", stream)),
    ];
    for (what, answer) in variants {
        let bench = after_stream(&answer);
        assert_eq!(bench.tpm_used(), 150, "{what}");
    }
}

/// Megabytes without a line end do not grow the machine, and the next event is still read.
#[test]
fn case_size_no_newline() {
    play("SIZE-NO-NEWLINE.jsonl", |_| {});
    let mut bench = Bench::with(|config| {
        let limits = &mut Bench::pool(config, "m-chat")["limits"];
        *limits = serde_json::json!({"requests_per_minute": 1_000, "tokens_per_minute": 1_000_000});
    });
    let calls: Vec<_> = (0..200).map(|_| admitted_stream(&mut bench)).collect();
    let headers = abi_host::Headers::from_text(&[(":status", "200"), ("content-type", SSE)]);
    for id in &calls {
        bench.host.response_headers(*id, headers.clone(), false);
        bench.host.response_body(*id, b"data: ", false);
    }
    for _ in 0..16 {
        for id in &calls {
            bench.host.response_body(*id, &[b'x'; 65_536], false);
        }
    }
    sound(&bench);
    assert!(bench.host.memory_bytes() < 64 << 20, "{} bytes", bench.host.memory_bytes());
}
