//! Who a call is accounted to.

use abi_host::case::{Answer, Bench, Player, Verdict, case_http, chat_body, field_post, play};
use abi_host::stats::Kind;
use abi_host::{Host, Options};
use serde_json::json;

use super::{chat_by, sound};

const ORG: &[u8] = b"metadata\0filter_metadata\0envoy.filters.http.jwt_authn\0payload\0org";

/// Tenants come from the configured source alone; who invents names shares one account.
#[test]
fn case_id_spoof() {
    let bench = Bench::with(|config| {
        let path = ["metadata", "filter_metadata", "envoy.filters.http.jwt_authn", "payload", "org"];
        config["identity"]["tenant"] = json!([{"property": path}]);
    });
    let mut player = Player::new(bench);
    player.identity_property = Some(ORG.to_vec());
    let player = player.play("ID-SPOOF.jsonl");
    let world = player.bench.host.world.borrow();
    assert_eq!(world.stats.sum(Kind::Counter, &["requests", "tenant.=.beta"]), 0);
    assert_eq!(world.stats.sum(Kind::Counter, &["tokens", "tenant.=.beta"]), 0);
    assert!(world.stats.sum(Kind::Counter, &["requests", "tenant.=.default"]) > 0);
}

/// Header names in the configuration are compared without case.
#[test]
fn case_id_header_case() {
    let file = case_http("ID-HEADER-CASE.http");
    for name in ["X-Tenant", "x-tenant", "X-TENANT"] {
        let mut bench = Bench::with(|config| config["identity"]["tenant"] = json!([{"header": name}]));
        let id = bench.send(file.request(), &file.body);
        assert_eq!(bench.host.stream(id).log_field()["tenant"], "acme", "{name}");
    }
    let mut config = abi_host::case::bench_config();
    config["identity"]["tenant"] = json!([{"header": " x-tenant "}]);
    if let Ok(mut host) = Host::start(Options::filter(), &config.to_string()) {
        let id = host.open(0, file.request(), false);
        host.request_body(id, &file.body, true);
        assert_eq!(host.stream(id).log_field()["tenant"], "acme");
    }
}

/// Calls without identity share the tenant `default`, are limited, and leave others their share.
#[test]
fn case_id_missing() {
    let mut bench = Bench::new();
    let mut admitted = [0, 0];
    for round in 0..400 {
        let mut headers = field_post("/v1/chat/completions");
        headers.remove(b"x-tenant");
        let nobody = bench.send(headers, &chat_body(90));
        let acme = chat_by(&mut bench, 0, "acme", "normal", 91);
        for (index, id) in [nobody, acme].into_iter().enumerate() {
            if bench.verdict(id) == Verdict::Admit {
                admitted[index] += u32::from(round >= 120);
                if index == 0 {
                    assert_eq!(bench.host.stream(id).log_field()["tenant"], "default");
                }
            }
            bench.finish(id, &Answer::usage(10, 90));
        }
        bench.host.advance_millis(500);
    }
    let share = f64::from(admitted[1]) / f64::from(admitted[0] + admitted[1]);
    assert!(admitted[0] > 0 && share >= 0.6, "{admitted:?}");
    sound(&bench);
}

/// A caller cannot raise its class.
#[test]
fn case_fair_prio_spoof() {
    play("FAIR-PRIO-SPOOF.jsonl", |_| {});
    let mut bench = Bench::with(|config| config["tenants"]["acme"]["classes"] = json!(["normal"]));
    for class in ["high", "HIGH", "urgent", "0", "-1", "", "low"] {
        let id = chat_by(&mut bench, 0, "acme", class, 1);
        assert_eq!(bench.host.stream(id).log_field()["class"], "normal", "{class:?}");
    }
    let id = chat_by(&mut bench, 0, "beta", "high", 1);
    assert_eq!(bench.host.stream(id).log_field()["class"], "high");
    let mut headers = field_post("/v1/chat/completions");
    headers.replace(b"x-tenant", b"beta");
    headers.add(b"x-priority", b"high");
    let id = bench.send(headers, &chat_body(1));
    assert_eq!(bench.host.stream(id).log_field()["class"], "normal", "the first of two values counts");
}
