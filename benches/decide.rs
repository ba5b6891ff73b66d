//! One decision on one pool, as a worker does it: bytes to ledger, the decision, ledger to bytes.
//!
//! `cargo bench --bench decide`

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use envoy_backpressure::config::ClassId;
use envoy_backpressure::gate::{Ask, Flow, Ledger, Policy, TenantKey, admit};
use envoy_backpressure::units::{Cost, Limits, Span, Timestamp};

fn policy() -> Policy {
    Policy {
        limits: Limits { requests: Some(6_000), llm_tokens: Some(3_000_000), ..Limits::default() },
        burst: Span::from_secs(10),
        strict_window: true,
        reservation_ttl: Span::from_secs(600),
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_792_567_680_000 + millis)
}

fn ask(serial: u64, flows: u64) -> Ask {
    let flow = Flow {
        class: ClassId(u8::try_from(serial % 3).unwrap_or(0)),
        tenant: TenantKey(u32::try_from(serial % flows).unwrap_or(0)),
        class_weight: [4, 2, 1].get(usize::try_from(serial % 3).unwrap_or(0)).copied().unwrap_or(1),
        tenant_weight: 1,
    };
    let llm_tokens = 200 + serial.wrapping_mul(0x9e37_79b9) % 900;
    let cost = Cost { requests: 1, llm_tokens, input: llm_tokens, output: 0, concurrency: 1 };
    Ask {
        flow,
        cost,
        fingerprint: serial.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        max_told: Span::from_secs(3_600),
        max_park: Span::ZERO,
        parked: false,
    }
}

/// A pool under load for a minute, with `waiting` calls booked by `flows` flows. Gives its bytes and the time.
fn pool(waiting: u64, flows: u64) -> (Vec<u8>, u64) {
    let policy = policy();
    let mut ledger = Ledger::new(at(0));
    let mut serial = 0;
    // The ring of the window is full of slots that count.
    for millis in (0..60_000).step_by(100) {
        serial += 1;
        admit(&mut ledger, &policy, &ask(serial, flows), at(millis));
    }
    if waiting > 0 {
        let mut booked = 0;
        while booked < waiting {
            serial += 1;
            let decision = admit(&mut ledger, &policy, &ask(serial, flows), at(60_000));
            booked += u64::from(matches!(decision, envoy_backpressure::gate::Decision::Wait(..)));
        }
    }
    let mut bytes = Vec::new();
    ledger.encode(&mut bytes);
    (bytes, 60_001)
}

fn decide(criterion: &mut Criterion) {
    let policy = policy();
    for (name, waiting, flows) in [
        ("nothing waiting", 0, 3),
        ("100 waiting", 100, 3),
        ("1000 waiting", 1_000, 3),
        ("4096 waiting", 4_096, 3),
        ("4096 waiting, 900 flows", 4_096, 900),
    ] {
        let (bytes, now) = pool(waiting, flows);
        let ask = ask(9_999_999, flows);
        let (mut ledger, mut out) = (Ledger::new(at(0)), Vec::new());
        criterion.bench_function(&format!("{name} ({} bytes)", bytes.len()), |bencher| {
            bencher.iter(|| {
                if ledger.reload(black_box(&bytes)).is_err() {
                    return;
                }
                black_box(admit(&mut ledger, &policy, &ask, at(now)));
                out.clear();
                ledger.encode(&mut out);
                black_box(&out);
            });
        });
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
