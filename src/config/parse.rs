//! JSON text to [`Config`]: the top level. The parts are in [`super::parties`] and [`super::pools`].

use super::error::ConfigError;
use super::json::Json;
use super::parties::{self, Parties};
use super::pools;
use super::range;
use super::reader::{Object, Reader};
use super::wire::decode_struct;
use super::{Config, Mode};
use crate::units::Span;

const KEYS: [&str; 15] = [
    "mode",
    "hold_headers",
    "identity",
    "classes",
    "default_class",
    "tenants",
    "pools",
    "body_limit_bytes",
    "reservation_ttl_seconds",
    "max_retry_after_seconds",
    "cas_attempts",
    "force_identity_encoding",
    "response_headers",
    "status_path",
    "fleet",
];

/// Parses and validates a plugin configuration.
///
/// # Errors
/// The first place that cannot mean what its author wants, as a JSON pointer with the reason and the value.
pub fn parse(text: &[u8]) -> Result<Config, ConfigError> {
    parse_all(text).map_err(|errors| {
        errors.into_iter().next().unwrap_or_else(|| ConfigError::new("", "is refused without a reason"))
    })
}

/// The same, with every place that is wrong (at least one, at most a hundred).
///
/// # Errors
/// All of them, top down.
pub fn parse_all(text: &[u8]) -> Result<Config, Vec<ConfigError>> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Err(vec![ConfigError::new("", "is missing; at least one pool must be given, got nothing")]);
    }
    let json: Json = match serde_json::from_slice(text) {
        Ok(json) => json,
        // A Struct arrives serialized; its first byte is a line feed, which JSON text may begin with too.
        Err(error) => {
            decode_struct(text).ok_or_else(|| vec![ConfigError::new("", format!("must be JSON: {error}"))])?
        }
    };
    parse_tree(&json)
}

/// The same for a tree that something else read.
pub(crate) fn parse_tree(json: &Json) -> Result<Config, Vec<ConfigError>> {
    let mut reader = Reader::default();
    let config = reader.object(String::new(), json, &KEYS).and_then(|root| read_root(&mut reader, &root));
    let errors = reader.into_errors();
    match config {
        Some(config) if errors.is_empty() => Ok(config),
        _ => Err(errors),
    }
}

fn read_root(reader: &mut Reader, root: &Object<'_>) -> Option<Config> {
    let mode = reader.word(root, "mode", &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)]);
    let hold_headers = reader.boolean(root, "hold_headers").unwrap_or(true);
    let (tenant_sources, class_sources) = parties::read_identity(reader, root);
    let Parties { classes, default_class, tenants } = parties::read_parties(reader, root);
    let context = pools::Context { hold_headers, classes: &classes, tenants: &tenants };
    let pools = pools::read_pools(reader, root, &context);
    let seconds = |value: Option<u64>, default| Span::from_secs(value.unwrap_or(default));
    let body_limit_bytes = reader
        .whole(root, "body_limit_bytes", &range::BODY_LIMIT_BYTES)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(range::DEFAULT_BODY_LIMIT_BYTES);
    let reservation_ttl = seconds(
        reader.whole(root, "reservation_ttl_seconds", &range::RESERVATION_TTL_SECONDS),
        range::DEFAULT_RESERVATION_TTL_SECONDS,
    );
    let max_retry_after = seconds(
        reader.whole(root, "max_retry_after_seconds", &range::MAX_RETRY_AFTER_SECONDS),
        range::DEFAULT_MAX_RETRY_AFTER_SECONDS,
    );
    let cas_attempts = reader.whole32(root, "cas_attempts", &range::CAS_ATTEMPTS);
    let force_identity_encoding = reader.boolean(root, "force_identity_encoding").unwrap_or(true);
    let response_headers = reader.boolean(root, "response_headers").unwrap_or(true);
    let status_path = read_status_path(reader, root);
    let fleet = super::fleet::read(reader, root, &pools);
    Some(Config {
        mode: mode.unwrap_or(Mode::Enforce),
        hold_headers,
        tenant_sources,
        class_sources,
        classes,
        default_class: default_class?,
        tenants,
        pools,
        body_limit_bytes,
        reservation_ttl,
        max_retry_after,
        cas_attempts: cas_attempts.unwrap_or(range::DEFAULT_CAS_ATTEMPTS),
        force_identity_encoding,
        response_headers,
        status_path,
        fleet,
    })
}

fn read_status_path(reader: &mut Reader, root: &Object<'_>) -> Option<String> {
    if root.get("status_path") == Some(&Json::Null) {
        return None;
    }
    let path = reader.string(root, "status_path")?;
    let visible = path.bytes().all(|byte| byte.is_ascii_graphic());
    if !path.starts_with('/') || !visible || path.contains(['?', '#']) {
        reader.fail(
            root.at("status_path"),
            format!("must be a path that begins with / and has no query, fragment or blank, got {path:?}"),
        );
        return None;
    }
    Some(path.to_owned())
}
