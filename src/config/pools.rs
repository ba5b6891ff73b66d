//! The pools: which calls, which caps, how they are shared.

use super::matching;
use super::parties::{expect_class, named, read_weight};
use super::range;
use super::reader::{Object, Reader};
use super::suggest::nearest;
use super::{Class, Learn, OutputReserve, Pool, Tenant, weights};
use crate::cost::dialect::Dialect;
use crate::units::{Limits, Resource, Span};

const KEYS: [&str; 15] = [
    "name",
    "match",
    "provider",
    "limits",
    "strict_window",
    "burst_seconds",
    "default_output_tokens",
    "output_reserve",
    "token_weights",
    "max_wait_ms",
    "max_parked",
    "inject_stream_usage",
    "learn",
    "tenants",
    "classes",
];

const LIMIT_KEYS: [&str; 5] = [
    "requests_per_minute",
    "tokens_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "concurrent_requests",
];

const PROVIDERS: [(&str, Option<Dialect>); 9] = [
    ("auto", None),
    ("openai", Some(Dialect::OpenAi)),
    ("azure_openai", Some(Dialect::AzureOpenAi)),
    ("anthropic", Some(Dialect::Anthropic)),
    ("gemini", Some(Dialect::Gemini)),
    ("bedrock", Some(Dialect::Bedrock)),
    ("mistral", Some(Dialect::Mistral)),
    ("cohere", Some(Dialect::Cohere)),
    ("ollama", Some(Dialect::Ollama)),
];

/// What the pools refer to.
pub(super) struct Context<'a> {
    pub(super) hold_headers: bool,
    pub(super) classes: &'a [Class],
    pub(super) tenants: &'a [Tenant],
}

/// All pools, in the order written.
pub(super) fn read_pools(reader: &mut Reader, root: &Object<'_>, context: &Context<'_>) -> Vec<Pool> {
    let at = root.at("pools");
    if root.get("pools").is_none() {
        reader.fail(at, "is missing; at least one pool must be given, got nothing");
        return Vec::new();
    }
    let Some(items) = reader.array(root, "pools") else { return Vec::new() };
    if items.is_empty() || items.len() > range::MAX_POOLS {
        reader.fail(at, format!("must have 1 to {} pools, got {}", range::MAX_POOLS, items.len()));
        return Vec::new();
    }
    let mut pools: Vec<Pool> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(object) = reader.object(format!("{at}/{index}"), item, &KEYS) else { continue };
        let pool = read_pool(reader, &object, context);
        if let Some(first) = pools.iter().position(|other| !pool.name.is_empty() && other.name == pool.name) {
            let reason = format!("is the name of /pools/{first} already, got {:?}", pool.name);
            reader.fail(object.at("name"), reason);
        }
        pools.push(pool);
    }
    pools
}

/// A pool as far as it can be read; whatever is wrong was reported, so that the result is never used.
fn read_pool(reader: &mut Reader, pool: &Object<'_>, context: &Context<'_>) -> Pool {
    let name = match pool.get("name") {
        Some(_) => reader.string(pool, "name").unwrap_or_default().to_owned(),
        None => {
            reader.fail(pool.at("name"), "is missing; every pool needs a name, got nothing");
            String::new()
        }
    };
    let reserves = [("max_tokens", OutputReserve::MaxTokens), ("learned", OutputReserve::Learned)];
    let matches = matching::read_match(reader, pool);
    let provider = reader.word(pool, "provider", &PROVIDERS).flatten();
    let limits = read_limits(reader, pool);
    let strict_window = reader.boolean(pool, "strict_window").unwrap_or(true);
    let burst = reader.whole(pool, "burst_seconds", &range::BURST_SECONDS);
    let default_output = reader.whole(pool, "default_output_tokens", &range::OUTPUT_LLM_TOKENS);
    let output_reserve = reader.word(pool, "output_reserve", &reserves).unwrap_or(OutputReserve::Learned);
    let llm_token_weights = weights::read(reader, pool);
    let (max_wait, class_weights) = read_classes(reader, pool, context);
    Pool {
        name,
        matches,
        provider,
        limits,
        strict_window,
        burst: Span::from_secs(burst.unwrap_or(range::DEFAULT_BURST_SECONDS)),
        default_output_llm_tokens: default_output.unwrap_or(range::DEFAULT_OUTPUT_LLM_TOKENS),
        output_reserve,
        llm_token_weights,
        max_wait,
        max_parked: reader.whole32(pool, "max_parked", &range::PARKED).unwrap_or(range::DEFAULT_PARKED),
        inject_stream_usage: read_inject(reader, pool, context),
        learn: read_learn(reader, pool),
        class_weights,
        tenant_weights: read_tenants(reader, pool, context),
    }
}

/// The length of a body that grew can no longer be told when its headers have left.
fn read_inject(reader: &mut Reader, pool: &Object<'_>, context: &Context<'_>) -> bool {
    let inject = reader.boolean(pool, "inject_stream_usage").unwrap_or(false);
    if inject && !context.hold_headers {
        let reason = "has no effect when hold_headers is false: the length of the body has left already";
        reader.fail(pool.at("inject_stream_usage"), format!("{reason}, got true"));
    }
    inject
}

fn read_limits(reader: &mut Reader, pool: &Object<'_>) -> Limits {
    let Some(limits) = reader.child(pool, "limits", &LIMIT_KEYS) else {
        if pool.get("limits").is_none() {
            reader.fail(
                pool.at("limits"),
                format!("is missing; at least one of {}, got nothing", LIMIT_KEYS.join(", ")),
            );
        }
        return Limits::default();
    };
    if limits.len() == 0 {
        reader
            .fail(limits.pointer(), format!("must hold at least one of {}, got {{}}", LIMIT_KEYS.join(", ")));
    }
    Limits::from_fn(|resource| {
        let (key, allowed) = match resource {
            Resource::Requests => ("requests_per_minute", range::PER_MINUTE),
            Resource::LlmTokens => ("tokens_per_minute", range::PER_MINUTE),
            Resource::InputLlmTokens => ("input_tokens_per_minute", range::PER_MINUTE),
            Resource::OutputLlmTokens => ("output_tokens_per_minute", range::PER_MINUTE),
            Resource::Concurrency => ("concurrent_requests", range::CONCURRENT),
        };
        reader.whole(&limits, key, &allowed).map(|limit| limit.min(range::LARGEST_HELD))
    })
}

fn read_learn(reader: &mut Reader, pool: &Object<'_>) -> Learn {
    let defaults = Learn { headers: true, pause_on_429: true, adapt: false };
    let Some(learn) = reader.child(pool, "learn", &["headers", "pause_on_429", "adapt"]) else {
        return defaults;
    };
    Learn {
        headers: reader.boolean(&learn, "headers").unwrap_or(defaults.headers),
        pause_on_429: reader.boolean(&learn, "pause_on_429").unwrap_or(defaults.pause_on_429),
        adapt: reader.boolean(&learn, "adapt").unwrap_or(defaults.adapt),
    }
}

/// Longest parks and weights by class: the pool's own, where it names the class, else the general ones.
fn read_classes(reader: &mut Reader, pool: &Object<'_>, context: &Context<'_>) -> (Vec<Span>, Vec<u32>) {
    let default_wait = if context.hold_headers { range::DEFAULT_WAIT_MS } else { 0 };
    let wait = reader.whole(pool, "max_wait_ms", &range::WAIT_MS).unwrap_or(default_wait);
    let mut waits = vec![Span::from_millis(wait); context.classes.len()];
    let mut weights: Vec<u32> = context.classes.iter().map(|class| class.weight).collect();
    for (name, entry) in named(reader, pool, "classes", range::MAX_CLASSES, &["weight", "max_wait_ms"]) {
        let weight = read_weight(reader, &entry);
        let wait = reader.whole(&entry, "max_wait_ms", &range::WAIT_MS);
        let pointer = entry.pointer().to_owned();
        let Some(class) = expect_class(reader, pointer, context.classes, name) else { continue };
        let index = usize::from(class.0);
        if let (Some(slot), Some(weight)) = (weights.get_mut(index), weight) {
            *slot = weight;
        }
        if let (Some(slot), Some(wait)) = (waits.get_mut(index), wait) {
            *slot = Span::from_millis(wait);
        }
    }
    (waits, weights)
}

fn read_tenants(reader: &mut Reader, pool: &Object<'_>, context: &Context<'_>) -> Vec<u32> {
    let mut weights: Vec<u32> = context.tenants.iter().map(|tenant| tenant.weight).collect();
    for (name, entry) in named(reader, pool, "tenants", range::MAX_TENANTS, &["weight"]) {
        let weight = read_weight(reader, &entry);
        let found = context.tenants.iter().zip(&mut weights).find(|(tenant, _)| tenant.name == name);
        match (found, weight) {
            (Some((_, slot)), Some(weight)) => *slot = weight,
            (Some(_), None) => {}
            (None, _) => {
                let meant = nearest(name, context.tenants.iter().map(|tenant| tenant.name.as_str()));
                let hint = meant.map(|meant| format!(", did you mean {meant:?}?")).unwrap_or_default();
                let reason = format!("no such tenant, name it in /tenants first, got {name:?}{hint}");
                reader.fail(entry.pointer(), reason);
            }
        }
    }
    weights
}
