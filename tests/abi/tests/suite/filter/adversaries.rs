//! Callers and upstreams that lie about amounts, or send the most and the least at a time.

use abi_host::Options;
use abi_host::case::{Answer, Bench, INSTRUCTIONS_PER_MILLI, Verdict, chat_body, field_post};
use abi_host::module::metered_filter;

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

/// A bench whose instructions are counted, without limits that matter.
fn metered() -> Bench {
    Bench::start(Options::of(metered_filter()), |config| {
        let limits = &mut Bench::pool(config, "m-chat")["limits"];
        limits["tokens_per_minute"] = 100_000_000.into();
        limits["requests_per_minute"] = 1_000_000.into();
    })
}

#[test]
fn ten_thousand_headers_take_bounded_time_and_memory() {
    let mut bench = metered();
    let mut answer = Answer::usage(5, 5);
    for n in 0..10_000 {
        answer = answer.header(&format!("x-ratelimit-remaining-{n}"), "1");
    }
    let mut memory = 0;
    for round in 0..30 {
        let mut headers = field_post("/v1/chat/completions");
        for n in 0..10_000 {
            headers.add(format!("x-tenant-{n}").as_bytes(), b"\xff\xfe somebody");
        }
        let before = bench.host.vm(0).instructions();
        let id = bench.send(headers, &chat_body(10));
        assert_eq!(bench.verdict(id), Verdict::Admit);
        bench.finish(id, &answer);
        let run = bench.host.vm(0).instructions() - before;
        assert!(run < 10 * INSTRUCTIONS_PER_MILLI, "{run} instructions");
        bench.host.forget(id);
        if round == 10 {
            memory = bench.host.memory_bytes();
        }
    }
    assert_eq!(bench.host.memory_bytes(), memory, "memory grows");
}

#[test]
fn bodies_of_single_bytes_cost_a_bounded_time_for_each() {
    let mut bench = metered();
    let body = chat_body(10);
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"knots\"}}]}\n\n".repeat(100);
    for _ in 0..3 {
        let before = bench.host.vm(0).instructions();
        let mut headers = field_post("/v1/chat/completions");
        headers.add(b"content-length", body.len().to_string().as_bytes());
        let id = bench.host.open(0, headers, false);
        for (at, byte) in body.iter().enumerate() {
            bench.host.request_body(id, &[*byte], at + 1 == body.len());
        }
        assert_eq!(bench.verdict(id), Verdict::Admit);
        let parts = text.bytes().map(|byte| vec![byte]).collect();
        bench.finish(id, &Answer::ok("text/event-stream", Vec::new()).parts(parts));
        bench.host.forget(id);
        let pieces = (body.len() + text.len()) as u64;
        let run = (bench.host.vm(0).instructions() - before) / pieces;
        assert!(run < INSTRUCTIONS_PER_MILLI / 500, "{run} instructions for each byte");
    }
}
