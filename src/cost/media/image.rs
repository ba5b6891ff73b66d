//! The providers' formulas for pictures.
//!
//! Sources: OpenAI's and Anthropic's vision guides, Gemini's page on counting, and litellm's
//! `token_counter.py`, which collects them per model.

use super::Item;
use crate::cost::dialect::Dialect;

/// The resolution a caller asks for; only OpenAI's formulas use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The provider's choice.
    #[default]
    Auto,
    /// A thumbnail.
    Low,
    /// Bounded.
    High,
    /// As large as it is.
    Original,
}

impl Detail {
    /// Reads the value of `detail`; unknown words are [`Detail::Auto`].
    pub fn of(word: &[u8]) -> Self {
        match word {
            b"low" => Self::Low,
            b"high" => Self::High,
            b"original" => Self::Original,
            _ => Self::Auto,
        }
    }
}

/// A picture of unknown size costs the formula's bound, but no more than this.
///
/// Large pictures are rare; assuming the largest for each URL would price a short question like a book.
const UNKNOWN_AT_MOST: u64 = 2_000;

enum Rule {
    /// Fit into 2048 px, then the shorter side into 768 px; a base plus so much per 512 px tile.
    Tiles { base: u64, tile: u64 },
    /// 32 px patches after the longer side is fitted; `milli` LLM tokens per thousand patches.
    Patches { milli: u64, auto: Fit, low: Fit, high: Fit, original: Fit },
    /// 28 px patches, both bounded.
    Claude { edge: u32, most: u64 },
    /// One tile when small, else 768 px tiles.
    Gemini,
    /// The same whatever its size.
    Flat(u64),
}

/// The longer side in pixels that a picture is shrunk to, and the most patches it is cut into.
type Fit = (u32, u64);

const THUMBNAIL: Fit = (512, 256);
const HIGH: Fit = (2_048, 2_500);
const FINE: Fit = (2_048, 6_144);
const LARGE: Fit = (6_000, 10_000);
/// litellm stops there; OpenAI names no bound.
const WHOLE: Fit = (65_535, 30_000);

/// Parts of model names, lower case, first match wins.
const RULES: &[(&str, Rule)] = &[
    ("gpt-4o-mini", Rule::Tiles { base: 2_833, tile: 5_667 }),
    ("gpt-4.1-mini", Rule::Patches { milli: 1_620, auto: FINE, low: FINE, high: FINE, original: FINE }),
    ("gpt-5.2", Rule::Patches { milli: 1_200, auto: FINE, low: FINE, high: FINE, original: FINE }),
    ("gpt-5.4", Rule::Patches { milli: 1_200, auto: HIGH, low: FINE, high: HIGH, original: LARGE }),
    ("gpt-5.5", Rule::Patches { milli: 1_200, auto: LARGE, low: THUMBNAIL, high: HIGH, original: LARGE }),
    ("gpt-5.6", Rule::Patches { milli: 1_200, auto: WHOLE, low: THUMBNAIL, high: HIGH, original: WHOLE }),
    ("gpt-6", Rule::Patches { milli: 1_200, auto: WHOLE, low: THUMBNAIL, high: HIGH, original: WHOLE }),
    ("gpt-5", Rule::Tiles { base: 70, tile: 140 }),
    ("o1", Rule::Tiles { base: 75, tile: 150 }),
    ("o3", Rule::Tiles { base: 75, tile: 150 }),
    ("claude-2", Rule::Claude { edge: 1_568, most: 1_568 }),
    ("claude-3", Rule::Claude { edge: 1_568, most: 1_568 }),
    ("haiku-4", Rule::Claude { edge: 1_568, most: 1_568 }),
    ("sonnet-4", Rule::Claude { edge: 1_568, most: 1_568 }),
    ("opus-4-7", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("opus-4-8", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("opus-4-9", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("opus-4.7", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("opus-4.8", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("opus-4.9", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("opus-4", Rule::Claude { edge: 1_568, most: 1_568 }),
    ("claude", Rule::Claude { edge: 2_576, most: 4_784 }),
    ("gemini-3", Rule::Flat(1_120)),
    ("gemini", Rule::Gemini),
];

const GPT_4O: Rule = Rule::Tiles { base: 85, tile: 170 };

fn rule(model: Option<&str>, shape: Dialect) -> &'static Rule {
    let named = model.and_then(|model| {
        let model = model.to_ascii_lowercase();
        let plain = model.rsplit('/').next().unwrap_or_default();
        // Two letters are too short to look for anywhere in a name.
        RULES.iter().find(
            |(part, _)| {
                if part.len() > 2 { model.contains(part) } else { plain.starts_with(part) }
            },
        )
    });
    match (named, shape) {
        (Some((_, rule)), _) => rule,
        (None, Dialect::Anthropic) => &Rule::Claude { edge: 2_576, most: 4_784 },
        (None, Dialect::Gemini) => &Rule::Gemini,
        (None, _) => &GPT_4O,
    }
}

/// What a picture costs. At least 1, at most about 60 000 (a thin strip at a small model).
pub(super) fn llm_tokens(item: &Item, model: Option<&str>, shape: Dialect) -> u64 {
    let rule = rule(model, shape);
    match item.pixels {
        Some((width, height)) => rule.sized(width.max(1), height.max(1), item.detail),
        None if item.detail == Detail::Low => rule.sized(1_024, 1_024, Detail::Low),
        None => rule.bound().min(UNKNOWN_AT_MOST),
    }
}

impl Rule {
    fn sized(&self, width: u32, height: u32, detail: Detail) -> u64 {
        match *self {
            Self::Tiles { base, .. } if detail == Detail::Low => base,
            Self::Tiles { base, tile } => {
                let (width, height) = fit_long(width, height, 2_048);
                let (width, height) = fit_short(width, height, 768);
                cells(width, height, 512).min(16).saturating_mul(tile).saturating_add(base)
            }
            Self::Patches { milli, auto, low, high, original } => {
                let (edge, most) = match detail {
                    Detail::Auto => auto,
                    Detail::Low => low,
                    Detail::High => high,
                    Detail::Original => original,
                };
                let (width, height) = fit_long(width, height, edge);
                cells(width, height, 32).min(most).saturating_mul(milli).div_ceil(1_000)
            }
            Self::Claude { edge, most } => {
                let (width, height) = fit_long(width, height, edge);
                cells(width, height, 28).min(most)
            }
            Self::Gemini if width <= 384 && height <= 384 => 258,
            Self::Gemini => cells(width, height, 768).min(16).saturating_mul(258),
            Self::Flat(cost) => cost,
        }
    }

    /// The most that a picture can cost.
    fn bound(&self) -> u64 {
        match *self {
            Self::Tiles { base, tile } => tile.saturating_mul(8).saturating_add(base),
            Self::Patches { milli, auto: (_, most), .. } => most.saturating_mul(milli).div_ceil(1_000),
            Self::Claude { most, .. } => most,
            Self::Gemini => 258 * 16,
            Self::Flat(cost) => cost,
        }
    }
}

fn cells(width: u32, height: u32, side: u32) -> u64 {
    u64::from(width.div_ceil(side)).saturating_mul(u64::from(height.div_ceil(side)))
}

fn scaled(side: u32, by: u32, over: u32) -> u32 {
    let side = u64::from(side).saturating_mul(u64::from(by)).checked_div(u64::from(over)).unwrap_or_default();
    u32::try_from(side).unwrap_or(u32::MAX).max(1)
}

/// Shrinks so that the longer side is at most `edge`.
fn fit_long(width: u32, height: u32, edge: u32) -> (u32, u32) {
    let long = width.max(height);
    if long <= edge { (width, height) } else { (scaled(width, edge, long), scaled(height, edge, long)) }
}

/// Shrinks so that the shorter side is at most `edge`.
fn fit_short(width: u32, height: u32, edge: u32) -> (u32, u32) {
    let short = width.min(height);
    if short <= edge { (width, height) } else { (scaled(width, edge, short), scaled(height, edge, short)) }
}
