//! How many calls are held inside Envoy, over all workers.
//!
//! Each worker keeps its own numbers in one shared value and renews them at the tick, so what a dead VM held is
//! forgotten by itself. Steps of a shared counter would stay for ever.

use crate::units::{Span, Timestamp};

/// A worker that did not renew its numbers for so long is gone. A tick is half a second at most, unless Envoy is stuck.
const FORGOTTEN: Span = Span::from_secs(3);
/// Numbers kept; each is that of one pool in one worker.
const MOST: usize = 1_024;
const BYTES: usize = 20;

/// The numbers of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Worker, pool, calls, and when that was said.
    entries: Vec<(u32, u32, u32, Timestamp)>,
}

impl Tally {
    /// Reads the shared value and leaves out who is gone. Bytes that are not ours hold nothing.
    pub fn decode(bytes: &[u8], now: Timestamp) -> Self {
        let (chunks, rest) = bytes.as_chunks::<BYTES>();
        if !rest.is_empty() || chunks.len() > MOST {
            return Self::default();
        }
        let read = |&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t]: &[u8; BYTES]| {
            (
                u32::from_le_bytes([a, b, c, d]),
                u32::from_le_bytes([e, f, g, h]),
                u32::from_le_bytes([i, j, k, l]),
                Timestamp::from_micros(u64::from_le_bytes([m, n, o, p, q, r, s, t])),
            )
        };
        let lives = |at: Timestamp| now.since(at) < FORGOTTEN && at.since(now) < FORGOTTEN;
        Self { entries: chunks.iter().map(read).filter(|(_, _, _, at)| lives(*at)).collect() }
    }

    /// The bytes of the shared value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.len().saturating_mul(BYTES));
        for (worker, pool, calls, at) in &self.entries {
            for number in [worker, pool, calls] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&at.as_micros().to_le_bytes());
        }
        out
    }

    /// Says how many calls `worker` holds for `pool`.
    pub fn set(&mut self, worker: u32, pool: u32, calls: u32, now: Timestamp) {
        self.entries.retain(|(other, its, _, _)| (*other, *its) != (worker, pool));
        if calls > 0 && self.entries.len() < MOST {
            self.entries.push((worker, pool, calls, now));
        }
    }

    /// A number for a worker that has none here.
    pub fn unused(&self) -> u32 {
        let used = |number: &u32| self.entries.iter().any(|(worker, _, _, _)| worker == number);
        (0..u32::MAX).find(|number| !used(number)).unwrap_or(u32::MAX)
    }

    /// Calls held for `pool`.
    pub fn total(&self, pool: u32) -> u64 {
        let own = self.entries.iter().filter(|(_, its, _, _)| *its == pool);
        own.fold(0, |sum, (_, _, calls, _)| sum.saturating_add(u64::from(*calls)))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_worker_that_is_gone_are_forgotten() {
        let start = Timestamp::from_millis(1_792_567_680_000);
        let mut tally = Tally::default();
        tally.set(1, 7, 3, start);
        tally.set(2, 7, 4, start);
        tally.set(2, 8, 5, start);
        let later = start.after(Span::from_secs(2));
        tally = Tally::decode(&tally.encode(), later);
        assert_eq!((tally.total(7), tally.total(8), tally.total(9)), (7, 5, 0));
        assert_eq!(tally.unused(), 0);
        tally.set(2, 7, 1, later);
        tally.set(2, 8, 0, later);
        tally = Tally::decode(&tally.encode(), start.after(Span::from_secs(4)));
        assert_eq!((tally.total(7), tally.total(8)), (1, 0));
        // A clock that was set back makes them all start anew.
        assert_eq!(Tally::decode(&tally.encode(), start.before(Span::from_secs(3_600))), Tally::default());
    }

    #[test]
    fn foreign_bytes_hold_nothing_and_the_value_is_bounded() {
        let now = Timestamp::from_millis(1_792_567_680_000);
        assert_eq!(Tally::decode(b"something else", now), Tally::default());
        assert_eq!(Tally::decode(&vec![0; BYTES * (MOST + 1)], now), Tally::default());
        let mut tally = Tally::default();
        for worker in 0..5_000 {
            tally.set(worker, 1, 1, now);
        }
        assert_eq!(tally.encode().len(), BYTES * MOST);
    }
}
