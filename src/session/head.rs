//! What the request headers tell: is the call metered, and must its body be read?

use std::rc::Rc;

use super::{Head, Phase, Plan, Session};
use crate::config::IdentitySource;
use crate::cost::dialect;
use crate::identity;
use crate::observe::Recorder;
use crate::pool;

/// Header names and values as the host gives them: lower-case names, raw bytes.
pub type Headers<'a> = [(&'a [u8], &'a [u8])];

/// First value of a header.
pub fn first<'a>(headers: &Headers<'a>, name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| *value)
}

impl Session {
    /// Begins a POST. `property` reads an Envoy attribute.
    pub fn begin(
        plan: &Rc<Plan>,
        headers: &Headers<'_>,
        property: &mut dyn FnMut(&[String]) -> Option<Vec<u8>>,
        recorder: &mut dyn Recorder,
    ) -> Self {
        let path = first(headers, ":path").unwrap_or_default();
        let host = first(headers, ":authority").unwrap_or_default();
        let endpoint = dialect::classify(path, None);
        let candidates = pool::candidates(&plan.config, host, path, endpoint.is_some());
        if candidates.is_empty() {
            if endpoint.is_some() {
                recorder.unmatched();
            }
            return Self::passed(Rc::clone(plan));
        }
        let identity = identity::resolve(&plan.config, &mut |source| match source {
            IdentitySource::Header(name) => first(headers, name).map(<[u8]>::to_vec),
            IdentitySource::Property(path) => property(path),
            IdentitySource::ApiKey => {
                identity::credential(&mut |name| first(headers, name).map(<[u8]>::to_vec))
            }
        });
        let head = Head {
            path: path.to_vec(),
            candidates,
            endpoint,
            identity,
            content_length: first(headers, "content-length").and_then(parse_length),
            is_sealed: is_sealed(headers),
        };
        Self::new(Rc::clone(plan), Phase::Undecided, Some(head))
    }

    /// True when some pool takes the call whatever model its body names.
    pub fn is_surely_metered(&self) -> bool {
        self.head.as_ref().is_some_and(|head| pool::pick(&self.plan.config, &head.candidates, None).is_some())
    }

    /// Takes note that the request headers went on before the decision.
    pub const fn note_headers_left(&mut self) {
        self.headers_left = true;
    }

    /// True when the request headers went on before the decision.
    pub const fn headers_left(&self) -> bool {
        self.headers_left
    }

    /// True when the whole body may be held back and read. A body whose length is unknown or above the limit is
    /// decided at its first bytes: holding more than the host's buffer takes makes the host answer 413 itself.
    pub fn may_hold_body(&self) -> bool {
        let limit = u64::try_from(self.plan.config.body_limit_bytes).unwrap_or(u64::MAX);
        self.head.as_ref().and_then(|head| head.content_length).is_some_and(|length| length <= limit)
    }
}

fn parse_length(value: &[u8]) -> Option<u64> {
    core::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// The body cannot be changed: it is compressed, or under a checksum or a signature.
fn is_sealed(headers: &Headers<'_>) -> bool {
    let seals = [("digest", ""), ("content-digest", ""), ("content-md5", ""), ("authorization", "AWS4-")];
    first(headers, "content-encoding").is_some_and(|value| !is_identity(value))
        || seals.iter().any(|(name, start)| {
            first(headers, name).is_some_and(|value| value.starts_with(start.as_bytes()))
        })
}

fn is_identity(value: &[u8]) -> bool {
    let text = value.trim_ascii();
    text.is_empty() || text.eq_ignore_ascii_case(b"identity")
}

#[cfg(test)]
mod tests {
    use super::is_sealed;

    #[test]
    fn bodies_that_are_compressed_or_signed_are_not_changed() {
        for (name, value, sealed) in [
            ("content-encoding", "gzip", true),
            ("content-encoding", " identity", false),
            ("authorization", "AWS4-HMAC-SHA256 Credential=a/b, Signature=c", true),
            ("authorization", "Bearer AWS4-HMAC-SHA256", false),
            ("digest", "SHA-256=x", true),
            ("content-digest", "sha-256=:x:", true),
            ("content-md5", "x", true),
            ("x-digest", "x", false),
        ] {
            assert_eq!(is_sealed(&[(name.as_bytes(), value.as_bytes())]), sealed, "{name}: {value}");
        }
    }
}
