//! Large bodies.

use abi_host::Options;
use abi_host::case::{Bench, INSTRUCTIONS_PER_MILLI, Player, Verdict, field_post, play};
use abi_host::module::metered_filter;
use serde_json::{Value, json};

use super::sound;

fn raise(config: &mut Value) {
    Bench::pool(config, "m-chat")["limits"]["tokens_per_minute"] = 2_000_000.into();
}

fn long_body(bytes: usize) -> Vec<u8> {
    let text = "lorem ipsum ".repeat(bytes / 12);
    json!({"model": "m-chat", "max_tokens": 10, "messages": [{"role": "user", "content": text}]})
        .to_string()
        .into()
}

/// A body above the buffer limit of Envoy is decided early and never causes a 413.
#[test]
fn case_size_413() {
    play("SIZE-413.jsonl", raise);
    let short = {
        let mut bench = Bench::with(raise);
        let id = bench.send(field_post("/v1/chat/completions"), &long_body(250_000));
        assert_eq!(bench.verdict(id), Verdict::Admit);
        bench.reserved(id)
    };
    for declared in [true, false] {
        let body = long_body(1_200_000);
        let mut headers = field_post("/v1/chat/completions");
        if declared {
            headers.add(b"content-length", body.len().to_string().as_bytes());
        }
        let mut bench = Bench::with(raise);
        let id = bench.host.open(0, headers, false);
        for part in body.chunks(16_384) {
            bench.host.request_body(id, part, false);
        }
        bench.host.request_body(id, b"", true);
        assert_eq!(bench.verdict(id), Verdict::Admit, "declared: {declared}");
        assert!(bench.host.stream(id).request.sent.body == body && bench.host.stream(id).request.sent.ended);
        if declared {
            let reserved = bench.reserved(id);
            assert!(reserved >= short, "{reserved} for 1.2 MB, {short} for 250 kB");
        }
        sound(&bench);
    }
}

/// Reading 256 KiB takes few instructions, whatever its shape, and no more than linear.
#[test]
fn case_size_cpu() {
    let bench = Bench::start(Options::of(metered_filter()), |config| {
        Bench::pool(config, "m-chat")["limits"]["tokens_per_minute"] = 1_000_000.into();
    });
    let player = Player::new(bench).play("SIZE-CPU.jsonl");
    let mut bench = player.bench;
    let one = |text: String| {
        json!({"model": "m-chat", "max_tokens": 10, "messages": [{"role": "user", "content": text}]})
            .to_string()
    };
    let shapes = [
        ("one message", one("a".repeat(260_000))),
        ("words", one("lorem ipsum ".repeat(21_000))),
        ("escapes", one("\n\"".repeat(65_000))),
        ("half", one("lorem ipsum ".repeat(10_500))),
    ];
    let mut spent = Vec::new();
    for (shape, body) in shapes {
        let before = bench.host.vm(0).instructions();
        let id = bench.send(field_post("/v1/chat/completions"), body.as_bytes());
        assert_eq!(bench.verdict(id), Verdict::Admit, "{shape}");
        let run = bench.host.vm(0).instructions() - before;
        assert!(run < 5 * INSTRUCTIONS_PER_MILLI, "{shape}: {run} instructions for {} bytes", body.len());
        spent.push(run);
    }
    assert!(spent[1] < spent[3] * 3, "{spent:?}");
}
