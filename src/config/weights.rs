//! What each kind of LLM token counts, and the providers' own rules as presets.

use super::json::Json;
use super::range;
use super::reader::{Object, Reader};

/// What each kind of LLM token costs, in thousandths (1000 = counts once).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlmTokenWeights {
    /// The rule set of a provider that the configuration named, before what it wrote itself.
    pub preset: Option<&'static str>,
    /// Uncached input.
    pub input_milli: u32,
    /// Input read from the provider's prompt cache.
    pub cached_input_milli: u32,
    /// Input written to the provider's prompt cache.
    pub cache_write_milli: u32,
    /// Output, reasoning included.
    pub output_milli: u32,
}

impl LlmTokenWeights {
    /// Every LLM token counts once: the default, whatever the provider.
    pub const ONCE: Self = Self {
        preset: None,
        input_milli: 1_000,
        cached_input_milli: 1_000,
        cache_write_milli: 1_000,
        output_milli: 1_000,
    };
}

const fn preset(
    name: &'static str,
    cached_input_milli: u32,
    output_milli: u32,
) -> (&'static str, LlmTokenWeights) {
    let weights =
        LlmTokenWeights { preset: Some(name), cached_input_milli, output_milli, ..LlmTokenWeights::ONCE };
    (name, weights)
}

/// What the providers count against their own limits, by the name in `token_weights.preset`. Sources: their rate-limit
/// pages, listed in `docs/dialects.md`. All of them count reasoning as output and cache writes as input.
pub const PRESETS: [(&str, LlmTokenWeights); 9] = [
    preset("openai", 1_000, 1_000),
    preset("azure_openai", 1_000, 1_000),
    // Cache reads are free against input limits; output is counted as produced.
    preset("anthropic", 0, 1_000),
    // The per-minute limit is on input only.
    preset("gemini", 1_000, 0),
    // Cache reads are free; output burns down five-fold, of the largest models ten-fold and more.
    preset("bedrock", 0, 5_000),
    preset("groq", 0, 1_000),
    preset("mistral", 1_000, 1_000),
    preset("cohere", 1_000, 1_000),
    preset("ollama", 1_000, 1_000),
];

/// The `token_weights` of a pool: those of the preset, or 1, where it does not say its own.
pub(super) fn read(reader: &mut Reader, pool: &Object<'_>) -> Option<LlmTokenWeights> {
    let keys = ["input", "cached_input", "cache_write", "output", "preset"];
    let weights = reader.child(pool, "token_weights", &keys)?;
    let base = reader.word(&weights, "preset", &PRESETS).unwrap_or(LlmTokenWeights::ONCE);
    let mut milli = |key, otherwise| read_milli(reader, &weights, key).unwrap_or(otherwise);
    let read = LlmTokenWeights {
        input_milli: milli("input", base.input_milli),
        cached_input_milli: milli("cached_input", base.cached_input_milli),
        cache_write_milli: milli("cache_write", base.cache_write_milli),
        output_milli: milli("output", base.output_milli),
        ..base
    };
    if [read.input_milli, read.cached_input_milli, read.cache_write_milli, read.output_milli] == [0; 4] {
        let reason = "must not all be 0: nothing would ever count";
        match pool.get("token_weights") {
            Some(json) => reader.fail(weights.pointer(), format!("{reason}, got {json}")),
            None => reader.fail(weights.pointer(), reason),
        }
    }
    Some(read)
}

/// A factor from 0 to 1000 in thousandths, rounded to the nearest one.
fn read_milli(reader: &mut Reader, weights: &Object<'_>, key: &str) -> Option<u32> {
    let json = weights.get(key)?;
    let Json::Number(number) = json else {
        reader.fail(weights.at(key), format!("must be a number, got {json}"));
        return None;
    };
    let factor = number.as_f64().unwrap_or(f64::NAN);
    // Shown as an integer: the code that prints floats is 16 KiB that nothing else in the module needs.
    let most = range::MAX_LLM_TOKEN_WEIGHT;
    let reason = if factor > f64::from(most) {
        format!("must be at most {most}, got {json}")
    } else if factor < 0.0 || factor.is_nan() {
        format!("must be at least 0, got {json}")
    } else if factor > 0.0 && factor < 0.001 {
        format!("must be 0 or at least 0.001, got {json}")
    } else {
        return Some((factor * 1_000.0).round() as u32);
    };
    reader.fail(weights.at(key), reason);
    None
}
