//! What was held comes back, whatever ends a call.

use abi_host::case::{Answer, Bench, case_bytes, play};
use abi_host::stream::LocalReply;

use super::{admitted, admitted_stream, sound};

/// A client that leaves in the middle of a stream is charged what it saw, and its place is free.
#[test]
fn case_leak_abort() {
    let one_at_a_time = |config: &mut serde_json::Value| {
        Bench::pool(config, "m-chat")["limits"]["concurrent_requests"] = 1.into();
    };
    let player = play("LEAK-ABORT.jsonl", one_at_a_time);
    assert_eq!(player.report.admissions.len(), 20);

    let event =
        "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"abcdabcdabcdabcdabcd\"}}]}\n\n";
    let mut bench = Bench::with(one_at_a_time);
    let id = admitted_stream(&mut bench);
    bench.host.response_headers(
        id,
        abi_host::Headers::from_text(&[(":status", "200"), ("content-type", "text/event-stream")]),
        false,
    );
    bench.host.response_body(id, event.repeat(150).as_bytes(), false);
    assert!(bench.in_flight() > 0);
    bench.host.reset(id);
    bench.host.end(id);
    assert!(bench.in_flight() == 0);
    let used = bench.tpm_used();
    assert!((300..=1_500).contains(&used), "{used} for 3 000 bytes");
    sound(&bench);
}

/// A request that the upstream rejects frees its tokens; the request itself stays counted.
#[test]
fn case_leak_4xx() {
    play("LEAK-4XX.jsonl", |_| {});
    for status in [400, 401, 404, 413, 500, 502] {
        let mut bench = Bench::new();
        let id = admitted(&mut bench, 2_000);
        bench.finish(id, &Answer::status(status, "application/json", "{\"error\":{\"message\":\"no\"}}"));
        assert_eq!((bench.tpm_used(), bench.rpm_used()), (0, 1), "{status}");
    }
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 2_000);
    let body = "{\"error\":{\"message\":\"no\"},\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}";
    bench.finish(id, &Answer::status(400, "application/json", body));
    assert_eq!(bench.tpm_used(), 10, "what a rejected request did use is charged");
}

/// When a later filter or the router answers, the upstream was never reached: everything comes back.
#[test]
fn case_leak_later_filter() {
    play("LEAK-LATER-FILTER.jsonl", |_| {});
    let replies = [
        LocalReply {
            status: 403,
            details: "rbac_access_denied_matched_policy[none]".to_owned(),
            ..LocalReply::default()
        },
        LocalReply {
            status: 503,
            details: "no_healthy_upstream".to_owned(),
            flags: 0x2,
            ..LocalReply::default()
        },
        LocalReply {
            status: 503,
            details: "upstream_reset_before_response_started{connection_failure}".to_owned(),
            flags: 0x20,
            ..LocalReply::default()
        },
    ];
    for reply in replies {
        let mut bench = Bench::new();
        let id = admitted(&mut bench, 1_900);
        let details = reply.details.clone();
        bench.host.local_reply(id, reply);
        bench.host.end(id);
        assert_eq!((bench.tpm_used(), bench.rpm_used()), (0, 0), "{details}");
        assert!(bench.in_flight() == 0, "{details}");
    }
    // An answer out of a cache that tells usage: charged or not, but settled.
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 1_900);
    let body =
        b"{\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":20,\"total_tokens\":30}}"
            .to_vec();
    let details = "cache.response_from_cache_filter".to_owned();
    bench.host.local_reply(id, LocalReply { status: 200, body, details, ..LocalReply::default() });
    bench.host.end(id);
    assert!([0, 30].contains(&bench.tpm_used()), "{}", bench.tpm_used());
    assert!(bench.in_flight() == 0);
}

/// A cut-off answer after the upstream was reached is not free.
#[test]
fn case_leak_reset_by_upstream() {
    let mut bench = Bench::new();
    let id = admitted_stream(&mut bench);
    let bytes = case_bytes("SSE-SPLIT.sse");
    bench.host.response_headers(
        id,
        abi_host::Headers::from_text(&[(":status", "200"), ("content-type", "text/event-stream")]),
        false,
    );
    bench.host.response_body(id, &bytes[..200], false);
    bench.host.reset(id);
    bench.host.end(id);
    let used = bench.tpm_used();
    assert!((1..=60).contains(&used), "{used}");
}
