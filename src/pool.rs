//! Which cap a call falls under.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::config::{ClassId, Config, Glob, Match, Pool};
use crate::cost::dialect;
use crate::gate::{Flow, Policy};
use crate::identity::Identity;
use crate::units::Span;

/// What decides on the pool of a call. The method is not part of it: only POST is ever metered.
#[derive(Clone, Copy, Debug)]
pub struct CallSite<'a> {
    /// `:authority`, with or without a port.
    pub host: &'a [u8],
    /// `:path`, with or without a query.
    pub path: &'a [u8],
    /// The model from the body, else from the path; `None` when neither tells.
    pub model: Option<&'a str>,
}

/// The first pool that matches, with its index in [`Config::pools`].
///
/// A call without a readable model falls to the first pool that does not ask for one.
pub fn find<'a>(config: &'a Config, call: &CallSite<'_>) -> Option<(usize, &'a Pool)> {
    let site = Site::new(call.host, call.path);
    let mut pools = config.pools.iter().enumerate();
    pools.find(|(_, pool)| site.is_in(&pool.matches) && takes_model(pool, call.model))
}

/// Whether host and path leave any pool possible, so that the body is worth reading.
pub fn may_match(config: &Config, host: &[u8], path: &[u8]) -> bool {
    let site = Site::new(host, path);
    config.pools.iter().any(|pool| site.is_in(&pool.matches))
}

/// Indices of the pools that host and path leave possible, in order, for [`pick`] once the model is known.
///
/// The two together say the same as [`find`] and look at host and path only once. `known_endpoint` tells whether
/// [`dialect::classify`] knows the path, which the caller has found out already.
pub fn candidates(config: &Config, host: &[u8], path: &[u8], known_endpoint: bool) -> Vec<usize> {
    let site = Site::new(host, path);
    let _ = site.generation.set(known_endpoint);
    let pools = config.pools.iter().enumerate();
    pools.filter(|(_, pool)| site.is_in(&pool.matches)).map(|(index, _)| index).collect()
}

/// The first of the [`candidates`] that takes the model.
pub fn pick<'a>(config: &'a Config, candidates: &[usize], model: Option<&str>) -> Option<(usize, &'a Pool)> {
    let mut pools = candidates.iter().filter_map(|index| config.pools.get(*index).map(|pool| (*index, pool)));
    pools.find(|(_, pool)| takes_model(pool, model))
}

fn takes_model(pool: &Pool, model: Option<&str>) -> bool {
    let globs = &pool.matches.models;
    globs.is_empty() || model.is_some_and(|model| globs.iter().any(|glob| glob.matches(model.as_bytes())))
}

struct Site<'a> {
    host: &'a [u8],
    bare_host: &'a [u8],
    /// With its query, which tells some dialects apart.
    full_path: &'a [u8],
    path: &'a [u8],
    /// Percent-decoded once; `%3A` and `:` are the same path to most servers.
    decoded_path: Cow<'a, [u8]>,
    /// Whether it is an endpoint of a known dialect; found out when a pool asks.
    generation: OnceCell<bool>,
}

impl<'a> Site<'a> {
    fn new(host: &'a [u8], full_path: &'a [u8]) -> Self {
        let path = full_path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or(full_path);
        Self {
            host,
            bare_host: without_port(host),
            full_path,
            path,
            decoded_path: percent_decoded(path),
            generation: OnceCell::new(),
        }
    }

    fn is_in(&self, matches: &Match) -> bool {
        (matches.hosts.is_empty() || matches.hosts.iter().any(|glob| self.host_fits(glob)))
            && (if matches.paths.is_empty() { self.is_generation() } else { self.path_fits(&matches.paths) })
    }

    fn host_fits(&self, glob: &Glob) -> bool {
        let names_port = without_port(glob.pattern().as_bytes()).len() < glob.pattern().len();
        glob.matches(if names_port { self.host } else { self.bare_host })
    }

    fn path_fits(&self, globs: &[Glob]) -> bool {
        let free = is_free(&self.decoded_path);
        globs.iter().filter(|glob| !free || !glob.has_star()).any(|glob| {
            glob.matches(self.path) || (self.decoded_path != self.path && glob.matches(&self.decoded_path))
        })
    }

    fn is_generation(&self) -> bool {
        *self.generation.get_or_init(|| dialect::classify(self.full_path, None).is_some())
    }
}

/// Endpoints that providers do not count: a glob with a star never means them, only one that names them in full.
fn is_free(path: &[u8]) -> bool {
    const FREE: [&[u8]; 7] = [
        b"count_tokens",
        b"count-tokens",
        b"countTokens",
        b"input_tokens",
        b"tokenize",
        b"detokenize",
        b"moderations",
    ];
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    last.split(|byte| *byte == b':').any(|piece| FREE.contains(&piece))
}

/// A host or host glob without `:port`; the colons of an IPv6 address in brackets are left alone.
fn without_port(host: &[u8]) -> &[u8] {
    let is_port = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'*');
    match host.iter().rposition(|byte| *byte == b':').and_then(|colon| host.split_at_checked(colon)) {
        Some((name, [_, port @ ..])) if is_port(port) => name,
        _ => host,
    }
}

fn percent_decoded(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let escape = match after {
            [high, low, behind @ ..] if byte == b'%' => {
                hex(*high).zip(hex(*low)).map(|(high, low)| ((high << 4) | low, behind))
            }
            _ => None,
        };
        let (byte, behind) = escape.unwrap_or((byte, after));
        decoded.push(byte);
        rest = behind;
    }
    Cow::Owned(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

impl Pool {
    /// What the gate needs to know of this pool.
    pub fn policy(&self, config: &Config) -> Policy {
        Policy {
            limits: self.limits,
            burst: self.burst,
            strict_window: self.strict_window,
            reservation_ttl: config.reservation_ttl,
        }
    }

    /// The flow of a caller in this pool. Tenants that the configuration does not name weigh 1.
    pub fn flow(&self, identity: &Identity) -> Flow {
        let class = usize::from(identity.class.0);
        let tenant_weight = identity.tenant_index.and_then(|index| self.tenant_weights.get(index));
        Flow {
            class: identity.class,
            tenant: identity.tenant,
            class_weight: self.class_weights.get(class).copied().unwrap_or(1),
            tenant_weight: tenant_weight.copied().unwrap_or(1),
        }
    }

    /// Longest park of a class in this pool.
    pub fn max_wait(&self, class: ClassId) -> Span {
        self.max_wait.get(usize::from(class.0)).copied().unwrap_or(Span::ZERO)
    }
}
