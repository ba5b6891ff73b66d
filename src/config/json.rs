//! JSON as it was written: member order and repeated keys are kept, so that both can be judged.

use core::fmt;

use serde_core::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Longest string shown in a message, in characters.
const SHOWN_CHARS: usize = 64;

/// A JSON value. Nesting is bounded by the parser (128 levels).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value as a whole number, saturating; doubles without a fraction count, because protobuf knows only doubles.
    pub(crate) fn as_whole(&self) -> Option<i64> {
        let Self::Number(number) = self else { return None };
        if let Some(whole) = number.as_i64() {
            return Some(whole);
        }
        if number.is_u64() {
            return Some(i64::MAX);
        }
        let double = number.as_f64()?;
        (double.fract() == 0.0).then_some(double as i64)
    }

    /// Appends the value, until more than what a message shows is there.
    fn show(&self, out: &mut String) {
        if out.len() > SHOWN_CHARS.saturating_mul(4) {
            return;
        }
        let comma = |out: &mut String, index: usize| out.push_str(if index > 0 { "," } else { "" });
        match self {
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate().take(SHOWN_CHARS) {
                    comma(out, index);
                    item.show(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate().take(SHOWN_CHARS) {
                    comma(out, index);
                    out.push_str(&format!("{:?}:", name.chars().take(SHOWN_CHARS).collect::<String>()));
                    if is_secret(name) { out.push_str("(not shown)") } else { value.show(out) }
                }
                out.push('}');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }
}

/// A name under which something secret may stand.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "pass", "secret", "credential"].iter().any(|part| name.contains(part))
}

/// Short form for messages: as written, without blanks, and cut; what may be secret is left out.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => {
                let mut shown: String = value.chars().take(SHOWN_CHARS).collect();
                if shown.len() < value.len() {
                    shown.push('…');
                }
                write!(f, "{shown:?}")
            }
            Self::Array(_) | Self::Object(_) => {
                let mut shown = String::new();
                self.show(&mut shown);
                let cut: String = shown.chars().take(SHOWN_CHARS).collect();
                f.write_str(&cut)?;
                f.write_str(if cut.len() < shown.len() { "…" } else { "" })
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            members.push(entry);
        }
        Ok(Json::Object(members))
    }
}
