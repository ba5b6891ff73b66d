//! JSON that is not inside another framing: one document, one per line, an array of them, or simply one after another.

use super::reader::Reader;

/// Where in the sequence the reader is.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// The present line is not JSON.
    skipping: bool,
}

impl Sequence {
    /// Reads on.
    ///
    /// After garbage the next line is tried, but only when a document has ended before: inside a single damaged
    /// document a line may look like anything.
    pub(super) fn feed(&mut self, bytes: &[u8], reader: &mut Reader) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at.saturating_add(1));
            let (line, more) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            rest = more;
            if !self.skipping {
                reader.feed(line);
                self.skipping = reader.is_broken();
            }
            if self.skipping && line.ends_with(b"\n") && reader.totals().documents > 0 {
                reader.discard();
                self.skipping = false;
            }
        }
    }
}
