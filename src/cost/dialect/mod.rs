//! The provider APIs: paths, model, text, output caps, stream flag, error bodies.
//!
//! [`classify`] tells from the path alone which API a call speaks, because the body may never be seen and header
//! phases come first. Each dialect is one file and one row of [`ROWS`]; the same table for people is
//! `docs/dialects.md`. Where two dialects share a path (Mistral and many others serve `/v1/chat/completions`) the
//! path means OpenAI unless the pool names its provider.

mod anthropic;
mod azure;
mod bedrock;
mod cohere;
mod gemini;
mod mistral;
mod ollama;
mod openai;
mod place;

use place::Place;

/// An API family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI and everything compatible with it (vLLM, SGLang, Groq, ...).
    OpenAi,
    /// OpenAI behind Azure deployments.
    AzureOpenAi,
    /// Anthropic messages.
    Anthropic,
    /// Gemini and Vertex.
    Gemini,
    /// Bedrock invoke and converse.
    Bedrock,
    /// Mistral.
    Mistral,
    /// Cohere v2.
    Cohere,
    /// Ollama native.
    Ollama,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An answer to a conversation.
    Chat,
    /// A continuation of a prompt; several prompts in one call are possible.
    Completions,
    /// OpenAI's responses API.
    Responses,
    /// Vectors; no output is generated.
    Embeddings,
    /// Pictures; counted as requests.
    Images,
    /// Speech or transcription; counted as requests.
    Audio,
    /// Bedrock's `invoke`: the body is the model vendor's own.
    Invoke,
}

impl Operation {
    /// The answer is text whose LLM tokens count as output.
    pub const fn generates_output(self) -> bool {
        matches!(self, Self::Chat | Self::Completions | Self::Responses | Self::Invoke)
    }

    /// A call reserves a request and no LLM tokens: what pictures and sound take shows in the usage, if at all.
    pub const fn counts_by_request(self) -> bool {
        matches!(self, Self::Images | Self::Audio)
    }
}

/// What the path of a metered call tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The dialect of usage, limit headers and error bodies: the configured one, else that of the path.
    pub dialect: Dialect,
    /// The dialect whose request body this path takes; differs from `dialect` on compatibility paths.
    pub shape: Dialect,
    /// What is asked for.
    pub operation: Operation,
    /// The model in the path, percent-decoded once; a body that names one overrides it.
    pub path_model: Option<String>,
    /// Whether the answer streams, when the path alone decides that.
    pub path_streams: Option<bool>,
}

impl Endpoint {
    /// The body may ask for usage in a stream with `stream_options`; others refuse members they do not know.
    pub const fn takes_stream_options(&self) -> bool {
        matches!(self.shape, Dialect::OpenAi | Dialect::AzureOpenAi)
            && matches!(self.operation, Operation::Chat | Operation::Completions)
    }
}

/// A place in a body: member names from the root.
pub(super) type Names = &'static [&'static str];

/// What one dialect looks like in a request.
pub(super) struct Row {
    /// Whose row it is.
    pub(super) dialect: Dialect,
    /// Finds the operation in a path.
    find: fn(&Place<'_>) -> Option<Found>,
    /// Where prose stands: the strings below count, names and ids do not.
    pub(super) prose: &'static [Names],
    /// Where JSON stands that the model is shown as such: names, numbers and brackets count too.
    pub(super) json: &'static [Names],
    /// Where output caps stand; the largest one counts.
    pub(super) caps: &'static [Names],
    /// Where the number of answers stands; the largest one counts.
    pub(super) copies: &'static [Names],
    /// Streams unless the body says `"stream": false`.
    pub(super) streams_by_default: bool,
}

/// What a row found in a path.
struct Found {
    operation: Operation,
    model: Option<String>,
    streams: Option<bool>,
}

impl Found {
    /// Model and stream flag are in the body.
    const fn body(operation: Operation) -> Option<Self> {
        Some(Self { operation, model: None, streams: None })
    }
}

/// Every dialect, the more particular paths first.
static ROWS: [&Row; 8] = [
    &azure::ROW,
    &bedrock::ROW,
    &gemini::ROW,
    &anthropic::ROW,
    &cohere::ROW,
    &ollama::ROW,
    &mistral::ROW,
    &openai::ROW,
];

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 8] = [
        Self::OpenAi,
        Self::AzureOpenAi,
        Self::Anthropic,
        Self::Gemini,
        Self::Bedrock,
        Self::Mistral,
        Self::Cohere,
        Self::Ollama,
    ];

    /// Name in the configuration and on the status page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::AzureOpenAi => "azure_openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Mistral => "mistral",
            Self::Cohere => "cohere",
            Self::Ollama => "ollama",
        }
    }

    /// The row of this dialect.
    pub(super) const fn row(self) -> &'static Row {
        match self {
            Self::OpenAi => &openai::ROW,
            Self::AzureOpenAi => &azure::ROW,
            Self::Anthropic => &anthropic::ROW,
            Self::Gemini => &gemini::ROW,
            Self::Bedrock => &bedrock::ROW,
            Self::Mistral => &mistral::ROW,
            Self::Cohere => &cohere::ROW,
            Self::Ollama => &ollama::ROW,
        }
    }
}

/// Which API a POST to `path` speaks; `None` when it is not metered (model lists, token counting, moderation,
/// batches, anything unknown).
///
/// `path` may carry a query and any prefix (gateways mount these APIs anywhere). `fixed` is the provider that the
/// pool names; it decides [`Endpoint::dialect`], the path still decides the rest.
pub fn classify(path: &[u8], fixed: Option<Dialect>) -> Option<Endpoint> {
    find(&Place::new(path), fixed).or_else(|| find(&Place::new(&place::plain(path)?), fixed))
}

fn find(place: &Place<'_>, fixed: Option<Dialect>) -> Option<Endpoint> {
    ROWS.iter().find_map(|row| {
        let found = (row.find)(place)?;
        Some(Endpoint {
            dialect: fixed.unwrap_or(row.dialect),
            shape: row.dialect,
            operation: found.operation,
            path_model: found.model.filter(|model| !model.is_empty()),
            path_streams: found.streams,
        })
    })
}

#[cfg(test)]
mod tests;
