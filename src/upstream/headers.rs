//! The limit headers of every provider, and the many names of Retry-After.
//!
//! Show all response headers of the upstream to [`ProviderHeaders::see`] (names in any case), then ask. Headers it
//! does not know cost one comparison.
//!
//! A provider may describe the same resource several times (minute, day, project): the tightest counts. What is told
//! is distrusted where it does not fit together: a negative limit or amount is nothing, and "nothing left" needs a
//! time at which something will be (some healthy answers say 0 for "unknown").

use crate::cost::usage::{LARGEST_USE, Usage};
use crate::units::{PerResource, Resource, Span, Timestamp};

use super::moment::{Unit, parse_wait};
use super::{Throttle, ThrottleKind};

/// What the provider says is left of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitHints {
    /// Amount that may still be used; `None` = not told.
    pub remaining: PerResource<Option<u64>>,
    /// Time until that limit is whole again; never zero.
    pub reset: PerResource<Option<Span>>,
}

impl LimitHints {
    /// True when nothing was told.
    pub fn is_empty(&self) -> bool {
        self.remaining == PerResource::default()
    }
}

/// One limit as one provider describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Requests,
    LlmTokens,
    ProjectLlmTokens,
    RequestsDay,
    LlmTokensMinute,
    RequestsMinute,
    RequestsSecond,
    LlmTokensMonth,
    BySize,
    BySizeMinute,
    AnthropicRequests,
    AnthropicLlmTokens,
    AnthropicInput,
    AnthropicOutput,
    FireworksInput,
    FireworksOutput,
    CohereTrial,
    Generic,
}

impl Family {
    const COUNT: usize = 18;

    const fn resource(self) -> Resource {
        match self {
            Self::Requests
            | Self::RequestsDay
            | Self::RequestsMinute
            | Self::RequestsSecond
            | Self::AnthropicRequests
            | Self::CohereTrial
            | Self::Generic => Resource::Requests,
            Self::LlmTokens
            | Self::ProjectLlmTokens
            | Self::LlmTokensMinute
            | Self::LlmTokensMonth
            | Self::BySize
            | Self::BySizeMinute
            | Self::AnthropicLlmTokens => Resource::LlmTokens,
            Self::AnthropicInput | Self::FireworksInput => Resource::InputLlmTokens,
            Self::AnthropicOutput | Self::FireworksOutput => Resource::OutputLlmTokens,
        }
    }

    /// The window, where the name of the header says it and no reset is sent.
    const fn window(self) -> Option<Span> {
        match self {
            Self::RequestsSecond => Some(Span::from_secs(1)),
            Self::RequestsMinute | Self::LlmTokensMinute | Self::BySizeMinute | Self::CohereTrial => {
                Some(Span::from_secs(60))
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Limit,
    Remaining,
    Reset,
}

/// Meaning of one header name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Limit(Family, Part),
    /// Rank (lower wins) and unit.
    RetryAfter(usize, Unit),
    StructuredLimit,
    Policy,
    ErrorType,
    InputUsed,
    OutputUsed,
    CacheRead,
    CacheWritten,
}

use Family as F;
use Meaning::{Limit, RetryAfter};
use Part::{Remaining, Reset};

/// All names that are understood, lower-case and sorted.
const NAMES: [(&str, Meaning); 54] = [
    ("anthropic-ratelimit-input-tokens-remaining", Limit(F::AnthropicInput, Remaining)),
    ("anthropic-ratelimit-input-tokens-reset", Limit(F::AnthropicInput, Reset)),
    ("anthropic-ratelimit-output-tokens-remaining", Limit(F::AnthropicOutput, Remaining)),
    ("anthropic-ratelimit-output-tokens-reset", Limit(F::AnthropicOutput, Reset)),
    ("anthropic-ratelimit-requests-remaining", Limit(F::AnthropicRequests, Remaining)),
    ("anthropic-ratelimit-requests-reset", Limit(F::AnthropicRequests, Reset)),
    ("anthropic-ratelimit-tokens-remaining", Limit(F::AnthropicLlmTokens, Remaining)),
    ("anthropic-ratelimit-tokens-reset", Limit(F::AnthropicLlmTokens, Reset)),
    ("ratelimit", Meaning::StructuredLimit),
    ("ratelimit-policy", Meaning::Policy),
    ("ratelimit-remaining", Limit(F::Generic, Remaining)),
    ("ratelimit-reset", Limit(F::Generic, Reset)),
    ("ratelimitbysize-limit", Limit(F::BySize, Part::Limit)),
    ("ratelimitbysize-remaining", Limit(F::BySize, Remaining)),
    ("ratelimitbysize-reset", Limit(F::BySize, Reset)),
    ("retry-after", RetryAfter(1, Unit::Seconds)),
    ("retry-after-ms", RetryAfter(0, Unit::Millis)),
    ("x-amz-retry-after", RetryAfter(3, Unit::Millis)),
    ("x-amzn-bedrock-cache-read-input-token-count", Meaning::CacheRead),
    ("x-amzn-bedrock-cache-write-input-token-count", Meaning::CacheWritten),
    ("x-amzn-bedrock-input-token-count", Meaning::InputUsed),
    ("x-amzn-bedrock-output-token-count", Meaning::OutputUsed),
    ("x-amzn-errortype", Meaning::ErrorType),
    ("x-generated-tokens", Meaning::OutputUsed),
    ("x-ms-retry-after-ms", RetryAfter(2, Unit::Millis)),
    ("x-prompt-tokens", Meaning::InputUsed),
    ("x-rate-limit-reset-requests", Limit(F::Requests, Reset)),
    ("x-rate-limit-reset-tokens", Limit(F::LlmTokens, Reset)),
    ("x-ratelimit-limit-project-tokens", Limit(F::ProjectLlmTokens, Part::Limit)),
    ("x-ratelimit-limit-requests", Limit(F::Requests, Part::Limit)),
    ("x-ratelimit-limit-tokens", Limit(F::LlmTokens, Part::Limit)),
    ("x-ratelimit-remaining", Limit(F::Generic, Remaining)),
    ("x-ratelimit-remaining-project-tokens", Limit(F::ProjectLlmTokens, Remaining)),
    ("x-ratelimit-remaining-req-minute", Limit(F::RequestsMinute, Remaining)),
    ("x-ratelimit-remaining-req-second", Limit(F::RequestsSecond, Remaining)),
    ("x-ratelimit-remaining-requests", Limit(F::Requests, Remaining)),
    ("x-ratelimit-remaining-requests-day", Limit(F::RequestsDay, Remaining)),
    ("x-ratelimit-remaining-requests-minute", Limit(F::RequestsMinute, Remaining)),
    ("x-ratelimit-remaining-tokens", Limit(F::LlmTokens, Remaining)),
    ("x-ratelimit-remaining-tokens-generated", Limit(F::FireworksOutput, Remaining)),
    ("x-ratelimit-remaining-tokens-minute", Limit(F::LlmTokensMinute, Remaining)),
    ("x-ratelimit-remaining-tokens-month", Limit(F::LlmTokensMonth, Remaining)),
    ("x-ratelimit-remaining-tokens-prompt", Limit(F::FireworksInput, Remaining)),
    ("x-ratelimit-reset", Limit(F::Generic, Reset)),
    ("x-ratelimit-reset-project-tokens", Limit(F::ProjectLlmTokens, Reset)),
    ("x-ratelimit-reset-requests", Limit(F::Requests, Reset)),
    ("x-ratelimit-reset-requests-day", Limit(F::RequestsDay, Reset)),
    ("x-ratelimit-reset-requests-minute", Limit(F::RequestsMinute, Reset)),
    ("x-ratelimit-reset-tokens", Limit(F::LlmTokens, Reset)),
    ("x-ratelimit-reset-tokens-minute", Limit(F::LlmTokensMinute, Reset)),
    ("x-ratelimitbysize-remaining-minute", Limit(F::BySizeMinute, Remaining)),
    ("x-ratelimitbysize-remaining-month", Limit(F::LlmTokensMonth, Remaining)),
    ("x-trial-endpoint-call-limit", Limit(F::CohereTrial, Part::Limit)),
    ("x-trial-endpoint-call-remaining", Limit(F::CohereTrial, Remaining)),
];

/// Longest name in `NAMES`.
const LONGEST_NAME: usize = 44;

/// Remaining amount and reset of one family.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    distrusted: bool,
    remaining: Option<u64>,
    reset: Option<Span>,
}

/// Collects what the headers of one upstream response say.
#[derive(Clone, Debug)]
pub struct ProviderHeaders {
    now: Timestamp,
    families: [Told; Family::COUNT],
    retry_after: [Option<Span>; 4],
    quota_exhausted: bool,
    input: Option<u64>,
    output: Option<u64>,
    cache_read: u64,
    cache_written: u64,
}

impl ProviderHeaders {
    /// A collector for a response that arrives at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            families: [Told::default(); Family::COUNT],
            retry_after: [None; 4],
            quota_exhausted: false,
            input: None,
            output: None,
            cache_read: 0,
            cache_written: 0,
        }
    }

    /// Names worth looking up, for hosts where reading the whole header map is dearer than single look-ups.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Takes note of one header of the upstream's response.
    pub fn see(&mut self, name: &[u8], value: &[u8]) {
        let Some(meaning) = meaning(name) else { return };
        match meaning {
            Limit(family, part) => self.limit(family, part, value),
            RetryAfter(rank, unit) => {
                let wait = parse_wait(value, unit, self.now).filter(|wait| *wait > Span::ZERO);
                if let Some(slot) = self.retry_after.get_mut(rank) {
                    *slot = (*slot).max(wait);
                }
            }
            Meaning::StructuredLimit => self.structured(value),
            Meaning::Policy => self.policy(value),
            Meaning::ErrorType => self.quota_exhausted |= value.starts_with(b"ServiceQuotaExceeded"),
            Meaning::InputUsed => self.input = self.input.max(used(value)),
            Meaning::OutputUsed => self.output = self.output.max(used(value)),
            Meaning::CacheRead => self.cache_read = self.cache_read.max(used(value).unwrap_or(0)),
            Meaning::CacheWritten => self.cache_written = self.cache_written.max(used(value).unwrap_or(0)),
        }
    }

    /// What is left of the limits.
    pub fn limits(&self) -> LimitHints {
        let mut hints = LimitHints::default();
        for (family, told) in FAMILIES.iter().zip(&self.families) {
            let Some(remaining) = told.remaining.filter(|_| !told.distrusted) else { continue };
            let reset = told.reset.filter(|reset| *reset > Span::ZERO).or(family.window());
            let tightest = hints.remaining.get_mut(family.resource());
            if (remaining == 0 && reset.is_none()) || tightest.is_some_and(|other| other <= remaining) {
                continue;
            }
            *tightest = Some(remaining);
            *hints.reset.get_mut(family.resource()) = reset;
        }
        hints
    }

    /// The refusal that `status` and the headers express; `None` when the status is no refusal.
    ///
    /// Without any Retry-After, the reset of an exhausted limit counts, the longest if there are several: all of them
    /// must have room. The error body may know more, see [`Throttle::refined_by`].
    pub fn throttle(&self, status: u16) -> Option<Throttle> {
        let kind = match status {
            429 if self.quota_exhausted => ThrottleKind::QuotaExhausted,
            429 => ThrottleKind::RateLimited,
            503 | 529 => ThrottleKind::Overloaded,
            _ => return None,
        };
        let asked = self.retry_after.iter().find_map(|wait| *wait);
        let exhausted = || {
            let empty = self.families.iter().filter(|told| told.remaining == Some(0) && !told.distrusted);
            empty.filter_map(|told| told.reset).max().filter(|reset| *reset > Span::ZERO)
        };
        Some(Throttle { retry_after: asked.or_else(exhausted), kind })
    }

    /// Usage stated in headers (Bedrock invoke, TGI).
    pub fn usage(&self) -> Option<Usage> {
        if self.input.unwrap_or(0) == 0 && self.output.unwrap_or(0) == 0 {
            return None;
        }
        let cache = self.cache_read.saturating_add(self.cache_written);
        Some(Usage {
            input: self.input.map(|input| input.saturating_add(cache)),
            cached_input: self.cache_read,
            cache_write: self.cache_written,
            output: self.output,
        })
    }

    fn limit(&mut self, family: Family, part: Part, value: &[u8]) {
        let now = self.now;
        let Some(told) = self.families.get_mut(family as usize) else { return };
        match part {
            Part::Limit => told.distrusted |= amount(value).is_none_or(|limit| limit == 0),
            // Of a header that is repeated the tighter value counts.
            Part::Remaining => {
                let least = [told.remaining, amount(value)].into_iter().flatten().min();
                told.remaining = least;
            }
            Part::Reset => told.reset = told.reset.max(parse_wait(value, Unit::Seconds, now)),
        }
    }

    /// `"burst";r=50;t=30, "daily";r=41200;t=20211` (IETF draft), or the earlier `limit=100, remaining=50, reset=30`.
    fn structured(&mut self, value: &[u8]) {
        let mut least: Option<(u64, Option<Span>)> = None;
        for item in value.split(|byte| *byte == b',') {
            let (mut remaining, mut reset) = (None, None);
            for parameter in item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
                if let Some(text) = parameter.strip_prefix(b"r=").or(parameter.strip_prefix(b"remaining=")) {
                    remaining = amount(text);
                } else if let Some(text) = parameter.strip_prefix(b"t=").or(parameter.strip_prefix(b"reset="))
                {
                    reset = parse_wait(text, Unit::Seconds, self.now);
                }
            }
            match (remaining, &mut least) {
                (Some(left), None) => least = Some((left, reset)),
                (Some(left), Some(known)) if left < known.0 => *known = (left, reset),
                (None, Some(known)) if known.1.is_none() => known.1 = reset,
                _ => {}
            }
        }
        if let (Some((left, reset)), Some(told)) = (least, self.families.get_mut(F::Generic as usize)) {
            told.remaining = Some(left);
            told.reset = reset.or(told.reset);
        }
    }

    /// `"burst";q=100;w=60, "size";q=65535;qu="content-bytes"` (IETF draft): units other than requests are not read.
    fn policy(&mut self, value: &[u8]) {
        let is_other =
            value.windows(5).any(|part| matches!(part, [b'q', b'u', b'=', b'"', unit] if *unit != b'r'));
        if let Some(told) = self.families.get_mut(F::Generic as usize) {
            told.distrusted |= is_other;
        }
    }
}

/// In the order of the enumeration.
const FAMILIES: [Family; Family::COUNT] = [
    F::Requests,
    F::LlmTokens,
    F::ProjectLlmTokens,
    F::RequestsDay,
    F::LlmTokensMinute,
    F::RequestsMinute,
    F::RequestsSecond,
    F::LlmTokensMonth,
    F::BySize,
    F::BySizeMinute,
    F::AnthropicRequests,
    F::AnthropicLlmTokens,
    F::AnthropicInput,
    F::AnthropicOutput,
    F::FireworksInput,
    F::FireworksOutput,
    F::CohereTrial,
    F::Generic,
];

/// A whole amount; a fraction is cut. Negative, empty or not a number: `None`.
fn amount(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let mut parts = text.split(|byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    let digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if whole.is_empty() || whole.len() > 19 || !digits || parts.next().is_some() {
        return None;
    }
    std::str::from_utf8(whole).ok()?.parse().ok()
}

/// An amount that one call may have used; absurd ones are nothing.
fn used(text: &[u8]) -> Option<u64> {
    amount(text).filter(|amount| *amount <= LARGEST_USE)
}

fn meaning(name: &[u8]) -> Option<Meaning> {
    if name.len() > LONGEST_NAME || !matches!(name.first()? | 0x20, b'a' | b'r' | b'x') {
        return None;
    }
    let mut lower = [0u8; LONGEST_NAME];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = NAMES.binary_search_by(|(known, _)| known.as_bytes().cmp(lower)).ok()?;
    NAMES.get(at).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
