//! What is wrong with a configuration, and where.

use core::fmt;

/// A configuration that cannot mean what its author wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON pointer (RFC 6901) of the place.
    pub pointer: String,
    /// The reason and the value, e.g. `must be at least 1, got 0`.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pointer, self.reason)
    }
}
