//! A request path cut into decoded segments.

use std::borrow::Cow;

/// The segments of a path, without query and empty segments, percent-decoded once each.
///
/// Cut before decoding, so that an encoded slash stays inside its segment (Bedrock model ARNs). `.` and `..` are walked,
/// as servers do behind an Envoy that does not.
pub(super) struct Place<'a> {
    segments: Vec<Cow<'a, str>>,
    query: &'a [u8],
}

impl<'a> Place<'a> {
    pub(super) fn new(path: &'a [u8]) -> Self {
        let mut halves = path.splitn(2, |&byte| byte == b'?' || byte == b'#');
        let segments = halves.next().unwrap_or_default().split(|&byte| byte == b'/');
        let mut found: Vec<Cow<'_, str>> = Vec::new();
        for segment in segments.filter(|segment| !segment.is_empty()).map(decode) {
            match &*segment {
                "." => {}
                ".." => {
                    found.pop();
                }
                _ => found.push(segment),
            }
        }
        Self { segments: found, query: halves.next().unwrap_or_default() }
    }

    /// The segment `back` places before the last one.
    pub(super) fn back(&self, back: usize) -> Option<&str> {
        let at = self.segments.len().checked_sub(back.checked_add(1)?)?;
        self.segments.get(at).map(AsRef::as_ref)
    }

    /// The path ends in these segments; letter case does not matter, as on most servers that route these.
    pub(super) fn ends_with(&self, tail: &[&str]) -> bool {
        tail.iter()
            .rev()
            .enumerate()
            .all(|(back, name)| self.back(back).is_some_and(|found| found.eq_ignore_ascii_case(name)))
    }

    /// What stands between the last segment called `name` and the final segment, joined by slashes.
    pub(super) fn between(&self, name: &str) -> Option<String> {
        let start = self.segments.iter().position(|segment| segment.eq_ignore_ascii_case(name))?;
        let inner = self.segments.get(start.checked_add(1)?..self.segments.len().checked_sub(1)?)?;
        (!inner.is_empty()).then(|| inner.join("/"))
    }

    /// The last segment cut at its last colon: `{model}:{verb}`.
    pub(super) fn model_and_verb(&self) -> Option<(&str, &str)> {
        self.back(0)?.rsplit_once(':')
    }

    /// The query has a parameter of that name.
    pub(super) fn has_parameter(&self, name: &str) -> bool {
        self.query
            .split(|&byte| byte == b'&')
            .any(|pair| pair.split(|&byte| byte == b'=').next() == Some(name.as_bytes()))
    }
}

/// The path as servers see it that decode all of it before they look for a route, and leave out the parameters of segments.
/// `None` when that is the same.
pub(super) fn plain(path: &[u8]) -> Option<Vec<u8>> {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(path.len());
    let (place, query) = path.split_at_checked(end)?;
    if !place.iter().any(|byte| matches!(byte, b'%' | b';')) {
        return None;
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in decode(place).split('/') {
        out.extend_from_slice(segment.split(';').next().unwrap_or_default().as_bytes());
        out.push(b'/');
    }
    out.extend_from_slice(query);
    Some(out)
}

/// Decodes `%XX` once; a broken escape stays as it is, bytes that are not UTF-8 become U+FFFD.
fn decode(segment: &[u8]) -> Cow<'_, str> {
    if !segment.contains(&b'%') {
        return String::from_utf8_lossy(segment);
    }
    let mut decoded = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = match (byte, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            decoded.push((high << 4) | low);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            decoded.push(byte);
            rest = tail;
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
