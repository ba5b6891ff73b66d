//! Headers, bodies, pauses and resumes.

use abi_host::Headers;

use super::{lines, ok, post, start, start_without_flag};

#[test]
fn a_continued_body_is_seen_chunk_by_chunk_and_request_headers_are_gone() {
    let mut host = start(1);
    lines(&host);
    let call = host.open(0, post("pass"), false);
    host.request_body(call, b"abc", false);
    host.request_body(call, b"de", true);
    assert_eq!(
        lines(&host),
        ["request headers 4 false", "request body 3 false 3 2", "request body 2 true 2 2"]
    );
    let sent = &host.stream(call).request.sent;
    assert_eq!((sent.body.as_slice(), sent.ended), (&b"abcde"[..], true));
}

#[test]
fn with_the_flag_a_pause_at_headers_still_shows_the_body_and_holds_everything() {
    let mut host = start(1);
    let call = host.open(0, post("hold,gather"), false);
    lines(&host);
    host.request_body(call, b"abc", false);
    assert!(host.stream(call).request.sent.headers.is_none());
    host.request_body(call, b"de", true);
    // Status 0: the headers are still with the filter.
    assert_eq!(lines(&host), ["request body 3 false 3 0", "request body 5 true 5 0"]);
    let sent = &host.stream(call).request.sent;
    assert!(sent.headers.is_some());
    assert_eq!((sent.body.as_slice(), sent.ended), (&b"abcde"[..], true));
}

#[test]
fn without_the_flag_a_pause_at_headers_never_shows_the_body() {
    let mut host = start_without_flag();
    let call = host.open(0, post("hold"), false);
    lines(&host);
    host.request_body(call, b"abc", true);
    host.advance_secs(5);
    assert_eq!(lines(&host), [""; 0]);
    assert!(!host.stream(call).reached_upstream());
}

#[test]
fn resuming_from_a_tick_after_a_full_stop_delivers_the_body_in_one_piece() {
    let mut host = start_without_flag();
    let call = host.open(0, post("park"), false);
    host.request_body(call, b"abc", false);
    host.request_body(call, b"de", true);
    lines(&host);
    host.advance_millis(10);
    assert_eq!(lines(&host), ["request body 5 true 5 2"]);
    assert!(host.stream(call).request.sent.ended);
}

#[test]
fn resuming_from_a_tick_after_a_body_pause_skips_the_filter() {
    let mut host = start(1);
    let call = host.open(0, post("hold,gather,park-body"), false);
    host.request_body(call, b"abc", false);
    host.request_body(call, b"de", true);
    lines(&host);
    assert!(!host.stream(call).reached_upstream());
    host.advance_millis(10);
    assert_eq!(lines(&host), [""; 0]);
    assert_eq!(host.stream(call).request.sent.body, b"abcde");
    assert_eq!(host.world.borrow().violations, [""; 0]);
}

#[test]
fn more_than_the_buffer_limit_while_pausing_in_the_body_is_413() {
    let mut host = start(1);
    let call = host.open(0, post("hold,gather"), false);
    host.request_body(call, &[b'x'; 1 << 20], false);
    assert_eq!(host.stream(call).client_status(), None);
    host.request_body(call, b"y", false);
    assert_eq!(host.stream(call).client_status(), Some(413));
}

#[test]
fn trailers_end_both_directions_without_an_end_in_the_body() {
    let mut host = start(1);
    let call = host.open(0, post("pass"), false);
    host.request_body(call, b"abc", false);
    host.request_trailers(call, Headers::from_text(&[("t", "1")]));
    host.response_headers(call, ok(), false);
    host.response_body(call, b"xyz", false);
    host.response_trailers(call, Headers::from_text(&[("t", "1"), ("u", "2")]));
    let seen = lines(&host).join("|");
    assert!(
        seen.contains(
            "request trailers 1|response headers 2 false 2 via_upstream [200, 0, 0, 0, 0, 0, 0, 0]"
        )
    );
    assert!(seen.ends_with("response body 3 false|response trailers 2"), "{seen}");
    let stream = host.stream(call);
    assert_eq!(stream.client_header("x-seen").as_deref(), Some("1"));
    assert!(stream.request.sent.ended && stream.response.sent.ended);
}

#[test]
fn header_values_are_any_bytes() {
    let mut host = start(1);
    let mut headers = post("bytes");
    headers.add(b"x-odd", b"a\xc0\xa7\xff");
    let call = host.open(0, headers, true);
    let sent = host.stream(call).request.sent.headers.clone().expect("continued");
    assert_eq!(sent.get(b"x-copy"), Some(&b"a\xc0\xa7\xff"[..]));
}
