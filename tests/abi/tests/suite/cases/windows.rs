//! Window, clock and workers.

use abi_host::Options;
use abi_host::case::{Bench, Verdict, play};

use super::chat_by;

/// Nothing special happens at the full minute of the wall clock.
#[test]
fn case_win_edge() {
    let player = play("WIN-EDGE.jsonl", |_| {});
    let mut bench = player.bench;
    let mut admitted = Vec::new();
    for step in 0..400_u64 {
        let id = bench.chat(1);
        if bench.verdict(id) == Verdict::Admit {
            admitted.push(step * 500);
        }
        bench.host.end(id);
        bench.host.advance_millis(500);
    }
    for start in &admitted {
        let inside = admitted.iter().filter(|at| *at >= start && **at < start + 60_000).count();
        assert!(inside <= 60, "{inside} within a minute of {start} ms");
    }
    assert!(admitted.len() >= 110, "{} in 200 s", admitted.len());
}

/// Refused calls leave no trace in the window: knocking does not keep the door shut.
#[test]
fn case_win_lockout() {
    play("WIN-LOCKOUT.jsonl", |_| {});
}

/// Eight workers are one gate.
#[test]
fn case_shard_workers() {
    let mut bench = Bench::start(Options::filter().workers(8), |_| {});
    let mut admitted = Vec::new();
    for step in 0..720_u64 {
        let id = chat_by(&mut bench, (step * 5 % 8) as usize, "acme", "normal", 1);
        if bench.verdict(id) == Verdict::Admit {
            admitted.push(step * 250);
        }
        bench.host.end(id);
        bench.host.advance_millis(250);
    }
    for start in &admitted {
        let inside = admitted.iter().filter(|at| *at >= start && **at < start + 60_000).count();
        assert!(inside <= 60, "{inside} within a minute of {start} ms");
    }
    assert!(admitted.len() >= 170, "{} in 3 minutes", admitted.len());
}

/// A wall clock that is stepped by an hour, either way, neither opens nor shuts the gate for long.
#[test]
fn case_win_clock_step() {
    for hour in [-3_600_000_000_000, 3_600_000_000_000] {
        let mut bench = Bench::new();
        for _ in 0..60 {
            let id = bench.chat(1);
            bench.host.end(id);
        }
        bench.host.world.borrow_mut().clock.step_wall(hour);
        let mut at_once = 0;
        for _ in 0..120 {
            let id = bench.chat(1);
            at_once += u32::from(bench.verdict(id) == Verdict::Admit);
            bench.host.end(id);
        }
        assert!(at_once <= 60, "{at_once} after a step of {hour} ns");
        bench.host.advance_secs(130);
        let id = bench.chat(1);
        assert_eq!(bench.verdict(id), Verdict::Admit, "two minutes after a step of {hour} ns");
        super::sound(&bench);
    }
}
