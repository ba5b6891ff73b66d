//! `match`: globs, each checked for whether it can ever match what it is compared with.

use super::range;
use super::reader::{Object, Reader};
use super::{Glob, Match};

/// Digits of the largest port.
const MOST_PORT_DIGITS: usize = 5;

pub(super) fn read_match(reader: &mut Reader, pool: &Object<'_>) -> Match {
    let Some(matches) = reader.child(pool, "match", &["hosts", "paths", "models"]) else {
        return Match::default();
    };
    Match {
        hosts: read_globs(reader, &matches, "hosts", true, flaw_of_host),
        paths: read_globs(reader, &matches, "paths", false, flaw_of_path),
        models: read_globs(reader, &matches, "models", true, |_| None),
    }
}

fn read_globs(
    reader: &mut Reader,
    matches: &Object<'_>,
    key: &str,
    ignore_case: bool,
    flaw: fn(&str) -> Option<&'static str>,
) -> Vec<Glob> {
    let Some(items) = reader.array(matches, key) else { return Vec::new() };
    let at = matches.at(key);
    if items.is_empty() || items.len() > range::MAX_GLOBS {
        let most = range::MAX_GLOBS;
        let reason = format!("must have 1 to {most} globs, or be left out to match any, got {}", items.len());
        reader.fail(at, reason);
        return Vec::new();
    }
    let mut globs = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{at}/{index}");
        let Some(text) = reader.text(at.clone(), item) else { continue };
        match flaw(text) {
            Some(flaw) => reader.fail(at, format!("can never match: {flaw}, got {item}")),
            None => globs.push(Glob::new(text, ignore_case)),
        }
    }
    globs
}

/// What keeps a glob from ever matching an `:authority`: a name or a bracketed IPv6 address, then maybe a port.
fn flaw_of_host(glob: &str) -> Option<&'static str> {
    if glob.contains('/') {
        return Some("a host has no scheme and no path");
    }
    if glob.contains('@') {
        return Some("a host has no user");
    }
    if !glob.is_ascii() {
        return Some("an international host is compared in its ASCII form (xn--)");
    }
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte);
    if let Some(address) = glob.strip_prefix('[') {
        let (address, rest) = match address.split_once(']') {
            Some(parts) => parts,
            // Only a star can stand for the end.
            None if address.ends_with('*') => (address, ""),
            None => return Some("the bracket is not closed"),
        };
        let fits = address.bytes().all(|byte| is_name_byte(byte) || b":%".contains(&byte));
        return match (fits, address.is_empty()) {
            (true, false) => flaw_of_port(rest),
            (true, true) => Some("an IPv6 address is not empty"),
            (false, _) => Some("an IPv6 address has no such character"),
        };
    }
    let name_end = glob.find(':').unwrap_or(glob.len());
    let (name, rest) = glob.split_at_checked(name_end).unwrap_or((glob, ""));
    if !name.bytes().all(is_name_byte) {
        return Some("a host has no such character");
    }
    if name.is_empty() {
        return Some("a port has a host before it");
    }
    // One dot at the end may stand for the root; before and between dots there is something.
    let mut labels = name.strip_suffix('.').unwrap_or(name).split('.');
    if name == "*." || labels.any(str::is_empty) {
        return Some("between two dots of a host, and before its first, is a name");
    }
    flaw_of_port(rest)
}

fn flaw_of_port(rest: &str) -> Option<&'static str> {
    match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit() || byte == b'*') => {
            let digits = port.bytes().filter(u8::is_ascii_digit).count();
            let number = port.parse::<u32>().ok();
            let possible = match number {
                Some(number) => (1..=65_535).contains(&number),
                None => port.contains('*') && digits <= MOST_PORT_DIGITS,
            };
            if possible { None } else { Some("a port is a number from 1 to 65535") }
        }
        _ => Some("a port is a colon and digits, and an IPv6 address stands in brackets"),
    }
}

/// What keeps a glob from ever matching a path without its query.
fn flaw_of_path(glob: &str) -> Option<&'static str> {
    if !glob.starts_with(['/', '*']) {
        Some("a path begins with /")
    } else if glob.contains(['?', '#']) {
        Some("paths are compared without query and fragment")
    } else {
        None
    }
}
