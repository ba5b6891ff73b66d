//! Where the caps are shared with other Envoys.

use core::fmt;

use super::Pool;
use super::json::{Json, is_secret};
use super::range;
use super::reader::{Object, Reader};
use crate::fleet::LARGEST_LIMIT;
use crate::units::{Resource, Span};

const KEYS: [&str; 6] = ["store", "cluster", "prefix", "lease_ms", "timeout_ms", "auth"];

/// The store that holds the ledgers of a fleet.
#[derive(Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Envoy cluster of the store's HTTP front.
    pub cluster: String,
    /// First part of every key.
    pub prefix: String,
    /// Longest time for which an amount is withdrawn ahead; zero: never.
    pub lease: Span,
    /// Longest wait for an answer of the store.
    pub timeout: Span,
    /// `user:password` for the front.
    pub credentials: Option<String>,
}

/// Without the credentials.
impl fmt::Debug for Fleet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fleet")
            .field("cluster", &self.cluster)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Reads the key `fleet`. What may hold a password is not shown.
pub(super) fn read(reader: &mut Reader, root: &Object<'_>, pools: &[Pool]) -> Option<Fleet> {
    if root.get("fleet")? == &Json::Null {
        return None;
    }
    if let Some(other) = root.get("fleet").filter(|fleet| !matches!(fleet, Json::Object(_))) {
        reader.fail(root.at("fleet"), format!("must be an object or null, got {}", kind_of(other)));
        return None;
    }
    let fleet = reader.map(root.at("fleet"), root.get("fleet")?)?;
    for (name, value, at) in fleet.entries().filter(|(name, ..)| !KEYS.contains(name)) {
        // A misspelt `auth` or a password put beside it is an unknown key too.
        let known = KEYS.join(", ");
        let shown = match value {
            Json::Number(_) if !is_secret(name) => value.to_string(),
            _ => kind_of(value).to_owned(),
        };
        reader.fail(at, format!("unknown key {name:?}, known are {known} (value {shown})"));
    }
    if let Some(store) = reader.string(&fleet, "store").filter(|store| *store != "redis") {
        reader.fail(fleet.at("store"), format!("must be \"redis\", which Valkey is too, got {store:?}"));
    }
    let cluster = reader.string(&fleet, "cluster").unwrap_or_default().to_owned();
    if fleet.get("cluster").is_none() {
        let reason = "is missing; it names the Envoy cluster of the store's HTTP front, got nothing";
        reader.fail(fleet.at("cluster"), reason);
    }
    let prefix = reader.string(&fleet, "prefix").unwrap_or("bp").to_owned();
    let lease = reader.whole(&fleet, "lease_ms", &range::LEASE_MS).unwrap_or(range::DEFAULT_LEASE_MS);
    let timeout = reader.whole(&fleet, "timeout_ms", &range::FLEET_TIMEOUT_MS);
    for (index, pool) in pools.iter().enumerate() {
        for resource in Resource::PER_MINUTE {
            if let Some(limit) = pool.limits.get(resource).filter(|limit| *limit > LARGEST_LIMIT) {
                let name = resource.name();
                reader.fail(
                    format!("/pools/{index}/limits/{name}_per_minute"),
                    format!("must be at most {LARGEST_LIMIT} in a fleet, got {limit}"),
                );
            }
        }
    }
    Some(Fleet {
        cluster,
        prefix,
        lease: Span::from_millis(lease),
        timeout: Span::from_millis(timeout.unwrap_or(range::DEFAULT_FLEET_TIMEOUT_MS)),
        credentials: read_credentials(reader, &fleet),
    })
}

/// What a value is, for messages about a place where a password may stand by mistake.
const fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(true) => "true",
        Json::Bool(false) => "false",
        Json::Number(_) => "a number",
        Json::Text(text) if text.is_empty() => "an empty string",
        Json::Text(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

fn read_credentials(reader: &mut Reader, fleet: &Object<'_>) -> Option<String> {
    let auth = fleet.get("auth")?;
    let Json::Object(members) = auth else {
        if *auth != Json::Null {
            let reason = format!("must be an object with user and password, got {}", kind_of(auth));
            reader.fail(fleet.at("auth"), reason);
        }
        return None;
    };
    let part = |name: &str| {
        members.iter().find_map(|(key, value)| match value {
            Json::Text(text) if key == name && !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
    };
    match (part("user"), part("password")) {
        (Some(user), Some(password)) if members.len() == 2 && !user.contains(':') => {
            Some(format!("{user}:{password}"))
        }
        _ => {
            let got: Vec<String> =
                members.iter().map(|(key, value)| format!("{key:?}: {}", kind_of(value))).collect();
            let reason = "must have user (without a colon) and password, and nothing else";
            reader.fail(fleet.at("auth"), format!("{reason}, got {{{}}}", got.join(", ")));
            None
        }
    }
}
