//! One worker's view of the pools' learned output sizes. Samples gather here and are exchanged with the other
//! workers at the tick, so that no call pays a host call for learning.

use std::rc::Rc;

use super::plan::Plan;
use crate::gate::SharedStore;
use crate::observe::Recorder;
use crate::units::Timestamp;

/// See the module.
#[derive(Debug)]
pub struct Suggestions {
    plan: Rc<Plan>,
}

impl Suggestions {
    /// Nothing learned yet.
    pub fn new(plan: Rc<Plan>) -> Self {
        Self { plan }
    }
    /// x
    pub fn corrected_input(&self, _pool: usize, _model: u64, estimate: u64) -> u64 {
        estimate
    }
    /// x
    pub fn output(&self, _pool: usize, _model: u64, _tenant: u32) -> Option<u64> {
        None
    }
    /// x
    pub fn record(
        &mut self,
        _pool: usize,
        _model: u64,
        _tenant: u32,
        _estimated: u64,
        _input: u64,
        _output: u64,
    ) {
    }
    /// x
    pub fn exchange(&mut self, _store: &mut dyn SharedStore, _now: Timestamp, _recorder: &mut dyn Recorder) {
        let _ = &self.plan;
    }
}
