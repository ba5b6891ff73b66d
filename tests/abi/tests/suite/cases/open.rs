//! Failing open, traps, and being seen.

use abi_host::case::{Answer, Bench, Verdict};
use abi_host::{Effect, Fault, Options, Status};

use super::{admitted, chat_by, fill, sound};

/// A trap kills one worker for a moment; the ledger survives and dead holds end.
#[test]
fn case_open_panic() {
    for effect in [Effect::TrapBefore, Effect::TrapAfter] {
        let mut bench = Bench::start(Options::filter().workers(2), |_| {});
        let elsewhere = chat_by(&mut bench, 1, "acme", "normal", 500);
        let dying = chat_by(&mut bench, 0, "acme", "normal", 700);
        assert_eq!((bench.verdict(elsewhere), bench.verdict(dying)), (Verdict::Admit, Verdict::Admit));
        let held = bench.tpm_used();
        bench.host.world.borrow_mut().faults.add(Fault::trap("set_shared_data", effect));
        let poison = chat_by(&mut bench, 0, "acme", "normal", 900);
        assert_eq!(bench.verdict(poison), Verdict::Other(503));
        assert!(!bench.host.alive());
        let other = chat_by(&mut bench, 1, "acme", "normal", 10);
        assert_eq!(bench.verdict(other), Verdict::Admit);
        bench.finish(other, &Answer::usage(1, 1));
        bench.finish(elsewhere, &Answer::usage(10, 10));
        assert!(bench.tpm_used() >= held - 500, "what the dead machine admitted stays counted");
        bench.host.advance_secs(2);
        let after = chat_by(&mut bench, 0, "acme", "normal", 10);
        assert_eq!(bench.verdict(after), Verdict::Admit);
        bench.finish(after, &Answer::usage(1, 1));
        assert!(bench.host.alive());
        assert!(bench.in_flight() > 0, "the holds of the dead machine are still open");
        bench.host.advance_secs(660);
        assert!(bench.in_flight() == 0, "after their time to live they are not");
        assert_eq!(bench.tpm_used(), 0);
    }
}

/// With the store gone every call passes, and each is visible; enforcement comes back by itself.
#[test]
fn case_open_silent() {
    let mut bench = Bench::new();
    fill(&mut bench);
    for call in ["get_shared_data", "set_shared_data"] {
        let fault = Fault::status(call, Status::InternalFailure as u32, u64::MAX);
        bench.host.world.borrow_mut().faults.add(fault);
    }
    bench.host.world.borrow_mut().logs.clear();
    let anomalies = bench.counted(&["anomalies"]);
    for _ in 0..300 {
        let id = admitted(&mut bench, 50);
        assert_eq!(bench.host.stream(id).log_field()["decision"], "failed_open");
        bench.finish(id, &Answer::usage(10, 10));
        bench.host.advance_secs(1);
    }
    assert_eq!(bench.counted(&["requests", "failed_open"]), 300);
    assert!(bench.counted(&["anomalies"]) > anomalies);
    let lines = bench.host.world.borrow().logs.len();
    assert!((1..=100).contains(&lines), "{lines} log lines for 300 calls");
    bench.host.world.borrow_mut().faults.clear();
    bench.host.advance_secs(70);
    fill(&mut bench);
    let id = bench.chat(500);
    assert_eq!(bench.verdict(id), Verdict::Deny);
    sound(&bench);
}

/// State that another program wrote does not stop traffic.
#[test]
fn case_open_foreign_state() {
    let mut bench = Bench::new();
    admitted(&mut bench, 10);
    let keys: Vec<Vec<u8>> = bench.host.world.borrow().data.entries().map(|(key, _)| key.to_vec()).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.starts_with(b"bp.")), "{keys:?}");
    for garbage in [&b""[..], b"\xff", &[0; 4_096], &[0xff; 70_000]] {
        for key in &keys {
            bench.host.world.borrow_mut().data.plant(key, garbage);
        }
        let id = admitted(&mut bench, 10);
        bench.finish(id, &Answer::usage(1, 1));
        bench.host.advance_secs(2);
        sound(&bench);
    }
}
