//! What pictures, sound and documents cost: never their length in base64.
//!
//! [`Reader`] takes the base64 as it streams by, decodes the head only, and tells what it is from its first bytes
//! and, for pictures, its size in pixels from the header. [`Item::llm_tokens`] applies the provider's formula. What
//! is only referred to (a URL, a file id) or cannot be read costs a bounded default. Nothing is fetched or copied.

mod base64;
mod header;
mod image;

use crate::cost::dialect::Dialect;
use base64::Decoder;
pub(super) use base64::looks_like as looks_like_base64;
pub use header::Format;
use header::Header;
pub use image::Detail;

/// Items remembered per body; further ones cost the default of a picture.
pub const ITEMS: usize = 256;

/// LLM tokens of something that is only referred to, or not recognised.
///
/// One page of a document costs about as much at Anthropic (1 600 to 2 500) as a picture at most providers.
pub const DEFAULT_LLM_TOKENS: u64 = 1_500;

/// One picture, sound or document in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// What its first bytes or its place say it is.
    pub format: Format,
    /// Width and height in pixels of a picture whose header was readable.
    pub pixels: Option<(u32, u32)>,
    /// Bytes after decoding; 0 when only referred to.
    pub bytes: u64,
    /// Bytes per second of uncompressed sound, when its header says so.
    pub bytes_per_second: Option<u32>,
    /// The resolution that the caller asks for.
    pub detail: Detail,
}

impl Item {
    /// Something that is only referred to.
    pub const fn referred(format: Format) -> Self {
        Self { format, pixels: None, bytes: 0, bytes_per_second: None, detail: Detail::Auto }
    }

    /// What it costs under a model. Always bounded, never 0.
    pub fn llm_tokens(&self, model: Option<&str>, shape: Dialect) -> u64 {
        match self.format {
            Format::Image => image::llm_tokens(self, model, shape),
            Format::Sound => self.sound(shape),
            Format::Document => self.document(shape),
            Format::Video | Format::Unknown => DEFAULT_LLM_TOKENS,
        }
    }

    /// By time: Gemini documents 32 a second, OpenAI bills about 10.
    fn sound(&self, shape: Dialect) -> u64 {
        if self.bytes == 0 {
            return DEFAULT_LLM_TOKENS;
        }
        let per_second = if shape == Dialect::Gemini { 32 } else { 10 };
        // Compressed speech is commonly 64 kbit/s.
        let rate = u64::from(self.bytes_per_second.unwrap_or(8_000).max(1));
        let seconds = self.bytes.saturating_add(rate / 2).checked_div(rate).unwrap_or_default().max(1);
        seconds.saturating_mul(per_second).min(40_000)
    }

    /// By page, taking 50 kB for one; at most the 100 pages that providers accept.
    fn document(&self, shape: Dialect) -> u64 {
        let per_page = match shape {
            Dialect::Gemini => 560,
            Dialect::Bedrock => 330,
            Dialect::Anthropic => 2_300,
            _ => DEFAULT_LLM_TOKENS,
        };
        self.bytes.div_ceil(50_000).clamp(1, 100).saturating_mul(per_page)
    }
}

/// Reads one item from base64 that arrives in parts.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    decoder: Decoder,
    header: Header,
    length: u64,
}

impl Reader {
    /// Takes the next part of the base64.
    pub fn feed(&mut self, part: &[u8]) {
        self.length = self.length.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        if !self.header.is_settled() {
            self.decoder.decode(part, &mut self.header);
        }
    }

    /// Bytes of base64 taken so far.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// What it is. `expected` is what its place says, for when its bytes do not.
    pub fn item(&self, expected: Format) -> Item {
        let seen = self.header.format();
        Item {
            format: if seen == Format::Unknown { expected } else { seen },
            pixels: self.header.pixels(),
            bytes: (self.length / 4).saturating_mul(3).max(1),
            bytes_per_second: self.header.bytes_per_second(),
            detail: Detail::Auto,
        }
    }
}

#[cfg(test)]
mod tests;
