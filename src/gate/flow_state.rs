//! What is known of one (class, tenant) pair: its place in virtual time, and how its callers behave.

use crate::config::ClassId;

use super::crowd::{FIRST_CROWD, MOST_OF_A_CROWD};
use super::{Flow, TenantKey};

/// The whole of a return rate.
pub(crate) const ALL_RETURN: u16 = 1 << 15;
/// Even of callers of whom none returned lately, some count: else their flow could never promise anything.
const LEAST_RETURN: u16 = ALL_RETURN / 40;
/// One observation in this many makes up the return rate: few, so that a crowd that gave up holds little for long.
const OBSERVATIONS: u16 = 10;
/// Microseconds per step of those sums.
pub(crate) const STEP: u64 = 16;
/// Largest value of those sums.
pub(crate) const MOST: u32 = (1 << 24) - 1;
/// Trust in look-alikes before anything is known of them.
pub(crate) const FIRST_TRUST: u8 = 64;

/// One (class, tenant) pair that waits, or lately did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowState {
    pub(crate) class: u8,
    pub(crate) tenant: u32,
    pub(crate) class_weight: u16,
    pub(crate) tenant_weight: u16,
    /// Service received over weight, in virtual time.
    pub(crate) finish: u64,
    /// Share of its refused calls that come back, of [`ALL_RETURN`].
    pub(crate) return_rate: u16,
    /// How far look-alikes of waiting calls are taken for other callers, 0 to 255: falls when they do not come back.
    pub(crate) trust: u8,
    /// Calls it has in the queue.
    pub(crate) waiting: u16,
    /// What its new calls lately asked for, in steps of [`STEP`] microseconds of the limit, decaying.
    pub(crate) asked: u32,
    /// What it lately received, likewise.
    pub(crate) received: u32,
}

impl FlowState {
    pub(crate) const fn key(&self) -> (u8, u32) {
        (self.class, self.tenant)
    }

    /// All that its effective weight depends on, besides who else waits.
    pub(crate) const fn weights(&self) -> (u8, u16, u16) {
        (self.class, self.class_weight, self.tenant_weight)
    }

    /// One of whom nothing is known. `strangers`: its refused callers may come back to another gate.
    pub(crate) fn new(flow: &Flow, finish: u64, strangers: bool) -> Self {
        Self {
            class: flow.class.0,
            tenant: flow.tenant.0,
            finish,
            return_rate: if strangers { LEAST_RETURN } else { ALL_RETURN },
            trust: FIRST_TRUST,
            ..Self::default()
        }
    }

    /// Takes over the weights of the present configuration.
    pub(crate) fn reweigh(&mut self, flow: &Flow) {
        self.class_weight = u16::try_from(flow.class_weight.clamp(1, 1_000)).unwrap_or(1);
        self.tenant_weight = if self.tenant >= FIRST_CROWD {
            self.waiting.clamp(1, MOST_OF_A_CROWD)
        } else {
            u16::try_from(flow.tenant_weight.clamp(1, 1_000)).unwrap_or(1)
        };
    }

    pub(crate) fn flow(&self) -> Flow {
        Flow {
            class: ClassId(self.class),
            tenant: TenantKey(self.tenant),
            class_weight: self.class_weight.into(),
            tenant_weight: self.tenant_weight.into(),
        }
    }

    /// A new call asked for `service` microseconds of the limit.
    pub(crate) fn ask(&mut self, service: u64) {
        self.asked = raised(self.asked, service);
    }

    pub(crate) fn returned(&mut self, twin: bool) {
        let missing = ALL_RETURN.saturating_sub(self.return_rate);
        self.return_rate = self.return_rate.saturating_add(missing.div_ceil(OBSERVATIONS)).min(ALL_RETURN);
        if twin {
            self.trust = self.trust.saturating_add(u8::MAX.saturating_sub(self.trust).div_ceil(16));
        }
    }

    pub(crate) fn abandoned(&mut self, twin: bool) {
        self.return_rate = self.return_rate.saturating_sub(self.return_rate / OBSERVATIONS).max(LEAST_RETURN);
        if twin {
            self.trust = self.trust.saturating_sub(self.trust.div_ceil(8));
        }
    }

    /// Look-alikes that are booked as calls of their own.
    pub(crate) fn most_twins(&self) -> usize {
        let trust = usize::from(self.trust);
        (trust.saturating_mul(trust) / 16).max(2)
    }
}

/// The sum after `service` more microseconds of the limit.
pub(crate) fn raised(sum: u32, service: u64) -> u32 {
    sum.saturating_add(u32::try_from(service.div_ceil(STEP)).unwrap_or(MOST)).min(MOST)
}
