//! Usage that Envoy's own reader of LLM answers (the `ai_protocol_manager` filter), or a filter in its place, published.
//!
//! It comes as dynamic metadata at the clean end of a response, so an answer is read all the same: nobody knows before
//! whether it will come, a stream that is cut publishes nothing, and errors inside a stream are not part of it.

use super::Usage;
use super::stated::LARGEST_USE;

/// Namespace of the metadata, Envoy's default.
const NAMESPACE: &str = "envoy.ai.token_usage";

/// Reads the usage through the host's attributes; `None` when none was published or it is all zero.
pub fn published(read: &mut dyn FnMut(&[&str]) -> Option<Vec<u8>>) -> Option<Usage> {
    // Envoy writes the typed record. Filters that cannot (Lua, header-to-metadata) write a plain one with the same names.
    let typed = number(true, read(&["metadata", "typed_filter_metadata", NAMESPACE, "input_tokens"]));
    let form = if typed.is_some() { "typed_filter_metadata" } else { "filter_metadata" };
    let mut amount =
        |path: &[&str]| number(typed.is_some(), read(&[&["metadata", form, NAMESPACE], path].concat()));
    let input = typed.or_else(|| amount(&["input_tokens"]))?;
    let output = amount(&["output_tokens"]);
    if input == 0 && output.unwrap_or(0) == 0 {
        return None;
    }
    let mut part = |name| amount(&["input_token_details", name]).unwrap_or(0).min(input);
    let (cached_input, cache_write) = (part("cached_tokens"), part("cache_creation_tokens"));
    Some(Usage { input: Some(input), cached_input, cache_write, output })
}

/// A number as the host gives it: unsigned from the typed record, floating-point from the plain one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn number(typed: bool, bytes: Option<Vec<u8>>) -> Option<u64> {
    let bytes: [u8; 8] = bytes?.try_into().ok()?;
    if typed {
        return Some(u64::from_le_bytes(bytes)).filter(|value| *value <= LARGEST_USE);
    }
    let value = f64::from_le_bytes(bytes);
    (0.0..=1e9).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(form: &str, values: &[(&str, [u8; 8])]) -> Option<Usage> {
        published(&mut |path| {
            let [metadata, found, namespace, rest @ ..] = path else { return None };
            assert_eq!((*metadata, *namespace), ("metadata", NAMESPACE));
            let name = rest.join(".");
            (*found == form)
                .then(|| values.iter().find(|(known, _)| *known == name))?
                .map(|(_, value)| value.to_vec())
        })
    }

    #[test]
    fn the_typed_record_and_the_plain_one_say_the_same() {
        let names = ["input_tokens", "output_tokens", "input_token_details.cached_tokens"];
        let typed = [120_u64, 7, 100].map(u64::to_le_bytes);
        let plain = [120_f64, 7.0, 100.0].map(f64::to_le_bytes);
        let usage = Usage { input: Some(120), cached_input: 100, cache_write: 0, output: Some(7) };
        for (form, values) in [("typed_filter_metadata", typed), ("filter_metadata", plain)] {
            let pairs: Vec<_> = names.into_iter().zip(values).collect();
            assert_eq!(told(form, &pairs), Some(usage), "{form}");
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        assert_eq!(told("filter_metadata", &[]), None);
        for value in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(told("filter_metadata", &[("input_tokens", value.to_le_bytes())]), None, "{value}");
        }
        let zero = 0_u64.to_le_bytes();
        assert_eq!(told("typed_filter_metadata", &[("input_tokens", zero), ("output_tokens", zero)]), None);
        assert_eq!(told("typed_filter_metadata", &[("input_tokens", u64::MAX.to_le_bytes())]), None);
    }
}
