//! A ledger of any bytes.

use super::bytes::with_tail;
use envoy_backpressure::config::ClassId;
use envoy_backpressure::gate::{
    Ask, Decision, Flow, Ledger, Policy, Settlement, TenantKey, admit, cancel, charge, settle, standings,
    summary,
};
use envoy_backpressure::units::{Cost, Limits, Resource, Span, Timestamp};

/// A host's clock counts nanoseconds in 64 bits.
const LAST_MICROS: u64 = u64::MAX / 1_000;

const BEYOND_CLOCKS: u64 = 1 << 60;

/// The ledger's own time, which stands behind magic, version and flags.
fn time_of(stored: &[u8]) -> u64 {
    stored.get(6..14).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn coded(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.encode(&mut bytes);
    assert!(bytes.len() <= 65_536, "{} bytes", bytes.len());
    bytes
}

/// A ledger of any bytes either is refused or works: every number in it is taken as it is.
pub fn check(input: &[u8]) {
    let (bytes, mut choices) = with_tail(input, 48);
    let Ok(mut ledger) = Ledger::decode(bytes) else { return };
    let stored = coded(&ledger);
    assert_eq!(Ledger::decode(&stored).as_ref(), Ok(&ledger), "written and read again it is another");
    let limits = Limits {
        requests: Some(60),
        llm_tokens: Some(choices.number().max(1)),
        input: (choices.byte() & 1 == 1).then(|| choices.number().max(1)),
        output: None,
        concurrency: (choices.byte() & 1 == 1).then_some(3),
    };
    let policy = Policy {
        limits,
        burst: Span::from_secs(1 + choices.number() % 60),
        strict_window: choices.byte() & 1 == 1,
        reservation_ttl: Span::from_secs(600),
    };
    let mut now = Timestamp::from_micros(choices.number() % LAST_MICROS);
    while !choices.is_empty() {
        let flow = Flow {
            class: ClassId(choices.byte() & 3),
            tenant: TenantKey(choices.byte().into()),
            class_weight: 1 + u32::from(choices.byte()) * 3,
            tenant_weight: 1 + u32::from(choices.byte()) * 3,
        };
        let amount = choices.number();
        let fit = |limit: Option<u64>| limit.map_or(amount, |limit| amount.min(limit));
        let cost = Cost {
            requests: 1,
            llm_tokens: fit(limits.llm_tokens),
            input: fit(limits.input),
            output: 7,
            concurrency: 1,
        };
        let ask = Ask {
            flow,
            cost,
            fingerprint: choices.byte().into(),
            max_told: Span::from_secs(59),
            max_park: Span::ZERO,
            parked: false,
        };
        match admit(&mut ledger, &policy, &ask, now) {
            Decision::Admit(reservation) => {
                let used = Cost { llm_tokens: choices.number(), ..cost };
                settle(&mut ledger, &policy, &reservation, Settlement::Actual(used), now);
            }
            Decision::Wait(booking, _) => {
                assert!(booking.told <= ask.max_told && booking.told > Span::ZERO, "{booking:?}");
                if choices.byte() & 1 == 1 {
                    cancel(&mut ledger, &policy, &booking, now);
                } else {
                    charge(&mut ledger, &policy, &ask, now);
                }
            }
        }
        for resource in Resource::ALL {
            if let Some(standing) = standings(&ledger, &policy, now).get(resource) {
                assert!(standing.remaining <= standing.limit, "{resource:?}: {standing:?}");
            }
        }
        let glance = summary(&ledger, &policy, now, 50);
        assert!(glance.flows.len() <= 50 && glance.upcoming.len() <= 50 && glance.jain_permille <= 1_000);
        let stored = coded(&ledger);
        let again = Ledger::decode(&stored);
        if again.is_err() && time_of(&stored) >= BEYOND_CLOCKS {
            // Damaged values lead there, and are given up then.
            return;
        }
        assert!(again.is_ok(), "what was written is not read");
        now = Timestamp::from_micros(now.as_micros().wrapping_add(choices.number()) % LAST_MICROS);
    }
}
