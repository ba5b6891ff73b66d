//! What is answered where; answers in the shapes of the OpenAI and Anthropic APIs.

use super::behave::UsageStyle;
use super::others;
use serde_json::{Value, json};

/// The endpoints the mock knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/chat/completions`
    Chat,
    /// `/completions`
    Completions,
    /// `/responses`
    Responses,
    /// `/embeddings`
    Embeddings,
    /// `/messages` of Anthropic
    Messages,
    /// `:generateContent`, or `:streamGenerateContent`
    Gemini {
        /// Said by the path.
        stream: bool,
    },
    /// `/v2/chat` of Cohere
    Cohere,
    /// `/api/chat` or `/api/generate` of Ollama
    Ollama {
        /// The former.
        chat: bool,
    },
    /// `/converse` or `/converse-stream` of Bedrock
    Bedrock {
        /// The latter.
        stream: bool,
    },
}

impl Endpoint {
    /// By the end of the path, whatever is mounted in front.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let table = [
            ("/chat/completions", Self::Chat),
            ("/completions", Self::Completions),
            ("/responses", Self::Responses),
            ("/embeddings", Self::Embeddings),
            ("/messages", Self::Messages),
            (":generateContent", Self::Gemini { stream: false }),
            (":streamGenerateContent", Self::Gemini { stream: true }),
            ("/v2/chat", Self::Cohere),
            ("/api/chat", Self::Ollama { chat: true }),
            ("/api/generate", Self::Ollama { chat: false }),
            ("/converse", Self::Bedrock { stream: false }),
            ("/converse-stream", Self::Bedrock { stream: true }),
        ];
        table.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, endpoint)| endpoint)
    }

    /// Whether a call to this endpoint streams; `asked`: its body's `stream`.
    #[must_use]
    pub fn streams(self, asked: Option<bool>) -> bool {
        match self {
            Self::Embeddings => false,
            Self::Gemini { stream } | Self::Bedrock { stream } => stream,
            Self::Ollama { .. } => asked.unwrap_or(true),
            _ => asked.unwrap_or(false),
        }
    }

    /// Content type of its streams.
    #[must_use]
    pub fn stream_type(self) -> &'static str {
        match self {
            Self::Ollama { .. } => "application/x-ndjson",
            Self::Bedrock { .. } => "application/vnd.amazon.eventstream",
            _ => "text/event-stream; charset=utf-8",
        }
    }
}

/// One answer to be written.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Shape.
    pub endpoint: Endpoint,
    /// Model as asked for.
    pub model: String,
    /// Number of the call, for ids.
    pub id: u64,
    /// Input LLM tokens.
    pub input: u64,
    /// Output LLM tokens.
    pub output: u64,
    /// The text; `output` LLM tokens long.
    pub text: String,
    /// See [`UsageStyle`].
    pub usage: UsageStyle,
    /// Stream of events.
    pub stream: bool,
    /// `stream_options.include_usage`
    pub include_usage: bool,
}

impl Answer {
    /// The value of the `usage` member; `None`: no such member.
    #[must_use]
    pub fn usage_value(&self) -> Option<Value> {
        let (input, output) = match self.usage {
            UsageStyle::Omit => return None,
            UsageStyle::Null => return Some(Value::Null),
            UsageStyle::Zero => (0, 0),
            UsageStyle::Normal | UsageStyle::Always => (self.input, self.output),
        };
        Some(match self.endpoint {
            Endpoint::Chat | Endpoint::Completions => json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0}}),
            Endpoint::Embeddings => json!({"prompt_tokens": input, "total_tokens": input}),
            Endpoint::Responses => json!({
                "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0}}),
            Endpoint::Messages => json!({
                "input_tokens": input, "output_tokens": output,
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}),
            other => others::usage(other, input, output),
        })
    }

    /// The whole answer as one JSON document.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut document = match self.endpoint {
            Endpoint::Chat => json!({"id": format!("chatcmpl-{}", self.id), "object": "chat.completion",
                "created": 1_795_900_100_u64, "model": self.model,
                "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null,
                    "message": {"role": "assistant", "content": self.text, "refusal": null}}]}),
            Endpoint::Completions => json!({"id": format!("cmpl-{}", self.id), "object": "text_completion",
                "created": 1_795_900_100_u64, "model": self.model,
                "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null, "text": self.text}]}),
            Endpoint::Embeddings => json!({"object": "list", "model": self.model,
                "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5, 0.125]}]}),
            Endpoint::Responses => self.response_object("completed", true),
            Endpoint::Messages => self.message_object(true),
            _ => return others::json(self),
        };
        if let (Some(usage), Some(members)) = (self.usage_value(), document.as_object_mut()) {
            members.insert("usage".to_owned(), usage);
        }
        document
    }

    /// The object of the Responses API, without usage.
    pub(super) fn response_object(&self, status: &str, finished: bool) -> Value {
        let item = json!({"type": "message", "id": format!("msg_{}", self.id), "status": status,
            "role": "assistant",
            "content": [{"type": "output_text", "text": self.text, "annotations": []}]});
        json!({"id": format!("resp_{}", self.id), "object": "response", "created_at": 1_795_900_100_u64,
            "status": status, "model": self.model, "error": null, "incomplete_details": null,
            "output": if finished { vec![item] } else { Vec::new() }, "parallel_tool_calls": true,
            "tool_choice": "auto", "tools": []})
    }

    /// The message of the Anthropic API, without usage.
    pub(super) fn message_object(&self, finished: bool) -> Value {
        let content = json!([{"type": "text", "text": self.text}]);
        json!({"id": format!("msg_{}", self.id), "type": "message", "role": "assistant", "model": self.model,
            "content": if finished { content } else { json!([]) },
            "stop_reason": if finished { json!("end_turn") } else { Value::Null }, "stop_sequence": null})
    }
}
