//! Command lines: `--name value` pairs and bare `--name` switches.

use std::str::FromStr;

/// Flags of one program run, in the order given.
#[derive(Debug, Default)]
pub struct Args {
    pairs: Vec<(String, Option<String>)>,
}

impl Args {
    /// Reads `--name value` and `--name` from the process arguments.
    ///
    /// # Errors
    /// An argument that does not start with `--` where a name is due.
    pub fn from_env() -> Result<Self, String> {
        Self::parse(std::env::args().skip(1))
    }

    /// Reads `--name value` and `--name` from any list of words.
    ///
    /// # Errors
    /// A word that does not start with `--` where a name is due.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut pairs = Vec::new();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                return Err(format!("expected a flag, got {word:?}"));
            };
            let value = words.next_if(|next| !next.starts_with("--"));
            pairs.push((name.to_owned(), value));
        }
        Ok(Self { pairs })
    }

    /// True when the flag is there, with or without a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    /// All values of a flag that may repeat.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(key, _)| key == name).filter_map(|(_, value)| value.as_deref())
    }

    /// The last value of a flag.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let named = self.pairs.iter().rev().find(|(key, value)| key == name && value.is_some());
        named.and_then(|(_, value)| value.as_deref())
    }

    /// The last value of a flag, read as `T`.
    ///
    /// # Errors
    /// The value does not read as a `T`.
    pub fn value<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| format!("--{name}: cannot read {text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_with_and_without_values() {
        let words = ["--port", "80", "--fast", "--flow", "a=1", "--flow", "b=2"].map(str::to_owned);
        let args = Args::parse(words).unwrap();
        assert_eq!(args.value::<u16>("port").unwrap(), Some(80));
        assert!(args.has("fast") && !args.has("slow"));
        assert_eq!(args.all("flow").collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert!(args.value::<u16>("flow").is_err());
    }
}
