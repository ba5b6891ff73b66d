//! Callers and upstreams that lie about amounts.

use abi_host::case::{Answer, Bench, Verdict, chat_body, field_post};

/// Whether a small call passes within ten minutes.
fn comes_back(bench: &mut Bench) -> bool {
    (0..60).any(|_| {
        bench.host.advance_secs(10);
        let id = bench.chat(10);
        let admitted = bench.verdict(id) == Verdict::Admit;
        bench.host.end(id);
        admitted
    })
}

#[test]
fn a_declared_length_that_never_comes_shuts_nothing() {
    let begun = chat_body(10)[..30].to_vec();
    for body in [begun, Vec::new(), b"\xff\x00 no JSON at all".to_vec()] {
        for declared in ["18446744073709551615", "1000000000000", "4000000", "-1", "1e9"] {
            let mut bench = Bench::new();
            let mut headers = field_post("/v1/chat/completions");
            headers.add(b"content-length", declared.as_bytes());
            let id = bench.host.open(0, headers, false);
            bench.host.request_body(id, &body, false);
            bench.host.reset(id);
            bench.host.end(id);
            let sent = body.len();
            assert!(
                comes_back(&mut bench),
                "{sent} bytes of a declared {declared} shut the pool for ten minutes"
            );
        }
    }
}

#[test]
fn absurd_usage_is_a_bounded_debt() {
    for figure in ["99999999999", "4611686018427387903", "1e18"] {
        let mut bench = Bench::new();
        let id = bench.chat(10);
        let body =
            format!("{{\"choices\":[],\"usage\":{{\"prompt_tokens\":{figure},\"completion_tokens\":1}}}}");
        bench.finish(id, &Answer::ok("application/json", body));
        assert!(comes_back(&mut bench), "one answer with {figure} LLM tokens shuts the pool");
    }
}
