//! Globs with `*` only.

/// A pattern in which `*` stands for any run of characters, also none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// Lower-cased when compared without case.
    pattern: String,
    ignore_case: bool,
}
