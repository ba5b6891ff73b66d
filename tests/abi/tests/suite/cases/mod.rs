//! Field cases: failures that users of gateways and limiters have met, one test each. Files are in `tests/cases/`.

mod configuration;
mod encoding;
mod estimate;
mod fairness;
mod http;
mod identity;
mod json;
mod leaks;
mod learning;
mod models;
mod numbers;
mod open;
mod output;
mod races;
mod responses;
mod retry_after;
mod sizes;
mod stream_usage;
mod streams;
mod upstream;
mod windows;

use abi_host::StreamId;
use abi_host::case::{Answer, Bench, Verdict, chat_body, field_post};
use serde_json::{Value, json};

/// A streaming chat body that asks for usage.
fn stream_body() -> Vec<u8> {
    let body = json!({
        "model": "m-chat", "messages": [{"role": "user", "content": "x"}],
        "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 400,
    });
    body.to_string().into_bytes()
}

/// Sends a streaming chat call and expects it to pass.
fn admitted_stream(bench: &mut Bench) -> StreamId {
    let id = bench.send(field_post("/v1/chat/completions"), &stream_body());
    assert_eq!(bench.verdict(id), Verdict::Admit);
    id
}

/// Sends a chat call and expects it to pass.
fn admitted(bench: &mut Bench, max_tokens: u64) -> StreamId {
    let id = bench.chat(max_tokens);
    assert_eq!(bench.verdict(id), Verdict::Admit, "{}", bench.host.stream(id).log_field());
    id
}

/// A fresh bench after one streaming call that got `answer`.
fn after_stream(answer: &Answer) -> Bench {
    let mut bench = Bench::new();
    let id = admitted_stream(&mut bench);
    bench.finish(id, answer);
    sound(&bench);
    bench
}

/// A fresh bench after one plain call that got `answer`.
fn after_plain(answer: &Answer) -> Bench {
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 400);
    bench.finish(id, answer);
    sound(&bench);
    bench
}

/// No machine is dead and nothing was done that Envoy leaves undefined.
fn sound(bench: &Bench) {
    let world = bench.host.world.borrow();
    assert!(bench.host.alive(), "{:?}", world.traps);
    assert!(world.violations.is_empty(), "{:?}", world.violations);
}

/// The bytes of the answer as the client got them.
fn client_bytes(bench: &mut Bench, id: StreamId) -> Vec<u8> {
    bench.host.stream(id).response.sent.body.clone()
}

/// A header of the answer to the client as a number.
fn client_number(bench: &mut Bench, id: StreamId, name: &str) -> Option<f64> {
    bench.host.stream(id).client_header(name)?.parse().ok()
}

/// Uses up the tokens of the pool for the next minute.
fn fill(bench: &mut Bench) {
    let id = admitted(bench, 9_000);
    bench.finish(id, &Answer::usage(1_000, 9_000));
}

/// Sets a member of every pool.
fn every_pool(config: &mut Value, change: impl Fn(&mut Value)) {
    for pool in config["pools"].as_array_mut().expect("pools") {
        change(pool);
    }
}

/// A chat call by a tenant in a class.
fn chat_by(bench: &mut Bench, worker: usize, tenant: &str, class: &str, max_tokens: u64) -> StreamId {
    let mut headers = field_post("/v1/chat/completions");
    headers.replace(b"x-tenant", tenant.as_bytes());
    headers.replace(b"x-priority", class.as_bytes());
    bench.send_on(worker, headers, &chat_body(max_tokens))
}
