//! What a run costs. Starting values by rule of thumb.

use super::family::Family;
use super::kind::{KINDS, LENGTHS};

/// Weights are in 1/1024 of an LLM token.
pub(super) const ONE: u64 = 1_024;

/// The weights of a family.
pub(super) fn of(_family: Family) -> &'static [[u16; LENGTHS]; KINDS] {
    &THUMB
}

static THUMB: [[u16; LENGTHS]; KINDS] = [[900; LENGTHS]; KINDS];
