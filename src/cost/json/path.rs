//! Where in the document the scanner is, for the top levels.

use super::Container;

/// Levels whose names are kept; below, only the depth is known.
pub const PATH_LEVELS: usize = 10;

/// Bytes of a name that are kept; a longer name equals nothing.
pub const KEY_BYTES: usize = 40;

#[derive(Clone, Copy, Debug)]
struct Level {
    container: Container,
    /// Length of the name; above [`KEY_BYTES`] = too long to be one that is known.
    len: usize,
    key: [u8; KEY_BYTES],
    /// The next part of a name starts a new name.
    fresh: bool,
}

const EMPTY: Level = Level { container: Container::Array, len: 0, key: [0; KEY_BYTES], fresh: true };

/// The names and containers from the root to the value at hand.
///
/// Its owner forwards `begin`, `end` and `key` of [`super::Visitor`] to it: `begin` after looking at the path (the
/// path then is that of the container), `end` before looking.
#[derive(Clone, Debug)]
pub struct Path {
    levels: [Level; PATH_LEVELS],
    depth: usize,
}

impl Default for Path {
    fn default() -> Self {
        Self::new()
    }
}

// Asked several times for each value of a document, so inlined in spite of the module's low threshold: a body of many short
// strings is read in two thirds of the time.
impl Path {
    /// The path of the root.
    pub const fn new() -> Self {
        Self { levels: [EMPTY; PATH_LEVELS], depth: 0 }
    }

    /// Open containers around the value at hand.
    #[inline]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// A container opens at the present path.
    pub fn begin(&mut self, container: Container) {
        if let Some(level) = self.levels.get_mut(self.depth) {
            level.container = container;
            level.len = 0;
            level.fresh = true;
        }
        self.depth = self.depth.saturating_add(1);
    }

    /// The innermost container closes.
    pub const fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// A part of a name in the innermost container.
    pub fn key(&mut self, part: &[u8], last: bool) {
        let Some(level) = self.levels.get_mut(self.depth.wrapping_sub(1)) else { return };
        if level.fresh {
            level.len = 0;
        }
        level.fresh = last;
        let room = level.key.get_mut(level.len..).unwrap_or_default();
        for (place, byte) in room.iter_mut().zip(part) {
            *place = *byte;
        }
        level.len = level.len.saturating_add(part.len());
    }

    /// The name at `level` (0 = members of the root); `None` for array elements, too long names and unknown levels.
    #[inline]
    pub fn name(&self, level: usize) -> Option<&[u8]> {
        let found = self.levels.get(level)?;
        if level >= self.depth || found.container == Container::Array {
            return None;
        }
        found.key.get(..found.len)
    }

    /// The name of the value at hand.
    #[inline]
    pub fn last_name(&self) -> Option<&[u8]> {
        self.name(self.depth.checked_sub(1)?)
    }

    /// The container at `level` (0 = the root).
    #[inline]
    pub fn container(&self, level: usize) -> Option<Container> {
        (level < self.depth).then(|| self.levels.get(level).map(|found| found.container))?
    }

    /// The value at hand is exactly there; `"*"` stands for an element of an array.
    #[inline]
    pub fn is(&self, names: &[&str]) -> bool {
        self.depth == names.len() && self.starts_with(names)
    }

    /// The value at hand is there or below.
    pub fn starts_with(&self, names: &[&str]) -> bool {
        self.depth >= names.len()
            && names.iter().enumerate().all(|(level, name)| match self.name(level) {
                Some(found) => found == name.as_bytes(),
                None => *name == "*" && self.container(level) == Some(Container::Array),
            })
    }
}
