//! Every host call may fail in any way: calls still pass and nothing traps.

use abi_host::case::{Answer, Bench, Verdict};
use abi_host::{Fault, Options, StreamId};

const STATUSES: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 4_711];

fn one_call(bench: &mut Bench) -> StreamId {
    let id = bench.chat(100);
    bench.finish(id, &Answer::usage(50, 50));
    bench.host.advance_secs(1);
    id
}

/// The host calls that ordinary traffic makes.
fn calls_made() -> Vec<&'static str> {
    let mut bench = Bench::new();
    bench.host.world.borrow_mut().calls.clear();
    one_call(&mut bench);
    for _ in 0..3 {
        bench.chat(9_000);
    }
    bench.host.world.borrow().calls.keys().copied().collect()
}

#[test]
fn any_status_of_any_host_call_lets_the_call_pass() {
    for call in calls_made() {
        for status in STATUSES {
            let mut bench = Bench::new();
            bench.host.world.borrow_mut().faults.add(Fault::status(call, status, u64::MAX));
            let id = one_call(&mut bench);
            let world = bench.host.world.clone();
            assert!(bench.host.alive(), "{call} with {status}: {:?}", world.borrow().traps);
            assert_eq!(bench.verdict(id), Verdict::Admit, "{call} with {status}");
            assert!(
                world.borrow().violations.is_empty(),
                "{call} with {status}: {:?}",
                world.borrow().violations
            );
            world.borrow_mut().faults.clear();
            bench.host.advance_secs(70);
            let after = one_call(&mut bench);
            assert_eq!(bench.verdict(after), Verdict::Admit, "after {call} with {status}");
        }
    }
}

#[test]
fn one_failure_at_any_moment_leaves_no_hold_behind() {
    for call in calls_made() {
        for skip in 0..6 {
            let mut bench = Bench::new();
            let fault = Fault { skip, ..Fault::status(call, 10, 1) };
            bench.host.world.borrow_mut().faults.add(fault);
            for _ in 0..3 {
                one_call(&mut bench);
            }
            bench.host.world.borrow_mut().faults.clear();
            bench.host.advance_secs(5);
            assert!(bench.host.alive(), "{call} after {skip}: {:?}", bench.host.world.borrow().traps);
            assert!(bench.in_flight() == 0, "{call} failed once after {skip} good ones: a hold is left");
        }
    }
}

#[test]
fn the_module_asks_only_for_what_envoy_offers() {
    // Instantiating fails otherwise; the list of calls that traffic makes is small.
    let calls = calls_made();
    assert!(calls.contains(&"proxy_set_shared_data") && calls.len() < 25, "{calls:?}");
    assert!(Bench::start(Options::filter().workers(3), |_| {}).host.alive());
}
