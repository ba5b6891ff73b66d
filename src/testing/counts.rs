//! A recorder that keeps everything, for tests.

use crate::observe::{Anomaly, Decided, Labels, LlmTokenKind, Recorder};
use crate::units::Span;

/// See the module.
#[derive(Debug, Default)]
pub struct Counts {
    /// Decisions in order.
    pub decided: Vec<Decided>,
    /// Reasons of refusals in order, with the waits told.
    pub refused: Vec<(&'static str, Option<Span>)>,
    /// LLM tokens in order.
    pub llm_tokens: Vec<(LlmTokenKind, u64)>,
    /// Waits inside Envoy, ms.
    pub waits: Vec<u64>,
    /// Estimate errors, thousandths.
    pub errors: Vec<u64>,
    /// Refusals by the provider.
    pub throttled: u64,
    /// Metered calls without a pool.
    pub unmatched: u64,
    /// Anomalies in order.
    pub anomalies: Vec<Anomaly>,
}

impl Recorder for Counts {
    fn decided(&mut self, _: Labels, decided: Decided) {
        self.decided.push(decided);
    }
    fn refused(&mut self, _: Labels, reason: &'static str, told: Option<Span>) {
        self.refused.push((reason, told));
    }
    fn llm_tokens(&mut self, _: Labels, kind: LlmTokenKind, amount: u64) {
        self.llm_tokens.push((kind, amount));
    }
    fn waited(&mut self, _: Labels, millis: u64) {
        self.waits.push(millis);
    }
    fn estimate_error(&mut self, _: usize, permille: u64) {
        self.errors.push(permille);
    }
    fn upstream_throttled(&mut self, _: usize) {
        self.throttled = self.throttled.saturating_add(1);
    }
    fn unmatched(&mut self) {
        self.unmatched = self.unmatched.saturating_add(1);
    }
    fn anomaly(&mut self, anomaly: Anomaly) {
        self.anomalies.push(anomaly);
    }
}
