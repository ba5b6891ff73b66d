use super::{Dialect, Operation, classify};
use Dialect::{Anthropic, AzureOpenAi, Bedrock, Cohere, Gemini, Mistral, Ollama, OpenAi};
use Operation::{Audio, Chat, Completions, Embeddings, Images, Invoke, Responses};

type Expected = (&'static str, Dialect, Operation, Option<&'static str>, Option<bool>);

#[test]
fn metered_paths() {
    let table: &[Expected] = &[
        ("/v1/chat/completions", OpenAi, Chat, None, None),
        ("/gateway/a/b/v1/chat/completions?x=1", OpenAi, Chat, None, None),
        ("/chat/completions", OpenAi, Chat, None, None),
        ("//v1//chat/completions/", OpenAi, Chat, None, None),
        ("/v1/%63hat/completions", OpenAi, Chat, None, None),
        ("/openai/v1/chat/completions", OpenAi, Chat, None, None),
        ("/v1beta/openai/chat/completions", OpenAi, Chat, None, None),
        ("/v1/completions", OpenAi, Completions, None, None),
        ("/v1/responses", OpenAi, Responses, None, None),
        ("/v1/embeddings", OpenAi, Embeddings, None, None),
        ("/v1/images/generations", OpenAi, Images, None, None),
        ("/v1/images/edits", OpenAi, Images, None, None),
        ("/v1/audio/transcriptions", OpenAi, Audio, None, None),
        ("/v1/audio/speech", OpenAi, Audio, None, None),
        (
            "/openai/deployments/m-chat/chat/completions?api-version=2024-06-01",
            AzureOpenAi,
            Chat,
            Some("m-chat"),
            None,
        ),
        ("/openai/deployments/my%20one/embeddings", AzureOpenAi, Embeddings, Some("my one"), None),
        ("/openai/deployments/d/audio/speech?api-version=1", AzureOpenAi, Audio, Some("d"), None),
        ("/openai/responses?api-version=2025-04-01-preview", AzureOpenAi, Responses, None, None),
        ("/v1/messages", Anthropic, Chat, None, None),
        ("/v1/messages?beta=true", Anthropic, Chat, None, None),
        ("/anthropic/v1/messages", Anthropic, Chat, None, None),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@20250929:streamRawPredict",
            Anthropic,
            Chat,
            Some("claude-x@20250929"),
            Some(true),
        ),
        ("/v1beta/models/m-chat:generateContent", Gemini, Chat, Some("m-chat"), Some(false)),
        ("/v1beta/models/m-chat:streamGenerateContent?alt=sse", Gemini, Chat, Some("m-chat"), Some(true)),
        ("/v1beta/models/m%3AstreamGenerateContent", Gemini, Chat, Some("m"), Some(true)),
        (
            "/v1/projects/p1/locations/eu/publishers/google/models/gemini-2.5-flash:generateContent",
            Gemini,
            Chat,
            Some("gemini-2.5-flash"),
            Some(false),
        ),
        ("/v1beta/models/e:embedContent", Gemini, Embeddings, Some("e"), Some(false)),
        ("/v1beta/models/e:batchEmbedContents", Gemini, Embeddings, Some("e"), Some(false)),
        ("/v1beta/interactions", Gemini, Chat, None, None),
        ("/model/anthropic.claude-3%3A0/invoke", Bedrock, Invoke, Some("anthropic.claude-3:0"), Some(false)),
        (
            "/model/us.anthropic.claude-x-v1:0/invoke-with-response-stream",
            Bedrock,
            Invoke,
            Some("us.anthropic.claude-x-v1:0"),
            Some(true),
        ),
        (
            "/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ainference-profile%2Fx/converse",
            Bedrock,
            Chat,
            Some("arn:aws:bedrock:eu:1:inference-profile/x"),
            Some(false),
        ),
        ("/model/m/converse-stream", Bedrock, Chat, Some("m"), Some(true)),
        ("/v1/fim/completions", Mistral, Completions, None, None),
        ("/v1/agents/completions", Mistral, Chat, None, None),
        ("/v1/conversations", Mistral, Chat, None, None),
        ("/v2/chat", Cohere, Chat, None, None),
        ("/v2/embed", Cohere, Embeddings, None, None),
        ("/api/chat", Ollama, Chat, None, None),
        ("/api/generate", Ollama, Completions, None, None),
        ("/api/embed", Ollama, Embeddings, None, None),
        ("/api/embeddings", Ollama, Embeddings, None, None),
    ];
    for (path, dialect, operation, model, streams) in table {
        let found = classify(path.as_bytes(), None).unwrap_or_else(|| panic!("{path} is not metered"));
        assert_eq!((found.dialect, found.shape, found.operation), (*dialect, *dialect, *operation), "{path}");
        assert_eq!((found.path_model.as_deref(), found.path_streams), (*model, *streams), "{path}");
    }
}

#[test]
fn a_path_in_disguise_is_metered_as_what_servers_take_it_for() {
    for path in [
        "/v1/chat%2fcompletions",
        "/v1/chat%2Fcompletions?x=1",
        "/v1%2Fchat%2Fcompletions",
        "/v1/chat/completions;x=1",
        "/v1/chat;a=b/completions;c",
        "/v1/%63hat/completions",
    ] {
        let found = classify(path.as_bytes(), None).unwrap_or_else(|| panic!("{path} is not metered"));
        assert_eq!((found.dialect, found.operation), (OpenAi, Chat), "{path}");
    }
    for path in ["/v1/chat%252fcompletions/x", "/v1/models;/v1/chat/completions;/x", "%", ";", "/%2f;%"] {
        assert!(classify(path.as_bytes(), None).is_none(), "{path}");
    }
}

#[test]
fn paths_that_are_not_metered() {
    for path in [
        "",
        "/",
        "?",
        "/healthz",
        "/v1/models",
        "/v1/moderations",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/batches",
        "/v1/files",
        "/v1/responses/input_tokens",
        "/v1/responses/resp_1/cancel",
        "/v1beta/models/m:countTokens",
        "/v1/publishers/anthropic/models/count-tokens:rawPredict",
        "/model/m/count-tokens",
        "/v1/rerank",
        "/v1/realtime",
        "/api/tags",
        "/api/pull",
        "/tokenize",
        "/chat",
        "/messages",
        "/%",
        "/%zz/%2",
        "/invoke",
        "/model/invoke",
    ] {
        assert_eq!(classify(path.as_bytes(), None), None, "{path}");
    }
    assert_eq!(classify(b"/\xff\xfe/v1/x", None), None);
}

#[test]
fn dots_in_a_path_are_walked() {
    for path in [
        "/v1/chat/completions/.",
        "/v1/chat/./completions",
        "/v1/chat/completions/x/..",
        "/v1/models/../chat/completions",
        "/v1/chat/%2e/completions/%2E%2e/completions",
        "/../../v1/chat/completions/",
    ] {
        let found = classify(path.as_bytes(), None).map(|found| (found.dialect, found.operation));
        assert_eq!(found, Some((OpenAi, Chat)), "{path}");
    }
    assert_eq!(classify(b"/v1/chat/completions/..", None), None);
    assert_eq!(classify(b"/..", None), None);
}

#[test]
fn the_configured_provider_names_the_dialect_but_not_the_body() {
    let found = classify(b"/v1/chat/completions", Some(Mistral)).unwrap();
    assert_eq!((found.dialect, found.shape), (Mistral, OpenAi));
    assert_eq!(classify(b"/v1/models", Some(Mistral)), None);
}

#[test]
fn each_row_belongs_to_its_dialect() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.row().dialect, dialect);
        assert!(!dialect.row().prose.is_empty() && !dialect.row().caps.is_empty());
    }
}

#[test]
fn only_openai_bodies_take_stream_options() {
    for (path, takes) in [
        ("/v1/chat/completions", true),
        ("/v1/completions", true),
        ("/openai/deployments/d/chat/completions", true),
        ("/v1/responses", false),
        ("/v1/messages", false),
        ("/v1/fim/completions", false),
        ("/api/chat", false),
        ("/model/m/converse-stream", false),
    ] {
        assert_eq!(classify(path.as_bytes(), None).unwrap().takes_stream_options(), takes, "{path}");
    }
}
