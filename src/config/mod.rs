//! The plugin configuration, validated. Section 2 of the contract, field by field.
//!
//! [`parse()`] turns JSON text into a [`Config`] or into an [`error::ConfigError`] that points at the place.
//! A `Config` that exists is sound: weights are 1 to 1000, limits at least 1, names unique, classes known.

use crate::cost::dialect::Dialect;
use crate::gate::TenantKey;
use crate::units::{Limits, Span};

pub mod error;
mod fleet;
pub mod glob;
pub(crate) mod json;
mod lineage;
mod matching;
pub mod parse;
mod parties;
mod pools;
pub mod range;
mod reader;
mod suggest;
mod weights;
mod wire;

pub use error::ConfigError;
pub use fleet::Fleet;
pub use glob::Glob;
pub use lineage::Lineage;
pub use parse::{parse, parse_all};
pub use weights::{LlmTokenWeights, PRESETS};

/// Index of a class in [`Config::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// What is done with a call that the rule would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuse it.
    Enforce,
    /// Count it and let it through.
    Shadow,
}

/// Where an identity is read from; sources are tried in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// A request header, lower-cased name.
    Header(String),
    /// An Envoy attribute path, e.g. `metadata`, `filter_metadata`, `envoy.filters.http.jwt_authn`, ...
    Property(Vec<String>),
    /// A 64-bit hash of the caller's credential; the credential itself is never kept.
    ApiKey,
}

/// A named priority class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name as written in the configuration.
    pub name: String,
    /// Relative entitlement, 1 to 1000.
    pub weight: u32,
}

/// A tenant that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Name as written in the configuration.
    pub name: String,
    /// Key in shared state; the same after every reload that still names this tenant.
    pub key: TenantKey,
    /// Relative entitlement within a class, 1 to 1000.
    pub weight: u32,
    /// Classes it may use; `None` = all.
    pub classes: Option<Vec<ClassId>>,
}

/// How much output is reserved at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputReserve {
    /// The largest declared cap times `n`/`best_of`.
    MaxTokens,
    /// The smaller of that and a high quantile of the pool's recent outputs.
    Learned,
}

/// What is learned from the provider's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learn {
    /// Adopt the provider's remaining amount when it is lower than ours.
    pub headers: bool,
    /// An upstream 429/503/529 pauses the pool.
    pub pause_on_429: bool,
    /// Lower the effective limits on upstream 429s, raise them back on success.
    pub adapt: bool,
}

/// Which calls belong to a pool. An empty list matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Host globs, compared without case and without the port unless the glob names one.
    pub hosts: Vec<Glob>,
    /// Path globs, compared with case, without the query.
    pub paths: Vec<Glob>,
    /// Model globs, compared without case.
    pub models: Vec<Glob>,
}

/// One provider cap shared by all callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Unique name.
    pub name: String,
    /// Which calls belong to it.
    pub matches: Match,
    /// Fixed dialect; `None` = by path and body.
    pub provider: Option<Dialect>,
    /// The caps; at least one.
    pub limits: Limits,
    /// Never more than the limit in any trailing 60 s.
    pub strict_window: bool,
    /// How many seconds' worth of each per-minute limit may be used at once, 1 s to 60 s.
    pub burst: Span,
    /// Output reserved when the call names no cap and nothing was learned.
    pub default_output_llm_tokens: u64,
    /// See [`OutputReserve`].
    pub output_reserve: OutputReserve,
    /// See [`LlmTokenWeights`]; `None` = everything counts once.
    pub llm_token_weights: Option<LlmTokenWeights>,
    /// Longest park per class, indexed by [`ClassId`].
    pub max_wait: Vec<Span>,
    /// Parked calls per Envoy worker; above it calls are denied.
    pub max_parked: u32,
    /// Add `stream_options.include_usage` to OpenAI-style streams that lack it.
    pub inject_stream_usage: bool,
    /// See [`Learn`].
    pub learn: Learn,
    /// Class weights in this pool, indexed by [`ClassId`].
    pub class_weights: Vec<u32>,
    /// Tenant weights in this pool, in the order of [`Config::tenants`].
    pub tenant_weights: Vec<u32>,
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// See [`Mode`].
    pub mode: Mode,
    /// True when the host holds the request headers until the body was read (`allow_on_headers_stop_iteration`).
    pub hold_headers: bool,
    /// Sources of the tenant name.
    pub tenant_sources: Vec<IdentitySource>,
    /// Sources of the class name.
    pub class_sources: Vec<IdentitySource>,
    /// All classes, sorted by name; at least one.
    pub classes: Vec<Class>,
    /// Class of calls that name none, or one that they may not use.
    pub default_class: ClassId,
    /// Named tenants, sorted by name.
    pub tenants: Vec<Tenant>,
    /// Pools in the order they are tried; at least one.
    pub pools: Vec<Pool>,
    /// Most body bytes read before deciding.
    pub body_limit_bytes: usize,
    /// A reservation whose end is never seen is settled at its estimate after this.
    pub reservation_ttl: Span,
    /// Longest wait ever told to a client, 1 s to 3600 s.
    pub max_retry_after: Span,
    /// Compare-and-swap tries per admission before failing open, at least 1.
    pub cas_attempts: u32,
    /// Ask the upstream for an uncompressed answer on metered calls.
    pub force_identity_encoding: bool,
    /// Add rate-limit headers to admitted responses.
    pub response_headers: bool,
    /// Path answered by the filter itself.
    pub status_path: Option<String>,
    /// Where the caps are shared with other Envoys.
    pub fleet: Option<Fleet>,
}
