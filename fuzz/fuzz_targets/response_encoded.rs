#![no_main]

use backpressure_fuzz::bytes::with_tail;
use backpressure_fuzz::response;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

fn pack<W: std::io::Write>(mut encoder: W, body: &[u8], finish: impl Fn(W) -> Vec<u8>) -> Vec<u8> {
    encoder.write_all(body).unwrap();
    finish(encoder)
}

// The input packed, so that the readers behind the inflater see it; and as it is, as damaged compressed data.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (body, mut choices) = with_tail(input, 9);
    let level = Compression::new(u32::from(choices.byte()) % 10);
    let (packed, label): (Vec<u8>, &[u8]) = match choices.below(6) {
        0 => (pack(GzEncoder::new(Vec::new(), level), body, |packed| packed.finish().unwrap()), b"gzip"),
        1 => (pack(ZlibEncoder::new(Vec::new(), level), body, |packed| packed.finish().unwrap()), b"deflate"),
        2 => (
            pack(DeflateEncoder::new(Vec::new(), level), body, |packed| packed.finish().unwrap()),
            b"deflate",
        ),
        3 => (body.to_vec(), b"gzip"),
        4 => (body.to_vec(), b"deflate"),
        _ => (body.to_vec(), b"br"),
    };
    let content_type: &[u8] = choices.pick(&[b"application/json", b"text/event-stream"]);
    response::check(content_type, label, &packed, choices);
});
