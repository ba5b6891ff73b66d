//! Traps and what follows them.

use abi_host::{Effect, FailurePolicy, Fault, Host, Options};

use super::{ok, post, probe, start};

#[test]
fn a_trap_kills_one_worker_and_the_store_survives() {
    let mut host = start(2);
    let _ = host.open(0, post("count"), true);
    let open = host.open(0, post("pass"), true);
    let poison = host.open(0, post("trap"), true);
    assert_eq!(host.stream(poison).client_status(), Some(503));
    assert!(!host.alive());
    host.response_headers(open, ok(), true);
    assert_eq!(host.stream(open).client_status(), Some(503));
    let within_back_off = host.open(0, post("count"), true);
    assert_eq!(host.stream(within_back_off).client_status(), Some(503));
    let elsewhere = host.open(1, post("count"), true);
    assert!(host.stream(elsewhere).reached_upstream());
    host.advance_secs(1);
    let after = host.open(0, post("count"), true);
    assert!(host.stream(after).reached_upstream() && host.alive());
    assert_eq!(host.world.borrow().data.get(b"probe.count").map(|(v, _)| v[0]), Some(3));
}

#[test]
fn without_reload_a_dead_worker_stays_dead() {
    let options = Options { failure: FailurePolicy::Closed, ..Options::of(probe()) };
    let mut host = Host::start(options, "plain").expect("accepted");
    let _ = host.open(0, post("trap"), true);
    host.advance_secs(60);
    let after = host.open(0, post("pass"), true);
    assert_eq!(host.stream(after).client_status(), Some(503));
}

#[test]
fn a_trap_can_strike_on_either_side_of_a_host_call() {
    for (effect, written) in [(Effect::TrapBefore, 0), (Effect::TrapAfter, 1)] {
        let mut host = start(1);
        host.world.borrow_mut().faults.add(Fault::trap("proxy_set_shared_data", effect));
        let _ = host.open(0, post("count"), true);
        assert!(!host.alive());
        assert_eq!(host.world.borrow().data.len(), written);
        assert!(host.world.borrow().traps[0].contains("injected trap"));
    }
}
