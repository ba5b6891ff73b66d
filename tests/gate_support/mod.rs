//! Short ways to say a policy, a call and a try.
#![allow(dead_code, unreachable_pub)]

use envoy_backpressure::config::ClassId;
use envoy_backpressure::gate::{Ask, Decision, Flow, Ledger, Policy, TenantKey, admit};
use envoy_backpressure::units::{Cost, Limits, Span, Timestamp};

/// `millis` after the start of the test clock.
pub fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_792_567_680_000 + millis)
}

pub fn policy(requests: Option<u64>, llm_tokens: Option<u64>, burst_seconds: u64, strict: bool) -> Policy {
    Policy {
        limits: Limits { requests, llm_tokens, ..Limits::default() },
        burst: Span::from_secs(burst_seconds),
        strict_window: strict,
        reservation_ttl: Span::from_secs(600),
    }
}

pub fn cost(llm_tokens: u64) -> Cost {
    Cost { requests: 1, llm_tokens, input: llm_tokens, output: 0, concurrency: 1 }
}

pub fn flow(class: u8, tenant: u32, weight: u32) -> Flow {
    Flow { class: ClassId(class), tenant: TenantKey(tenant), class_weight: weight, tenant_weight: 1 }
}

pub fn ask(fingerprint: u64, llm_tokens: u64, weight: u32) -> Ask {
    Ask {
        flow: flow(0, 0, weight),
        cost: cost(llm_tokens),
        fingerprint: fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        max_told: Span::from_secs(600),
        max_park: Span::ZERO,
        parked: false,
    }
}

pub struct Pool {
    pub ledger: Ledger,
    pub policy: Policy,
}

impl Pool {
    pub fn new(policy: Policy) -> Self {
        Self { ledger: Ledger::new(at(0)), policy }
    }

    /// `None` when admitted, else the wait told.
    pub fn try_one(&mut self, fingerprint: u64, llm_tokens: u64, now: Timestamp) -> Option<Span> {
        self.try_ask(&ask(fingerprint, llm_tokens, 1), now)
    }

    /// `None` when admitted, else the wait told. The ledger goes through its bytes each time.
    pub fn try_ask(&mut self, ask: &Ask, now: Timestamp) -> Option<Span> {
        let mut bytes = Vec::new();
        self.ledger.encode(&mut bytes);
        let mut ledger = Ledger::decode(&bytes).expect("own bytes");
        assert_eq!(ledger, self.ledger);
        let decision = admit(&mut ledger, &self.policy, ask, now);
        self.ledger = ledger;
        match decision {
            Decision::Admit(_) => None,
            Decision::Wait(booking, _) => Some(booking.told),
        }
    }
}
