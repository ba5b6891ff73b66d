//! How one call is answered: `name=value` pairs from the `x-mock` header, over the server's defaults.

use std::time::Duration;

/// What the answer says about usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageStyle {
    /// As the real API does: streams of chat completions only when asked for.
    #[default]
    Normal,
    /// In streams too, asked for or not.
    Always,
    /// Not at all.
    Omit,
    /// `"usage": null`.
    Null,
    /// All amounts 0.
    Zero,
}

/// Directions for one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behave {
    /// Answer with this status and an error body.
    pub status: Option<u16>,
    /// `retry-after` of that error, as given.
    pub retry_after: Option<String>,
    /// Wait before the response headers.
    pub delay: Duration,
    /// Number of content events of a stream; 8 when unset.
    pub chunks: Option<u64>,
    /// Wait between them.
    pub chunk_interval: Duration,
    /// Output LLM tokens, instead of the amount derived from the body.
    pub output: Option<u64>,
    /// See [`UsageStyle`].
    pub usage: UsageStyle,
    /// Stop sending for ever after this many events.
    pub stall_after: Option<u64>,
    /// Reset the connection after this many events.
    pub reset_after: Option<u64>,
    /// Compress the answer, asked for or not.
    pub gzip: bool,
    /// End with HTTP trailers.
    pub trailers: bool,
    /// Answer with bytes that are no JSON.
    pub garbage: bool,
    /// Add the provider's limit headers.
    pub limit_headers: bool,
}

impl Behave {
    /// These directions with the pairs of `text` (`delay_ms=100,usage=omit`) over them.
    ///
    /// # Errors
    /// An unknown name or a value that does not read.
    pub fn with(&self, text: &str) -> Result<Self, String> {
        let mut out = self.clone();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "1"));
            out.set(name, value).ok_or_else(|| format!("x-mock: cannot use {pair:?}"))?;
        }
        Ok(out)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u64>().ok();
        match name {
            "status" => self.status = Some(value.parse().ok()?),
            "retry_after" => self.retry_after = Some(value.to_owned()),
            "delay_ms" => self.delay = Duration::from_millis(number()?),
            "chunks" => self.chunks = Some(number()?),
            "chunk_ms" => self.chunk_interval = Duration::from_millis(number()?),
            "output" => self.output = Some(number()?),
            "stall_after" => self.stall_after = Some(number()?),
            "reset_after" => self.reset_after = Some(number()?),
            "gzip" => self.gzip = number()? > 0,
            "trailers" => self.trailers = number()? > 0,
            "garbage" => self.garbage = number()? > 0,
            "limit_headers" => self.limit_headers = number()? > 0,
            "usage" => {
                self.usage = match value {
                    "normal" => UsageStyle::Normal,
                    "always" => UsageStyle::Always,
                    "omit" => UsageStyle::Omit,
                    "null" => UsageStyle::Null,
                    "zero" => UsageStyle::Zero,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_overrides_the_defaults() {
        let defaults = Behave::default().with("delay_ms=5, chunks=2").unwrap();
        let call = defaults.with("chunks=9,usage=null,gzip").unwrap();
        assert_eq!((call.delay, call.chunks), (Duration::from_millis(5), Some(9)));
        assert_eq!((call.usage, call.gzip), (UsageStyle::Null, true));
        assert!(defaults.with("chunk=1").is_err() && defaults.with("usage=some").is_err());
    }
}
