//! Several workers on one ledger.

use abi_host::case::{Answer, Bench, Verdict, play};
use abi_host::{Fault, Options, Status};

use super::{admitted, chat_by, sound};

/// A burst over four workers is admitted up to the limit, before any answer came.
#[test]
fn case_race_burst() {
    play("RACE-BURST.jsonl", |_| {});
    let mut bench = Bench::start(Options::filter().workers(4), |_| {});
    let mut total = 0;
    for call in 0..100 {
        let id = chat_by(&mut bench, call % 4, "acme", "normal", 990);
        if bench.verdict(id) == Verdict::Admit {
            total += bench.reserved(id);
        }
    }
    assert!(total <= 10_000 && total > 8_900, "{total}");
}

fn fail_writes(bench: &Bench, status: Status, times: u64) {
    bench.host.world.borrow_mut().faults.add(Fault::status("set_shared_data", status as u32, times));
}

/// Conflicts are tried again a bounded number of times; then the call passes, is counted, and charged later.
#[test]
fn case_race_cas_loop() {
    play("RACE-CAS-LOOP.jsonl", |_| {});
    for conflicts in [1, 5, 7] {
        let mut bench = Bench::new();
        fail_writes(&bench, Status::CasMismatch, conflicts);
        let id = admitted(&mut bench, 100);
        assert_eq!(bench.host.stream(id).log_field()["decision"], "admitted", "{conflicts} conflicts");
        bench.finish(id, &Answer::usage(50, 50));
        assert_eq!(bench.tpm_used(), 100);
    }
    let mut bench = Bench::new();
    fail_writes(&bench, Status::CasMismatch, 50);
    let before = bench.host.world.borrow().calls_of("proxy_set_shared_data");
    let id = admitted(&mut bench, 100);
    let tries = bench.host.world.borrow().calls_of("proxy_set_shared_data") - before;
    assert!(tries <= 16, "{tries} writes for one decision");
    assert_eq!(bench.host.stream(id).log_field()["decision"], "failed_open");
    assert_eq!(bench.counted(&["requests", "failed_open"]), 1);
    bench.finish(id, &Answer::usage(50, 50));
    bench.host.advance_secs(10);
    assert_eq!(
        bench.host.world.borrow().faults.pending("proxy_set_shared_data"),
        0,
        "writing is tried again"
    );
    assert_eq!(bench.tpm_used(), 100, "the charge is not lost");
    assert!(bench.in_flight() == 0);
    sound(&bench);
}

/// A settlement that cannot be written at once is written at a tick, once.
#[test]
fn case_race_cas_loop_settle() {
    for (status, times) in [
        (Status::CasMismatch, 1),
        (Status::CasMismatch, 5),
        (Status::CasMismatch, 50),
        (Status::InternalFailure, 1),
        (Status::InternalFailure, 50),
    ] {
        let mut bench = Bench::new();
        let id = admitted(&mut bench, 400);
        fail_writes(&bench, status, times);
        let before = bench.host.world.borrow().calls_of("proxy_set_shared_data");
        bench.finish(id, &Answer::usage(50, 50));
        let tries = bench.host.world.borrow().calls_of("proxy_set_shared_data") - before;
        assert!(tries <= 32, "{tries} writes for one settlement");
        bench.host.advance_secs(10);
        assert_eq!(bench.tpm_used(), 100, "{status:?} {times} times");
        assert!(bench.in_flight() == 0);
        sound(&bench);
    }
}

/// A write that fails for another reason fails open at once and is charged when it works again.
#[test]
fn case_race_other_error() {
    let mut bench = Bench::new();
    fail_writes(&bench, Status::InternalFailure, 8);
    let id = admitted(&mut bench, 100);
    bench.finish(id, &Answer::usage(50, 50));
    bench.host.advance_secs(10);
    assert_eq!(bench.tpm_used(), 100);
    sound(&bench);
}
