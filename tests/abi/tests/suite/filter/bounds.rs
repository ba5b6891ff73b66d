//! What a call costs the host, and what a crowd of invented names costs in memory.

use abi_host::case::{Answer, Bench, Verdict, chat_body, field_post};

/// Host calls with which headers and body are read.
const READING: [&str; 4] = [
    "proxy_get_header_map_pairs",
    "proxy_get_header_map_value",
    "proxy_get_buffer_bytes",
    "proxy_get_buffer_status",
];

#[test]
fn an_admission_on_an_idle_pool_makes_at_most_six_host_calls() {
    for (config, hold_headers) in [("headers held", true), ("headers released", false)] {
        let mut bench = Bench::with(|bench| {
            bench["hold_headers"] = hold_headers.into();
            // As configured by default: waits are parked, and what the provider says is learned.
            for pool in bench["pools"].as_array_mut().expect("pools") {
                for key in ["max_wait_ms", "learn", "strict_window", "burst_seconds", "output_reserve"] {
                    pool.as_object_mut().expect("a pool").remove(key);
                }
            }
        });
        for round in 0..20 {
            // The first calls define their metrics.
            bench.host.world.borrow_mut().calls.clear();
            let id = bench.chat(10);
            assert_eq!(bench.verdict(id), Verdict::Admit);
            let calls = bench.host.world.borrow().calls.clone();
            let made: u64 =
                calls.iter().filter(|(name, _)| !READING.contains(name)).map(|(_, count)| count).sum();
            assert!(round == 0 || made <= 6, "{config}, call {round}: {calls:?}");
            bench.finish(id, &Answer::usage(5, 5));
            bench.host.advance_secs(5);
        }
    }
}

#[test]
fn ten_thousand_invented_names_cost_no_more_memory_than_a_thousand() {
    // As many calls with either, so that both have allocated all that they ever will.
    let after = |names: u64| {
        let mut bench = Bench::new();
        for n in 0..10_000 {
            let mut headers = field_post("/v1/chat/completions");
            headers.replace(b"x-tenant", format!("invented-{}", n % names).as_bytes());
            let id = bench.send(headers, &chat_body(9_000 + n / names));
            bench.host.end(id);
            bench.host.forget(id);
            bench.host.advance_millis(1);
        }
        let data = bench.host.world.borrow().data.bytes();
        (bench.host.memory_bytes(), data)
    };
    let (few, many) = (after(1_000), after(10_000));
    // The table of flows has 1 024 entries of 24 bytes: a thousand names leave that many of them free.
    assert!(many.0 <= few.0 && many.1 <= few.1 + 24 * 24, "machine and shared data: {few:?}, then {many:?}");
}
