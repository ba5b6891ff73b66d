//! Reloading.

use abi_host::case::{Answer, Bench, Verdict, field_post, play};
use serde_json::json;

use super::{admitted, sound};

/// Pushing a configuration does not refill the pools.
#[test]
fn case_conf_refill() {
    let player = play("CONF-REFILL.jsonl", |_| {});
    let mut bench = player.bench;
    for push in 0..10_u32 {
        let mut config = bench.config.clone();
        config["body_limit_bytes"] = (262_144 + push).into();
        bench.host.configure(&config.to_string()).expect("accepted");
        for _ in 0..60 {
            let id = bench.chat(1);
            assert_eq!(bench.verdict(id), Verdict::Deny, "push {push}");
            bench.host.end(id);
        }
        bench.host.advance_secs(5);
    }
    sound(&bench);
}

/// Calls admitted before a push settle in the pool that admitted them; a removed pool is forgotten quietly.
#[test]
fn case_conf_inflight() {
    let mut bench = Bench::new();
    let chats: Vec<_> = (0..4).map(|_| admitted(&mut bench, 500)).collect();
    let embed = bench.send(field_post("/v1/embeddings"), b"{\"model\":\"m-embed\",\"input\":\"x\"}");
    assert_eq!(bench.verdict(embed), Verdict::Admit);
    let embed_aborted = bench.send(field_post("/v1/embeddings"), b"{\"model\":\"m-embed\",\"input\":\"y\"}");

    let pools = bench.config["pools"].as_array_mut().expect("pools");
    pools.remove(0);
    Bench::pool(&mut bench.config, "m-chat")["limits"] =
        json!({"requests_per_minute": 50, "tokens_per_minute": 10_000});
    let config = bench.config.to_string();
    bench.host.configure(&config).expect("accepted");
    assert!(bench.in_flight() > 0);
    for id in &chats[..3] {
        bench.finish(*id, &Answer::usage(60, 40));
    }
    bench.host.reset(chats[3]);
    bench.host.end(chats[3]);
    bench.finish(embed, &Answer::usage(5, 0));
    bench.host.reset(embed_aborted);
    bench.host.end(embed_aborted);
    bench.host.advance_secs(1);
    sound(&bench);
    assert!(bench.in_flight() == 0);
    let used = bench.tpm_used();
    assert!((300..=330).contains(&used), "{used}: three settled, one aborted before any answer");
    assert_eq!(bench.host.vm(0).state().roots.len(), 1, "the old root context is gone");
    admitted(&mut bench, 5);
}

/// A refused push leaves everything as it was.
#[test]
fn case_conf_refused() {
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 9_000);
    let mut broken = bench.config.clone();
    broken["pools"][0]["limits"]["requests_per_minute"] = 0.into();
    let log = bench.host.configure(&broken.to_string()).expect_err("refused");
    assert!(log.contains("/pools/0/limits/requests_per_minute"), "{log}");
    bench.finish(id, &Answer::usage(1_000, 9_000));
    let id = bench.chat(500);
    assert_eq!(bench.verdict(id), Verdict::Deny);
    sound(&bench);
}
