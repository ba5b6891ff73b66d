//! Shares and bounded names.

use abi_host::case::{Bench, Player, Script, bench_config, play};
use abi_host::{Host, Options};
use serde_json::{Value, json};

/// A share is no cap: who is alone has the whole pool.
#[test]
fn case_fair_idle() {
    play("FAIR-IDLE.jsonl", |_| {});
}

/// Weights that mean nothing are refused, and the log says which.
#[test]
fn case_fair_zero() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut config = bench_config();
        change(&mut config);
        Host::start(Options::filter(), &config.to_string()).err()
    };
    for weight in [json!(0), json!(-1), json!(0.6), json!("NaN"), json!(1001), json!(null)] {
        let log = refused(&|config| config["tenants"]["acme"]["weight"] = weight.clone());
        let log = log.unwrap_or_else(|| panic!("weight {weight} is accepted"));
        assert!(log.contains("/tenants/acme/weight"), "{weight}: {log}");
        let log = refused(&|config| config["classes"]["high"]["weight"] = weight.clone());
        assert!(log.is_some_and(|log| log.contains("/classes/high/weight")), "{weight}");
    }
    assert!(refused(&|config| config["tenants"] = json!({})).is_none());
    assert!(refused(&|config| config["tenants"]["acme"] = json!({})).is_none());
}

/// Any number of tenants and models leaves a bounded state. The script has a hundred thousand; the state stops growing
/// long before the number played here, `ABI_MEM_TENANTS` plays more.
#[test]
fn case_mem_tenants() {
    let most = std::env::var("ABI_MEM_TENANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(12_000);
    let script = Script::case("MEM-TENANTS.jsonl").shortened(most);
    let player = Player::new(Bench::new()).play_script("MEM-TENANTS.jsonl", script);
    let host = &player.bench.host;
    assert!(host.memory_bytes() < 24 << 20, "{} bytes", host.memory_bytes());
    assert!(host.world.borrow().data.bytes() < 1 << 20);
}

/// Names that callers choose never become stats.
#[test]
fn case_mem_labels() {
    play("MEM-LABELS.jsonl", |_| {});
}
