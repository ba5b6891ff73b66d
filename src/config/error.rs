//! What is wrong with a configuration, and where.

use core::fmt;

/// Most bytes of a pointer and of a reason: both can quote what an author wrote, and a message is one line of a log.
const MOST_BYTES: usize = 1_024;

/// A configuration that cannot mean what its author wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON pointer (RFC 6901) of the place; empty for the whole. At most 1 024 bytes, longer ones end with `...`.
    pub pointer: String,
    /// The reason and the value, e.g. `must be at least 1, got 0`. At most 1 024 bytes, longer ones end with `...`.
    pub reason: String,
}

impl ConfigError {
    /// An error at `pointer`.
    pub fn new(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { pointer: shortened(pointer.into()), reason: shortened(reason.into()) }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MOST_BYTES {
        let cut = (0..=MOST_BYTES.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str("...");
    }
    text
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
