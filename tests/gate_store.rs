//! The ledger in a store with Envoy's compare-and-swap.

mod gate_support;

use envoy_backpressure::gate::{
    Decision, Expected, Ledger, LedgerError, PutError, Scratch, SharedStore, TransactError, admit, cancel,
    inspect, standings, transact,
};
use envoy_backpressure::testing::shared_data::{Fate, Operation, SharedData};
use gate_support::*;

const KEY: &str = "bp.pool";

fn one(store: &mut SharedData, attempts: u32, print: u64) -> Result<bool, TransactError> {
    let policy = policy(Some(10), None, 60, true);
    transact(store, &mut Scratch::default(), KEY, attempts, at(0), |ledger| {
        matches!(admit(ledger, &policy, &ask(print, 1, 1), at(0)), Decision::Admit(_))
    })
}

#[test]
fn the_fake_counts_like_the_host() {
    let mut store = SharedData::new();
    // A missing key takes any number but is created with the next one.
    assert_eq!(store.set_raw("a", b"1", u32::MAX), Ok(()));
    assert_eq!(store.set_raw("a", b"2", u32::MAX), Err(PutError::Mismatch));
    assert_eq!(store.put("a", b"2", Expected::Absent), Err(PutError::Mismatch));
    // One counter for all keys, and 0 writes blindly.
    assert_eq!(store.set_raw("b", b"1", 7), Ok(()));
    assert_eq!(store.last_number, 2);
    assert_eq!(store.set_raw("a", b"3", 0), Ok(()));
    assert_eq!(store.value("a"), Some(b"3".as_slice()));
    // The counter skips 0.
    store.last_number = u32::MAX;
    assert_eq!(store.set_raw("c", b"1", 1), Ok(()));
    assert_eq!(store.last_number, 1);
}

#[test]
fn conflicts_are_tried_again_from_a_fresh_read_and_only_so_often() {
    for conflicts in [0_u64, 1, 5, 50] {
        let mut store = SharedData::new();
        let mut left = conflicts;
        store.set_hook(move |operation, _| {
            if operation == Operation::Set && left > 0 {
                left -= 1;
                return Fate::Mismatch;
            }
            Fate::Pass
        });
        let outcome = one(&mut store, 8, 1);
        assert_eq!(outcome, if conflicts < 8 { Ok(true) } else { Err(TransactError::Contended) });
        assert_eq!(store.gets, (conflicts + 1).min(8));
        assert_eq!(store.sets, (conflicts + 1).min(8));
    }
}

#[test]
fn a_failing_host_call_is_reported_and_changes_nothing() {
    for failing in [Operation::Get, Operation::Set] {
        let mut store = SharedData::new();
        assert_eq!(one(&mut store, 8, 1), Ok(true));
        let before = store.value(KEY).map(<[u8]>::to_vec);
        store.set_hook(move |operation, _| if operation == failing { Fate::Fail } else { Fate::Pass });
        assert_eq!(one(&mut store, 8, 2), Err(TransactError::Host));
        assert_eq!(store.value(KEY).map(<[u8]>::to_vec), before);
    }
}

#[test]
fn foreign_bytes_are_replaced_newer_ones_are_left_alone() {
    let mut store = SharedData::new();
    store.set_raw(KEY, b"something else", 0).unwrap();
    assert_eq!(one(&mut store, 8, 1), Err(TransactError::Corrupt));
    assert_eq!(one(&mut store, 8, 1), Ok(true), "the next call finds the gate working");

    let newer = b"bpl\x03whatever comes then".to_vec();
    assert_eq!(Ledger::decode(&newer), Err(LedgerError::Newer));
    store.set_raw(KEY, &newer, 0).unwrap();
    assert_eq!(one(&mut store, 8, 2), Err(TransactError::Newer));
    assert_eq!(store.value(KEY), Some(newer.as_slice()));

    store.set_raw(KEY, b"", 0).unwrap();
    assert_eq!(one(&mut store, 8, 3), Ok(true), "an emptied value is no value");
}

#[test]
fn looking_writes_nothing_and_neither_does_a_change_that_changes_nothing() {
    let mut store = SharedData::new();
    one(&mut store, 8, 1).unwrap();
    let policy = policy(Some(10), None, 60, true);
    let seen =
        inspect(&mut store, &mut Scratch::default(), KEY, at(0), |ledger| standings(ledger, &policy, at(0)));
    assert_eq!(seen.unwrap().requests.unwrap().remaining, 9);
    transact(&mut store, &mut Scratch::default(), KEY, 8, at(0), |_| ()).unwrap();
    assert_eq!(store.sets, 1);
}

#[test]
fn the_layout_is_the_published_one() {
    let mut store = SharedData::new();
    let policy = policy(Some(10), Some(1_000), 10, true);
    let mut ledger = Ledger::new(at(0));
    let mut idle = Vec::new();
    ledger.encode(&mut idle);
    let golden_idle = concat!("62706c02", "0000", "0060cdaf545e0600", "0000000000000000");
    assert_eq!(hex(&idle), golden_idle);
    assert!(idle.len() <= 400);
    admit(&mut ledger, &policy, &ask(1, 100, 1), at(0));
    admit(&mut ledger, &policy, &ask(2, 900, 1), at(250));
    let mut busy = Vec::new();
    ledger.encode(&mut busy);
    assert_eq!(hex(&busy), include_str!("golden/ledger_v2.hex").trim());
    assert_eq!(Ledger::decode(&busy), Ok(ledger));
    store.set_raw(KEY, &busy, 0).unwrap();
}

#[test]
fn a_damaged_sum_of_a_window_is_counted_anew_when_it_is_read() {
    let policy = policy(Some(600), None, 10, true);
    let mut ledger = Ledger::new(at(0));
    let mut now = 0;
    let mut pass = |ledger: &mut Ledger, calls: u64| {
        (0..calls)
            .filter(|call| {
                now += 500;
                let ask = ask(now + call, 1, 1);
                let decision = admit(ledger, &policy, &ask, at(now));
                if let Decision::Wait(booking, _) = &decision {
                    cancel(ledger, &policy, booking, at(now));
                }
                matches!(decision, Decision::Admit(_))
            })
            .count()
    };
    assert_eq!(pass(&mut ledger, 130), 130);
    let mut bytes = Vec::new();
    ledger.encode(&mut bytes);
    // Magic, version, flags, two times, missing, until it refills, the number of slots and which; then the sum.
    let sum = 22 + 8 + 4 + 1 + 16;
    assert_eq!(bytes[sum..sum + 8], 121_u64.to_le_bytes());
    bytes[sum..sum + 8].copy_from_slice(&5_000_u64.to_le_bytes());
    let mut damaged = Ledger::decode(&bytes).unwrap();
    assert_eq!(pass(&mut damaged, 128), 128);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
