//! What one kind of caller does.

/// Which API the calls use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// OpenAI chat completions.
    #[default]
    Chat,
    /// Anthropic messages.
    Messages,
    /// OpenAI embeddings.
    Embeddings,
}

/// A group of equal callers.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// `x-tenant`
    pub tenant: String,
    /// `x-priority`; empty: not sent.
    pub class: String,
    /// Entitlement for the fairness index.
    pub weight: f64,
    /// Callers of the closed loop.
    pub callers: u64,
    /// Calls a second of an open loop instead.
    pub rate: Option<f64>,
    /// Mean LLM tokens of a prompt.
    pub prompt: u64,
    /// Mean LLM tokens of an answer.
    pub output: u64,
    /// Declared cap; 0: none.
    pub max_tokens: u64,
    /// Share of streaming calls.
    pub stream: f64,
    /// Wait of a caller between its calls.
    pub think_ms: u64,
    /// When the flow starts.
    pub start_ms: u64,
    /// Extra `x-mock` directions.
    pub mock: String,
    /// See [`Api`].
    pub api: Api,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            tenant: "default".to_owned(),
            class: String::new(),
            weight: 1.0,
            callers: 1,
            rate: None,
            prompt: 100,
            output: 50,
            max_tokens: 0,
            stream: 0.0,
            think_ms: 0,
            start_ms: 0,
            mock: String::new(),
            api: Api::Chat,
        }
    }
}

impl Flow {
    /// Reads `tenant=acme,class=high,callers=30`; `;` separates inside `mock`.
    ///
    /// # Errors
    /// An unknown name or a value that does not read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut flow = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let set = pair.split_once('=').and_then(|(name, value)| flow.set(name, value));
            set.ok_or_else(|| format!("--flow: cannot use {pair:?}"))?;
        }
        Ok(flow)
    }

    /// `tenant/class`
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.tenant, if self.class.is_empty() { "-" } else { &self.class })
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "tenant" => self.tenant = value.to_owned(),
            "class" => self.class = value.to_owned(),
            "weight" => self.weight = value.parse().ok()?,
            "callers" => self.callers = value.parse().ok()?,
            "rate" => self.rate = Some(value.parse().ok()?),
            "prompt" => self.prompt = value.parse().ok()?,
            "output" => self.output = value.parse().ok()?,
            "max_tokens" => self.max_tokens = value.parse().ok()?,
            "stream" => self.stream = value.parse().ok()?,
            "think_ms" => self.think_ms = value.parse().ok()?,
            "start_ms" => self.start_ms = value.parse().ok()?,
            "mock" => self.mock = value.replace(';', ","),
            "api" => {
                self.api = match value {
                    "chat" => Api::Chat,
                    "messages" => Api::Messages,
                    "embeddings" => Api::Embeddings,
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
    fn a_flow_reads_from_pairs() {
        let flow =
            Flow::parse("tenant=acme,class=high,callers=3,stream=0.5,api=messages,mock=chunks=2;gzip=1")
                .unwrap();
        assert_eq!((flow.name().as_str(), flow.callers, flow.api), ("acme/high", 3, Api::Messages));
        assert_eq!(flow.mock, "chunks=2,gzip=1");
        assert!(Flow::parse("caller=3").is_err() && Flow::parse("callers=x").is_err());
    }
}
