//! Typed reading of a JSON tree: every mistake becomes a [`ConfigError`] with its place, and reading goes on.

use core::ops::RangeInclusive;

use super::error::{ConfigError, join};
use super::json::{Json, is_secret};
use super::range::MAX_TEXT_BYTES;
use super::suggest::nearest;
use crate::sorted::sorted;

/// Most errors kept; what follows from a broken file is noise.
const MAX_ERRORS: usize = 100;

/// Stands for a value that may be secret.
const HIDDEN: &str = "(not shown)";

/// Collects the errors of one configuration.
#[derive(Default)]
pub(crate) struct Reader {
    errors: Vec<ConfigError>,
}

/// An object whose keys are known to be allowed and single.
pub(crate) struct Object<'a> {
    pointer: String,
    members: &'a [(String, Json)],
}

impl<'a> Object<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Json> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn at(&self, key: &str) -> String {
        join(&self.pointer, key)
    }

    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Members with their pointers, in the order written.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Json, String)> + '_ {
        self.members.iter().map(|(name, value)| (name.as_str(), value, self.at(name)))
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }
}

impl Reader {
    pub(crate) fn fail(&mut self, pointer: impl Into<String>, reason: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(ConfigError::new(pointer, reason));
        }
    }

    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        self.errors
    }

    /// An object with any keys, each at most once.
    pub(crate) fn map<'a>(&mut self, pointer: String, json: &'a Json) -> Option<Object<'a>> {
        let Json::Object(members) = json else {
            self.fail(pointer, format!("must be an object, got {json}"));
            return None;
        };
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        let names = sorted(names, |a, b| a.cmp(b));
        let mut repeated: Vec<&str> =
            names.iter().zip(names.iter().skip(1)).filter(|(a, b)| a == b).map(|(a, _)| *a).collect();
        repeated.dedup();
        for name in repeated {
            let last = members.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value);
            let reason = "key is written more than once";
            match last.filter(|_| !is_secret(name)) {
                Some(value) => self.fail(join(&pointer, name), format!("{reason}, got {value}")),
                None => self.fail(join(&pointer, name), format!("{reason}, got {HIDDEN}")),
            }
        }
        Some(Object { pointer, members })
    }

    /// An object with only these keys.
    pub(crate) fn object<'a>(
        &mut self,
        pointer: String,
        json: &'a Json,
        known: &[&str],
    ) -> Option<Object<'a>> {
        let object = self.map(pointer, json)?;
        for (name, value, at) in object.entries().filter(|(name, ..)| !known.contains(name)) {
            let hint = match nearest(name, known.iter().copied()) {
                Some(meant) => format!(", did you mean {meant:?}?"),
                None => format!(", known are {}", known.join(", ")),
            };
            if is_secret(name) {
                self.fail(at, format!("unknown key{hint} (value {HIDDEN})"));
            } else {
                self.fail(at, format!("unknown key{hint} (value {value})"));
            }
        }
        Some(object)
    }

    /// The optional object under `key`, with only these keys.
    pub(crate) fn child<'a>(&mut self, parent: &Object<'a>, key: &str, known: &[&str]) -> Option<Object<'a>> {
        let json = parent.get(key)?;
        self.object(parent.at(key), json, known)
    }

    pub(crate) fn array<'a>(&mut self, parent: &Object<'a>, key: &str) -> Option<&'a [Json]> {
        match parent.get(key)? {
            Json::Array(items) => Some(items),
            other => {
                self.fail(parent.at(key), format!("must be an array, got {other}"));
                None
            }
        }
    }

    pub(crate) fn boolean(&mut self, parent: &Object<'_>, key: &str) -> Option<bool> {
        match parent.get(key)? {
            Json::Bool(value) => Some(*value),
            other => {
                self.fail(parent.at(key), format!("must be true or false, got {other}"));
                None
            }
        }
    }

    /// A whole number in `range`, also when it is written as a double.
    pub(crate) fn whole(
        &mut self,
        parent: &Object<'_>,
        key: &str,
        range: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let json = parent.get(key)?;
        let reason = match (json, json.as_whole()) {
            (Json::Number(_), None) => format!("must be a whole number, got {json}"),
            (_, None) => format!("must be a number, got {json}"),
            (_, Some(value)) => match u64::try_from(value) {
                Ok(value) if range.contains(&value) => return Some(value),
                Ok(value) if value > *range.end() => format!("must be at most {}, got {json}", range.end()),
                _ => format!("must be at least {}, got {json}", range.start()),
            },
        };
        self.fail(parent.at(key), reason);
        None
    }

    /// The same, for ranges that end below 2^32.
    pub(crate) fn whole32(
        &mut self,
        parent: &Object<'_>,
        key: &str,
        range: &RangeInclusive<u64>,
    ) -> Option<u32> {
        self.whole(parent, key, range).and_then(|value| u32::try_from(value).ok())
    }

    pub(crate) fn string<'a>(&mut self, parent: &Object<'a>, key: &str) -> Option<&'a str> {
        let json = parent.get(key)?;
        self.text(parent.at(key), json)
    }

    /// A string that is not empty, not too long, and has no blanks at its ends and no control characters.
    pub(crate) fn text<'a>(&mut self, pointer: String, json: &'a Json) -> Option<&'a str> {
        let Json::Text(text) = json else {
            self.fail(pointer, format!("must be a string, got {json}"));
            return None;
        };
        match flaw_of_text(text) {
            Some(flaw) => {
                self.fail(pointer, format!("{flaw}, got {json}"));
                None
            }
            None => Some(text),
        }
    }

    /// One of a fixed set of words.
    pub(crate) fn word<T: Copy>(&mut self, parent: &Object<'_>, key: &str, words: &[(&str, T)]) -> Option<T> {
        let json = parent.get(key)?;
        if let Json::Text(text) = json
            && let Some((_, value)) = words.iter().find(|(word, _)| word == text)
        {
            return Some(*value);
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let hint = match json {
            Json::Text(text) => nearest(text, names.iter().copied()),
            _ => None,
        };
        let hint = hint.map(|meant| format!(", did you mean {meant:?}?")).unwrap_or_default();
        self.fail(parent.at(key), format!("must be one of {}, got {json}{hint}", names.join(", ")));
        None
    }
}

/// What keeps a text from being a usable name.
pub(crate) fn flaw_of_text(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        Some("must not be empty".to_owned())
    } else if text.trim().len() != text.len() {
        Some("must not begin or end with blanks".to_owned())
    } else if text.len() > MAX_TEXT_BYTES {
        Some(format!("must have at most {MAX_TEXT_BYTES} bytes"))
    } else if text.chars().any(char::is_control) {
        Some("must not hold control characters".to_owned())
    } else {
        None
    }
}
