//! Which of several living configurations counts.
//!
//! Envoy keeps the old configuration alive while its listener drains, ten minutes as it comes, and does not load a text again that
//! is still alive. So a configuration that is taken back is in use again without being told. What tells it is the number of the
//! caller's connection: a listener that was replaced accepts none any more, and Envoy numbers them upwards. The record is shared by
//! all workers, and outlives a VM that dies: a VM begun anew loads what it meets first, which may be the older one.

use crate::units::{Span, Timestamp};

/// Configurations kept; the one of the lowest rank goes first.
const MOST: usize = 16;
const BYTES: usize = 32;
/// A connection of an older configuration may have been accepted before the newer one was loaded, and speak only now. After this
/// time, in which those that speak are taken note of, it more likely means that the newer one is not in use.
const SILENT: Span = Span::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Hash of its text.
    digest: u64,
    /// The higher counts.
    rank: u64,
    /// Highest number of a connection that it, or before it was loaded any other, was seen with.
    newest: u64,
    /// When it was loaded; the epoch once it was seen with a connection of its own.
    unused_since: Timestamp,
}

/// The living configurations by rank. Bytes of the shared value: 32 for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(Vec<Entry>);

impl Lineage {
    /// Reads the shared value. Bytes that are not ours hold nothing.
    pub fn decode(bytes: &[u8]) -> Self {
        let (entries, rest) = bytes.as_chunks::<BYTES>();
        if !rest.is_empty() || entries.len() > MOST {
            return Self::default();
        }
        let read = |entry: &[u8; BYTES]| {
            let (words, _) = entry.as_chunks::<8>();
            let word = |at| words.get(at).copied().map(u64::from_le_bytes).unwrap_or_default();
            let unused_since = Timestamp::from_micros(word(3));
            Entry { digest: word(0), rank: word(1), newest: word(2), unused_since }
        };
        Self(entries.iter().map(read).collect())
    }

    /// The bytes of the shared value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in &self.0 {
            for word in [entry.digest, entry.rank, entry.newest, entry.unused_since.as_micros()] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        out
    }

    /// Rank of a configuration, 0 when it is not known.
    pub fn rank(&self, digest: u64) -> u64 {
        self.0.iter().find(|entry| entry.digest == digest).map_or(0, |entry| entry.rank)
    }

    fn top(&self) -> u64 {
        self.0.iter().map(|entry| entry.rank).max().unwrap_or(0).saturating_add(1)
    }

    /// A configuration was loaded: it counts from now on, unless it is known, when another worker or an earlier VM loaded it before.
    pub fn load(&mut self, digest: u64, now: Timestamp) {
        if self.rank(digest) > 0 {
            return;
        }
        if self.0.len() >= MOST {
            let lowest = self.0.iter().map(|entry| entry.rank).min();
            self.0.retain(|entry| Some(entry.rank) != lowest);
        }
        let newest = self.0.iter().map(|entry| entry.newest).max().unwrap_or(0);
        self.0.push(Entry { digest, rank: self.top(), newest, unused_since: now });
    }

    /// A configuration is gone.
    pub fn forget(&mut self, digest: u64) {
        self.0.retain(|entry| entry.digest != digest);
    }

    /// A call of `digest` came over a connection of this number. Where the connection is newer than all of those of its `rivals`,
    /// they are out of use, and this configuration counts again.
    pub fn meet(&mut self, digest: u64, connection: u64, rivals: &[u64], now: Timestamp) {
        self.load(digest, now);
        let (rank, top) = (self.rank(digest), self.top());
        let out_of_use = |rival: &Entry| {
            connection > rival.newest
                && (rival.unused_since == Timestamp::EPOCH || now.since(rival.unused_since) >= SILENT)
        };
        let mut above =
            self.0.iter().filter(|entry| entry.rank > rank && rivals.contains(&entry.digest)).peekable();
        let counts_again = above.peek().is_some() && above.all(out_of_use);
        for own in self.0.iter_mut().filter(|entry| entry.digest == digest && connection > entry.newest) {
            (own.newest, own.unused_since) = (connection, Timestamp::EPOCH);
            if counts_again {
                own.rank = top;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: u64 = 11;
    const NEW: u64 = 22;
    const ELSEWHERE: u64 = 33;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_792_567_680_000).after(Span::from_millis(millis))
    }

    /// `OLD` with connections up to 7, then `NEW` is loaded.
    fn replaced() -> Lineage {
        let mut lineage = Lineage::default();
        lineage.load(OLD, at(0));
        for connection in [3, 7, 5] {
            lineage.meet(OLD, connection, &[], at(1));
        }
        lineage.load(NEW, at(10));
        lineage
    }

    fn counts(lineage: &Lineage, digest: u64) -> bool {
        let other = if digest == OLD { NEW } else { OLD };
        lineage.rank(digest) > lineage.rank(other)
    }

    #[test]
    fn the_one_loaded_last_counts_whatever_the_old_connections_ask() {
        let mut lineage = replaced();
        assert!(counts(&lineage, NEW));
        for connection in [3, 7] {
            lineage.meet(OLD, connection, &[NEW], at(60_000));
        }
        assert!(counts(&lineage, NEW));
        // Accepted before, and silent until now.
        lineage.meet(OLD, 8, &[NEW], at(11));
        assert!(counts(&lineage, NEW));
    }

    #[test]
    fn one_that_is_taken_back_counts_no_more() {
        let mut lineage = replaced();
        lineage.meet(NEW, 9, &[OLD], at(20));
        lineage.meet(OLD, 8, &[NEW], at(21));
        assert!(counts(&lineage, NEW), "accepted before the replacement's first");
        lineage.meet(OLD, 10, &[NEW], at(22));
        assert!(counts(&lineage, OLD));
        lineage.meet(NEW, 9, &[OLD], at(23));
        assert!(counts(&lineage, OLD), "calls of its old connections change nothing");
        lineage.meet(NEW, 11, &[OLD], at(24));
        assert!(counts(&lineage, NEW), "and forth again");
    }

    #[test]
    fn one_that_nobody_ever_called_counts_no_more_after_a_while() {
        let mut lineage = replaced();
        lineage.meet(OLD, 8, &[NEW], at(1_000));
        lineage.meet(OLD, 9, &[NEW], at(10_009));
        lineage.meet(OLD, 9, &[NEW], at(20_000));
        assert!(counts(&lineage, NEW));
        lineage.meet(OLD, 10, &[NEW], at(20_001));
        assert!(counts(&lineage, OLD));
    }

    #[test]
    fn a_vm_begun_anew_changes_nothing() {
        let mut lineage = replaced();
        lineage.meet(NEW, 9, &[OLD], at(20));
        let before = lineage.clone();
        lineage.load(NEW, at(30));
        lineage.load(OLD, at(31));
        lineage.meet(OLD, 7, &[NEW], at(32));
        assert_eq!(lineage, before);
    }

    #[test]
    fn one_of_other_pools_is_not_asked() {
        let mut lineage = replaced();
        lineage.meet(NEW, 9, &[OLD], at(20));
        lineage.load(ELSEWHERE, at(21));
        lineage.meet(OLD, 10, &[NEW], at(22));
        assert!(counts(&lineage, OLD));
    }

    #[test]
    fn what_is_gone_and_comes_again_is_new() {
        let mut lineage = replaced();
        lineage.forget(OLD);
        assert_eq!(lineage.rank(OLD), 0);
        lineage.load(OLD, at(30));
        assert!(counts(&lineage, OLD));
    }

    #[test]
    fn the_record_is_bounded_and_survives_its_bytes() {
        let mut lineage = Lineage::default();
        for digest in 1..100 {
            lineage.load(digest, at(digest));
            assert_eq!(Lineage::decode(&lineage.encode()), lineage);
        }
        assert_eq!(lineage.0.len(), MOST);
        assert_eq!(lineage.rank(83), 0);
        assert!(lineage.rank(99) > lineage.rank(84));
        for junk in [&b"x"[..], &[0xff; 33], &[1; 32 * 17]] {
            assert_eq!(Lineage::decode(junk), Lineage::default());
        }
    }
}
