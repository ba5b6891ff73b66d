//! What a call would cost.

use std::fmt::Write as _;

use crate::config::{Config, OutputReserve};
use crate::cost::dialect::{Dialect, Endpoint, Operation, classify};
use crate::cost::price::reserve;
use crate::cost::request::{BodySeen, read_request};
use crate::pool::{CallSite, find};
use crate::session::admission::BEGINNING_BYTES;
use crate::units::Resource;

/// A POST to be priced.
pub struct Call<'a> {
    /// Host, as in `:authority`.
    pub host: &'a str,
    /// Path, with or without a query.
    pub path: &'a str,
    /// The whole body.
    pub body: &'a [u8],
}

/// The pool that takes a call and what is reserved there, in words.
pub fn price(config: &Config, call: &Call<'_>) -> String {
    let mut out = String::new();
    let known = classify(call.path.as_bytes(), None);
    let endpoint = known.clone().unwrap_or(Endpoint {
        dialect: Dialect::OpenAi,
        shape: Dialect::OpenAi,
        operation: Operation::Chat,
        path_model: None,
        path_streams: None,
    });
    // What is longer than the filter holds is decided on its beginning there too.
    let held = config.body_limit_bytes;
    let (body, seen) = if call.body.len() > held {
        let beginning = call.body.get(..held.min(BEGINNING_BYTES)).unwrap_or(call.body);
        (beginning, BodySeen::Prefix { declared_len: u64::try_from(call.body.len()).ok() })
    } else {
        (call.body, BodySeen::Complete)
    };
    let mut facts = read_request(&endpoint, body, seen);
    if endpoint.operation.counts_by_request() {
        facts.input_llm_tokens = 0;
    }
    let site =
        CallSite { host: call.host.as_bytes(), path: call.path.as_bytes(), model: facts.model.as_deref() };
    let Some((_, pool)) = find(config, &site) else {
        let model = facts.model.as_deref().or_else(|| known.as_ref()?.path_model.as_deref());
        let model = model.map_or("no model that can be read".to_owned(), |model| format!("model {model}"));
        let _ = writeln!(out, "No pool takes this call: it is passed through and costs nothing.");
        let _ = writeln!(out, "          POST to {} at host {}, {model}", call.path, call.host);
        return out;
    };
    let dialect = match (pool.provider, &known) {
        (Some(provider), _) => provider.name(),
        (None, Some(endpoint)) => endpoint.dialect.name(),
        (None, None) => "openai (the path is not a known endpoint)",
    };
    let _ = writeln!(out, "Pool      {}", pool.name);
    let _ = writeln!(out, "Dialect   {dialect}");
    let _ = writeln!(out, "Model     {}", facts.model.as_deref().unwrap_or("none that can be read"));
    let _ = writeln!(out, "Stream    {}", if facts.streams { "yes" } else { "no" });
    let _ = writeln!(out, "Input     about {} tokens", facts.input_llm_tokens);
    if body.len() < call.body.len() {
        let read = body.len();
        let _ = writeln!(
            out,
            "Body      above body_limit_bytes: decided on its first {read} bytes and its length"
        );
    }
    let output = facts.declared_output.unwrap_or(pool.default_output_llm_tokens);
    let output = if facts.readable { output } else { 0 };
    if facts.generates_output && facts.readable {
        let source = match facts.declared_output {
            Some(_) => "declared by the call",
            None => "default_output_tokens",
        };
        let _ = writeln!(out, "Output    {output} tokens, {source}");
    }
    match reserve(pool, &facts, output) {
        Err(excess) => {
            let resource = excess.resource.name();
            let _ = writeln!(
                out,
                "Refused   413: needs {} {resource} by its input alone, the limit is {}",
                excess.need, excess.limit
            );
        }
        Ok(cost) => {
            for resource in Resource::ALL {
                if let Some(limit) = pool.limits.get(resource) {
                    let amount = cost.get(resource);
                    let percent = *amount as f64 * 100.0 / *limit as f64;
                    let _ =
                        writeln!(out, "Reserves  {amount} of {limit} {} ({percent:.1} %)", resource.name());
                }
            }
            if pool.output_reserve == OutputReserve::Learned {
                let _ = writeln!(out, "          less once the pool has learned from recent outputs");
            }
        }
    }
    out
}
