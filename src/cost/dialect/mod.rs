//! The provider APIs: paths, model, text, output caps, stream flag, usage, limit headers, error bodies.

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
