//! How callers behave when they are refused.

use crate::sim::rng::Rng;
use crate::units::Span;

/// The habit of a caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Client {
    /// Comes back at the told time, up to 50 ms late.
    Obeys,
    /// Reads whole seconds only, rounded up.
    WholeSeconds,
    /// Comes back this soon whatever it was told.
    Hammers(Span),
    /// Comes back after this part of the told time.
    Early(f64),
    /// Comes back up to this much late.
    Late(Span),
    /// Like the official SDKs: obeys times up to 60 s, gives up after this many retries.
    Sdk(u32),
}

const LONGEST_BACK_OFF: f64 = 60.0;
const SDK_LONGEST_OBEYED: Span = Span::from_secs(60);

fn seconds(value: f64) -> Span {
    Span::from_micros((value * 1e6) as u64)
}

/// Exponential back-off from 0.5 s to 60 s with jitter: what callers do who are told nothing.
fn back_off(refusals: u32, rng: &mut Rng) -> Span {
    let ceiling = (0.5 * f64::from(1u32 << refusals.saturating_sub(1).min(7))).min(LONGEST_BACK_OFF);
    seconds(ceiling * rng.uniform(0.5, 1.0))
}

impl Client {
    /// Time until the next try after the `refusals`-th refusal of one call; `None` when the caller gives up.
    pub fn next_try(self, told: Option<Span>, refusals: u32, rng: &mut Rng) -> Option<Span> {
        let latency = seconds(rng.uniform(0.0, 0.05));
        match (self, told) {
            (Self::Sdk(retries), _) if refusals > retries => None,
            (Self::Sdk(_), Some(told)) if told <= SDK_LONGEST_OBEYED => Some(told.plus(latency)),
            (Self::Sdk(_), _) => {
                let ceiling = (0.5 * f64::from(1u32 << refusals.saturating_sub(1).min(4))).min(8.0);
                Some(seconds(ceiling * rng.uniform(0.75, 1.0)))
            }
            (Self::Hammers(every), None) => Some(every.plus(latency)),
            (_, None) => Some(back_off(refusals, rng)),
            (Self::Hammers(every), Some(told)) => Some(told.min(every).plus(latency)),
            (Self::Obeys, Some(told)) => Some(told.plus(latency)),
            (Self::WholeSeconds, Some(told)) => {
                Some(Span::from_secs(told.as_secs_ceil().max(1)).plus(latency))
            }
            (Self::Early(part), Some(told)) => {
                Some(seconds(told.as_micros() as f64 * part / 1e6).plus(latency))
            }
            (Self::Late(most), Some(told)) => Some(told.plus(rng.span((Span::ZERO, most)))),
        }
    }
}
