//! Shared data, stats, callouts, the clock.

use abi_host::stats::Kind;
use abi_host::store::SharedData;
use abi_host::{Fault, Headers, Status};

use super::{lines, post, start};

#[test]
fn compare_and_swap_follows_envoy() {
    let mut data = SharedData::default();
    assert_eq!(data.set(b"k", b"1", u32::MAX), Status::Ok, "a missing key accepts any number");
    assert_eq!(data.set(b"k", b"2", u32::MAX), Status::CasMismatch);
    let (_, cas) = data.get(b"k").expect("written");
    assert_eq!(data.set(b"other", b"x", 0), Status::Ok);
    assert_eq!(data.set(b"k", b"3", cas), Status::Ok);
    assert_eq!(data.set(b"k", b"4", cas), Status::CasMismatch, "numbers are used once");
    assert_eq!(data.set(b"k", b"5", 0), Status::Ok, "0 writes blindly");
    assert_eq!(data.get(b"k").map(|(value, cas)| (value.to_vec(), cas)), Some((b"5".to_vec(), 4)));
}

#[test]
fn workers_share_data_and_stats() {
    let mut host = start(3);
    for worker in [0, 1, 2, 1] {
        let _ = host.open(worker, post("count"), true);
    }
    let world = host.world.borrow();
    assert_eq!(world.data.get(b"probe.count").map(|(v, _)| v.to_vec()), Some(4_u64.to_le_bytes().to_vec()));
    assert_eq!(world.stats.get(Kind::Counter, "probe.calls"), 4);
    assert_eq!(world.stats.len(), 1);
}

#[test]
fn forced_mismatches_are_seen_and_end() {
    let mut host = start(1);
    host.world.borrow_mut().faults.add(Fault::status("set_shared_data", Status::CasMismatch as u32, 5));
    let _ = host.open(0, post("count"), true);
    assert_eq!(host.world.borrow().calls_of("proxy_set_shared_data"), 6);
    assert_eq!(host.world.borrow().data.get(b"probe.count").map(|(_, cas)| cas), Some(1));
}

#[test]
fn every_thread_ticks_and_the_main_one_serves_nothing() {
    let host = &mut start(2);
    let before = host.world.borrow().calls_of("proxy_get_shared_data");
    host.advance_millis(100);
    // Two workers and the main thread, ten ticks each.
    assert_eq!(host.world.borrow().calls_of("proxy_get_shared_data") - before, 30);
}

#[test]
fn callouts_fail_at_once_or_at_their_deadline() {
    let mut host = start(1);
    host.world.borrow_mut().clusters.insert("known".to_owned());
    host.world.borrow_mut().data.plant(b"probe.callout", b"1");
    lines(&host);
    host.advance_millis(10);
    assert_eq!(lines(&host), ["callout unknown false", "callout known true"]);
    host.advance_millis(50);
    assert_eq!(lines(&host), ["answer 1 0 0"]);
    host.world.borrow_mut().data.plant(b"probe.callout", b"1");
    host.advance_millis(10);
    lines(&host);
    host.vm(0).answer_callout(2, Some((Headers::from_text(&[(":status", "200")]), b"xy".to_vec())));
    assert_eq!(lines(&host), ["answer 2 1 2"]);
}

#[test]
fn the_wall_clock_may_step_while_time_only_moves_forward() {
    let host = &mut start(1);
    let (wall, steady) = (host.world.borrow().clock.wall(), host.now());
    host.world.borrow_mut().clock.step_wall(-3_600_000_000_000);
    host.advance_secs(1);
    assert_eq!(host.now(), steady + 1_000_000_000);
    assert_eq!(host.world.borrow().clock.wall(), wall - 3_599_000_000_000);
}
