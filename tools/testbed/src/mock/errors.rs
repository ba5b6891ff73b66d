//! Error bodies of the APIs.

use super::dialect::Endpoint;
use serde_json::{Value, json};

/// The error document for a status, in the shape of the endpoint's API.
#[must_use]
pub fn document(endpoint: Option<Endpoint>, status: u16, what: &str, message: &str) -> Value {
    if endpoint == Some(Endpoint::Messages) {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        return json!({"type": "error", "request_id": "req_mock", "error": {"type": kind, "message": message}});
    }
    match endpoint {
        Some(Endpoint::Gemini { .. }) => {
            let name = if status == 429 { "RESOURCE_EXHAUSTED" } else { "UNAVAILABLE" };
            return json!({"error": {"code": status, "message": message, "status": name}});
        }
        Some(Endpoint::Cohere | Endpoint::Bedrock { .. }) => return json!({"message": message}),
        Some(Endpoint::Ollama { .. }) => return json!({"error": message}),
        _ => {}
    }
    let (kind, code) = match status {
        429 => (if what.contains("requests") { "requests" } else { "tokens" }, "rate_limit_exceeded"),
        500.. => ("server_error", "server_error"),
        _ => ("invalid_request_error", "invalid_request_error"),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
