//! What is wrong with a configuration, and where.

use core::fmt;

/// A configuration that cannot mean what its author wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON pointer (RFC 6901) of the place; empty for the whole.
    pub pointer: String,
    /// The reason and the value, e.g. `must be at least 1, got 0`.
    pub reason: String,
}

impl ConfigError {
    /// An error at `pointer`.
    pub fn new(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), reason: reason.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            write!(f, "configuration: {}", self.reason)
        } else {
            write!(f, "{}: {}", self.pointer, self.reason)
        }
    }
}

impl core::error::Error for ConfigError {}

/// `pointer` extended by one key, escaped as RFC 6901 section 3 says.
pub(crate) fn join(pointer: &str, key: &str) -> String {
    let mut joined = String::from(pointer);
    joined.push('/');
    for character in key.chars() {
        match character {
            '~' => joined.push_str("~0"),
            '/' => joined.push_str("~1"),
            other => joined.push(other),
        }
    }
    joined
}
