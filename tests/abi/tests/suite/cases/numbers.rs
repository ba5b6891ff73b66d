//! Arithmetic that must not create budget.

use abi_host::case::{Answer, Bench, Verdict, case_bytes, play};

use super::{admitted, after_plain, client_number};

/// Negative figures are not figures.
#[test]
fn case_num_neg_usage() {
    let absurd =
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":-1,\"total_tokens\":-1}}";
    for body in [case_bytes("NUM-NEG-USAGE.json"), absurd.as_bytes().to_vec()] {
        let mut bench = Bench::new();
        let other = admitted(&mut bench, 3_000);
        bench.finish(other, &Answer::usage(1_000, 2_000));
        let id = admitted(&mut bench, 400);
        bench.finish(id, &Answer::ok("application/json", body));
        let used = bench.tpm_used();
        assert!((3_001..=3_420).contains(&used), "{used}");
        let mut reserved = 0;
        for _ in 0..30 {
            let id = bench.chat(990);
            if bench.verdict(id) == Verdict::Admit {
                reserved += bench.reserved(id);
            }
        }
        assert!(used + reserved <= 10_000, "{used} + {reserved}");
    }
}

/// A pool in debt shows no negative numbers.
#[test]
fn case_num_remaining() {
    let mut player = play("NUM-REMAINING.jsonl", |_| {});
    let id = player.bench.chat(10);
    let bench = &mut player.bench;
    assert_eq!(client_number(bench, id, "x-ratelimit-limit-tokens"), Some(10_000.0));
    let reset = bench.host.stream(id).client_header("x-ratelimit-reset-tokens").expect("a reset");
    let seconds: f64 = reset.strip_suffix('s').expect("seconds").parse().expect("a number");
    assert!(seconds > 0.0, "{reset}");
}

/// Giving back concerns the own hold only, also when another worker wrote in between.
#[test]
fn case_num_over_refund() {
    let mut bench = Bench::start(abi_host::Options::filter().workers(2), |_| {});
    let a = super::chat_by(&mut bench, 0, "acme", "normal", 1_000);
    let b = super::chat_by(&mut bench, 1, "acme", "normal", 1_000);
    let held = bench.reserved(b);
    let refused = abi_host::stream::LocalReply {
        status: 403,
        details: "ext_authz_denied".to_owned(),
        ..Default::default()
    };
    bench.host.local_reply(a, refused);
    bench.host.end(a);
    assert_eq!(bench.tpm_used(), held);
    let rest = super::chat_by(&mut bench, 0, "acme", "normal", 10_000 - held - (held - 1_000));
    assert_eq!(bench.verdict(rest), Verdict::Admit);
    assert_eq!(bench.tpm_used(), 10_000);
}

/// Cached input is part of the input: never added, never below zero.
#[test]
fn case_cache_openai() {
    let weighted = |weight: f64, body: &[u8]| {
        let mut bench = Bench::with(|config| {
            let pool = Bench::pool(config, "m-chat");
            pool["limits"]["tokens_per_minute"] = 100_000.into();
            pool["token_weights"] = serde_json::json!({"cached_input": weight});
        });
        let id = admitted(&mut bench, 400);
        bench.finish(id, &Answer::ok("application/json", body));
        bench.tpm_used()
    };
    let file = case_bytes("CACHE-OPENAI.json");
    assert_eq!((weighted(1.0, &file), weighted(0.0, &file)), (10_100, 2_100));
    let text = String::from_utf8(file).expect("UTF-8");
    let too_many = text.replace("8000", "20000");
    assert_eq!((weighted(1.0, too_many.as_bytes()), weighted(0.0, too_many.as_bytes())), (10_100, 100));
    let no_details = text.replace("{\"cached_tokens\": 8000}", "null");
    assert_eq!(
        (weighted(1.0, no_details.as_bytes()), weighted(0.0, no_details.as_bytes())),
        (10_100, 10_100)
    );
}

/// Figures beyond any integer do not wrap.
#[test]
fn case_num_huge_usage() {
    for figure in ["1e400", "99999999999999999999999", "9223372036854775808", "1e3"] {
        let body =
            format!("{{\"choices\":[],\"usage\":{{\"prompt_tokens\":{figure},\"completion_tokens\":1}}}}");
        let bench = after_plain(&Answer::ok("application/json", body));
        assert!(bench.tpm_used() > 0, "{figure}");
    }
}
