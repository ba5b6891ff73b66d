//! The numbers a response states, and what they add up to.
//!
//! A stream repeats its numbers: cumulative, partial, sometimes null at the end. Each number is therefore kept as the
//! largest value seen, and nothing is ever added over events. Only within one event are sums made: over the
//! `iterations` of an Anthropic answer, and (at the end) over the choices of a server that counts each choice apart.

use super::Usage;

/// One stated number. Dialects differ in what a number includes, so each accounting has its own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Input with everything in it (OpenAI, Mistral, Cohere, Ollama, TGI).
    Prompt,
    /// Output (same dialects).
    Completion,
    /// Input plus output (same dialects).
    Total,
    /// Part of the input that was cached, where it is a part.
    Cached,
    /// Part of the input that was written to the cache, where it is a part.
    Written,
    /// Input beside the cache (Anthropic), or with everything in it (OpenAI responses: no cache fields beside it).
    Input,
    /// Output (same dialects).
    Output,
    /// Output named at the start of a stream, a placeholder.
    OutputAtStart,
    /// Cached input beside the rest (Anthropic).
    CacheRead,
    /// Cache-written input beside the rest (Anthropic).
    CacheCreation,
    /// Input over all iterations, cache included (Anthropic).
    IterationsInput,
    /// Output over all iterations (Anthropic).
    IterationsOutput,
    /// Input beside the cache (Bedrock).
    BedrockInput,
    /// Output (Bedrock).
    BedrockOutput,
    /// Everything (Bedrock).
    BedrockTotal,
    /// Cached input (Bedrock).
    BedrockRead,
    /// Cache-written input (Bedrock).
    BedrockWritten,
    /// Input, cached included (Gemini).
    GeminiPrompt,
    /// Input that tools added (Gemini).
    GeminiTool,
    /// Visible output (Gemini).
    GeminiCandidates,
    /// Reasoning, beside the visible output (Gemini).
    GeminiThoughts,
}

impl Field {
    const COUNT: usize = 21;
}

/// Larger numbers are nonsense: no model reads or writes that much in one call.
pub const LARGEST_USE: u64 = 1_000_000_000;

/// Stated numbers by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    values: [Option<u64>; Field::COUNT],
}

impl Stated {
    /// The largest value seen of `field`.
    pub(super) fn get(&self, field: Field) -> Option<u64> {
        self.values.get(field as usize).copied().flatten()
    }

    /// Keeps the larger of the known and the new value.
    pub(super) fn raise(&mut self, field: Field, value: u64) {
        if let Some(known) = self.values.get_mut(field as usize) {
            *known = (*known).max(Some(value));
        }
    }

    /// Adds to a field, for sums within one event.
    pub(super) fn add(&mut self, field: Field, value: u64) {
        if let Some(known) = self.values.get_mut(field as usize) {
            *known = Some(known.unwrap_or(0).saturating_add(value));
        }
    }

    /// Completes the numbers of one event: xAI leaves reasoning out of the completion, but not out of the total.
    pub(super) fn close_event(&mut self) {
        let (total, prompt) = (self.get(Field::Total), self.get(Field::Prompt));
        if let (Some(total), Some(prompt), Some(_)) = (total, prompt, self.get(Field::Completion)) {
            self.raise(Field::Completion, total.saturating_sub(prompt));
        }
    }

    /// Field by field the larger value.
    pub(super) fn merge(&mut self, other: &Self) {
        for (known, new) in self.values.iter_mut().zip(&other.values) {
            *known = (*known).max(*new);
        }
    }

    /// What the numbers say, `None` when they say nothing: nothing stated, or only zeros.
    ///
    /// `per_choice` is the sum of what was stated for single choices, `cache_inside` the accounting in which
    /// Bedrock's input has the cache in it already.
    pub(super) fn usage(&self, per_choice: u64, cache_inside: bool) -> Option<Usage> {
        let get = |field| self.get(field);
        let or_zero = |field| self.get(field).unwrap_or(0);
        let with = |base: Option<u64>, more: u64| base.map(|base| base.saturating_add(more));

        let anthropic_cache = or_zero(Field::CacheRead).saturating_add(or_zero(Field::CacheCreation));
        let gemini = with(get(Field::GeminiPrompt), or_zero(Field::GeminiTool));
        let input = get(Field::Prompt)
            .max(with(get(Field::Input), anthropic_cache))
            .max(get(Field::IterationsInput))
            .max(with(get(Field::BedrockInput), self.bedrock_cache(cache_inside)))
            .max(gemini)
            // A prompt is never empty: zero beside other numbers means that it was not counted.
            .filter(|input| *input > 0);

        let output = get(Field::Completion)
            .max(get(Field::Output))
            .max(get(Field::IterationsOutput))
            .max(get(Field::BedrockOutput))
            .max(with(get(Field::GeminiCandidates), or_zero(Field::GeminiThoughts)))
            .max(get(Field::GeminiThoughts))
            .max((per_choice > 0).then_some(per_choice));

        if input.is_none() && output.unwrap_or(0) == 0 && or_zero(Field::OutputAtStart) == 0 {
            return None;
        }
        let most = input.unwrap_or(u64::MAX);
        let read = or_zero(Field::Cached).max(or_zero(Field::CacheRead)).max(or_zero(Field::BedrockRead));
        let written =
            or_zero(Field::Written).max(or_zero(Field::CacheCreation)).max(or_zero(Field::BedrockWritten));
        let cached_input = read.min(most);
        let cache_write = written.min(most.saturating_sub(cached_input));
        Some(Usage { input, cached_input, cache_write, output })
    }

    /// What to add to Bedrock's input.
    ///
    /// Streams of the GPT family have the cache in the input already and count it twice in the total.
    fn bedrock_cache(&self, cache_inside: bool) -> u64 {
        let or_zero = |field| self.get(field).unwrap_or(0);
        let cache = or_zero(Field::BedrockRead).saturating_add(or_zero(Field::BedrockWritten));
        let (input, output) = (or_zero(Field::BedrockInput), or_zero(Field::BedrockOutput));
        let twice = input >= cache
            && or_zero(Field::BedrockTotal) == input.saturating_add(output).saturating_add(cache);
        if cache_inside && twice { 0 } else { cache }
    }
}

/// A JSON number as an amount; negative, absurd or unreadable: `None`. A fraction is rounded up.
pub(super) fn amount(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        let whole: u64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
        let up = fraction.iter().any(|digit| *digit != b'0');
        return Some(whole.saturating_add(u64::from(up))).filter(|amount| *amount <= LARGEST_USE);
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0.0..=1e9).contains(&number).then_some(number.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_every_notation() {
        for (text, expected) in [
            ("12", Some(12)),
            ("12.0", Some(12)),
            ("12.25", Some(13)),
            ("0", Some(0)),
            ("1e3", Some(1_000)),
            ("-5", None),
            ("-0.5", None),
            ("1e300", None),
            ("99999999999999999999999999", None),
            ("1000000001", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(amount(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_cached_part_above_the_input_is_cut_to_it() {
        let mut stated = Stated::default();
        stated.raise(Field::Prompt, 10_000);
        stated.raise(Field::Completion, 100);
        stated.raise(Field::Cached, 20_000);
        stated.raise(Field::Written, 7);
        let usage = stated.usage(0, false).unwrap();
        assert_eq!((usage.input, usage.cached_input, usage.cache_write), (Some(10_000), 10_000, 0));
    }

    fn numbers() -> impl Strategy<Value = Vec<(usize, u64)>> {
        proptest::collection::vec((0..Field::COUNT, any::<u64>()), 0..30)
    }

    fn of(numbers: &[(usize, u64)]) -> Stated {
        let mut stated = Stated::default();
        for (field, value) in numbers {
            stated.values[*field] = stated.values[*field].max(Some(*value));
        }
        stated
    }

    proptest! {
        #[test]
        fn merging_never_lowers_and_order_does_not_matter(a in numbers(), b in numbers()) {
            let (a, b) = (of(&a), of(&b));
            let (mut ab, mut ba) = (a, b);
            ab.merge(&b);
            ba.merge(&a);
            prop_assert_eq!(ab, ba);
            let mut again = ab;
            again.merge(&a);
            prop_assert_eq!(again, ab, "repeating an event changes nothing");
            if let (Some(part), Some(whole)) = (a.usage(0, false), ab.usage(0, false)) {
                prop_assert!(whole.input >= part.input && whole.output >= part.output);
                prop_assert!(whole.cached_input.saturating_add(whole.cache_write) <= whole.input.unwrap_or(u64::MAX));
            }
        }
    }
}
