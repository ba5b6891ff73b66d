//! The one pass over a request body.

use super::body::Body;
use super::{BodySeen, RequestFacts, multipart};
use crate::cost::dialect::{Endpoint, Operation};
use crate::cost::json::Scanner;
use crate::cost::media;

/// The largest context that models read; a prefix that scales up beyond it holds media further on.
const CONTEXT: u64 = 1_000_000;

/// A request body that arrives in pieces. Bounded memory whatever the body holds.
pub struct RequestReader {
    endpoint: Endpoint,
    scanner: Scanner,
    body: Body,
    /// Bytes fed.
    len: u64,
    broken: bool,
    /// Model of a form, looked for in each piece.
    form: Option<Form>,
}

/// What is known of a multipart body.
#[derive(Default)]
struct Form {
    model: Option<String>,
    streams: bool,
}

impl RequestReader {
    /// A reader before the first byte.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.clone(),
            scanner: Scanner::new(),
            body: Body::new(endpoint),
            len: 0,
            broken: false,
            form: None,
        }
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.len == 0 && multipart::is_form(bytes) {
            self.form = Some(Form::default());
        }
        self.len = self.len.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if let Some(form) = &mut self.form {
            if let Some(model) = multipart::field(bytes, "model") {
                form.model = Some(model.to_owned());
            }
            form.streams |= multipart::field(bytes, "stream") == Some("true");
        } else if !self.broken {
            let taken = self.scanner.feed(bytes, &mut self.body);
            self.broken = taken != Ok(bytes.len());
        }
    }

    /// What the bytes so far tell. May be asked for again after more bytes.
    pub fn facts(&self, seen: BodySeen) -> RequestFacts {
        let whole = match seen {
            BodySeen::Complete => self.len,
            BodySeen::Prefix { declared_len } => declared_len.unwrap_or(self.len).max(self.len),
        };
        if let Some(form) = &self.form {
            return self.form_facts(form, whole);
        }
        let ended = self.scanner.is_complete() || seen != BodySeen::Complete;
        if self.broken || !ended || !self.body.is_object() || self.len == 0 {
            return self.unreadable(whole);
        }
        let body = &self.body;
        let model = body.model().or_else(|| self.endpoint.path_model.clone());
        let seen_llm_tokens = body.input(model.as_deref(), self.endpoint.shape);
        let answers = body.answers();
        let cap = body.cap();
        let row = self.endpoint.shape.row();
        let streams = self.endpoint.path_streams.or(body.stream()).unwrap_or(row.streams_by_default);
        RequestFacts {
            readable: true,
            streams,
            usage_requested: body.include_usage(),
            input_llm_tokens: self.scale(seen_llm_tokens, model.as_deref(), whole),
            seen_llm_tokens,
            declared_output: cap.map(|cap| cap.saturating_mul(answers)),
            answers,
            generates_output: self.endpoint.operation.generates_output(),
            model,
        }
    }

    /// Scales the estimate of a prefix up to the whole body.
    ///
    /// What follows is taken to be text as dense as the text so far, and a little denser, so that the estimate is
    /// not below that of the whole body. Cut inside a picture, what follows is taken to be its rest.
    fn scale(&self, seen: u64, model: Option<&str>, whole: u64) -> u64 {
        let missing = whole.saturating_sub(self.len);
        if missing == 0 || self.body.in_file() {
            return seen;
        }
        let files = self.body.file_llm_tokens(model, self.endpoint.shape);
        let text = u128::from(seen.saturating_sub(files));
        let text_bytes = u128::from(self.len.saturating_sub(self.body.file_bytes()).max(1));
        let more = text
            .saturating_mul(u128::from(missing))
            .saturating_mul(33)
            .div_ceil(text_bytes.saturating_mul(32));
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        seen.max(seen.saturating_add(more).min(CONTEXT))
    }

    fn form_facts(&self, form: &Form, whole: u64) -> RequestFacts {
        RequestFacts {
            readable: form.model.is_some(),
            streams: form.streams,
            model: form.model.clone().or_else(|| self.endpoint.path_model.clone()),
            ..self.unreadable(whole)
        }
    }

    /// One LLM token for four bytes; the length of sound and pictures says nothing, so that is bounded.
    fn unreadable(&self, whole: u64) -> RequestFacts {
        let floor = (whole / 4).max(1);
        let files = matches!(self.endpoint.operation, Operation::Images | Operation::Audio);
        let input = if files { floor.min(media::DEFAULT_LLM_TOKENS) } else { floor };
        RequestFacts {
            readable: false,
            model: self.endpoint.path_model.clone(),
            streams: self.endpoint.path_streams.unwrap_or(false),
            usage_requested: false,
            input_llm_tokens: input,
            seen_llm_tokens: input.min((self.len / 4).max(1)),
            declared_output: None,
            answers: 1,
            generates_output: self.endpoint.operation.generates_output(),
        }
    }
}
