//! What a request body tells before it is answered: model, stream, output caps, and an estimate of its input.
//!
//! 1. Only members at the places that the dialect's row names count; the same names deeper down, in texts or in
//!    metadata are decoys. A member that is repeated counts with its last value, as common parsers have it.
//! 2. Text counts decoded, by [`super::text`]; what is shown to the model as JSON (tools, schemas, arguments) counts
//!    as JSON; pictures and files by [`super::media`]; arrays of LLM-token ids by their number.
//! 3. A body that is cut off at the body limit is scaled up to its declared length.
//! 4. A body that is not one readable JSON object costs a floor from its length and tells nothing else.

mod body;
mod fields;
mod files;
mod inject;
mod multipart;
mod number;
mod reader;
mod start;
mod strings;

pub use inject::inject_stream_usage;
pub use reader::RequestReader;

use super::dialect::Endpoint;

/// Bytes of a model name that are kept; the longest known (inference-profile ARNs) have about 150.
pub const MODEL_BYTES: usize = 256;

/// How much of the body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySeen {
    /// All of it.
    Complete,
    /// Its beginning.
    Prefix {
        /// Length of the whole body, when a header declares it.
        declared_len: Option<u64>,
    },
}

/// What a request tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// The body is a JSON object (or a form whose model was found), as far as it was seen.
    pub readable: bool,
    /// The model: from the body, else from the path. At most [`MODEL_BYTES`] bytes.
    pub model: Option<String>,
    /// The answer will stream.
    pub streams: bool,
    /// A stream will state its usage although that has to be asked for (`stream_options.include_usage`).
    pub usage_requested: bool,
    /// Estimated input, at least 1.
    pub input_llm_tokens: u64,
    /// The part of the estimate that was seen rather than scaled up from a prefix; equal to it for whole bodies.
    pub seen_llm_tokens: u64,
    /// The largest declared output cap times [`Self::answers`]; `None` when none is declared or it makes no sense.
    pub declared_output: Option<u64>,
    /// How many answers are generated: `n` or `best_of`, times the prompts. At least 1.
    pub answers: u64,
    /// Output LLM tokens are generated at all (not for embeddings, pictures, sound).
    pub generates_output: bool,
}

/// Reads a body that is at hand. For one that arrives in pieces use [`RequestReader`].
pub fn read_request(endpoint: &Endpoint, body: &[u8], seen: BodySeen) -> RequestFacts {
    let mut reader = RequestReader::new(endpoint);
    reader.feed(body);
    reader.facts(seen)
}

#[cfg(test)]
mod tests;
