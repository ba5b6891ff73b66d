//! The first bytes of a string that arrives in parts.

/// Up to `N` bytes; what comes after is dropped.
pub(super) struct Start<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Start<N> {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Takes what fits of `part`; returns the rest.
    pub(super) fn fill<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let fits = part.len().min(room.len());
        for (place, byte) in room.iter_mut().zip(part) {
            *place = *byte;
        }
        self.len = self.len.saturating_add(fits);
        part.get(fits..).unwrap_or_default()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len == N
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The bytes as text; `None` when there are none.
    pub(super) fn text(&self) -> Option<String> {
        (self.len > 0).then(|| String::from_utf8_lossy(self.bytes()).into_owned())
    }
}
