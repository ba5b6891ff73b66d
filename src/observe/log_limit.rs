//! At most one log line per cause and span, with the number of those left out.

use super::Anomaly;
use crate::units::{Span, Timestamp};

/// Shortest time between two lines of one cause.
const QUIET: Span = Span::from_secs(10);

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    last: Option<Timestamp>,
    held_back: u64,
}

/// Limits the lines of one worker.
#[derive(Debug)]
pub struct LogLimit {
    entries: Vec<(Anomaly, Entry)>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self { entries: Anomaly::ALL.iter().map(|anomaly| (*anomaly, Entry::default())).collect() }
    }
}

impl LogLimit {
    /// `Some(n)` when a line may be written now; `n` lines of this cause were held back before it.
    pub fn allow(&mut self, anomaly: Anomaly, now: Timestamp) -> Option<u64> {
        let (_, entry) = self.entries.iter_mut().find(|(cause, _)| *cause == anomaly)?;
        // A clock that stepped back must not silence a cause for ever, hence the second test.
        let quiet = entry.last.is_some_and(|last| now >= last && now.since(last) < QUIET);
        if quiet {
            entry.held_back = entry.held_back.saturating_add(1);
            return None;
        }
        entry.last = Some(now);
        Some(core::mem::take(&mut entry.held_back))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_span_and_the_rest_is_counted() {
        let mut limit = LogLimit::default();
        let at = |secs: u64| Timestamp::from_millis(secs * 1_000);
        assert_eq!(limit.allow(Anomaly::UsageMissing, at(100)), Some(0));
        assert_eq!(limit.allow(Anomaly::UsageMissing, at(101)), None);
        assert_eq!(limit.allow(Anomaly::CasExhausted, at(101)), Some(0));
        assert_eq!(limit.allow(Anomaly::UsageMissing, at(110)), Some(1));
        assert_eq!(limit.allow(Anomaly::UsageMissing, at(50)), Some(0));
    }
}
