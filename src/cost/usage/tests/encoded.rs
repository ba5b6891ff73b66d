//! Answers that are compressed or framed in binary.

use super::*;

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
