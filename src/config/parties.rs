//! Who takes part: identity sources, classes, tenants.

use super::json::Json;
use super::range;
use super::reader::{Object, Reader, flaw_of_text};
use super::suggest::nearest;
use super::{Class, ClassId, IdentitySource, Tenant};
use crate::identity;

/// Name of the class when none is configured, and of the default class when it exists.
const DEFAULT: &str = "default";

/// Request pseudo-headers that Envoy shows under these names.
const PSEUDO_HEADERS: [&str; 4] = [":authority", ":method", ":path", ":scheme"];

/// Classes and tenants, both sorted by name: the order of JSON members means nothing (a Struct has none), and the
/// same configuration must number them alike in every worker and after every reload.
pub(super) struct Parties {
    pub(super) classes: Vec<Class>,
    /// `None` when it is wrong, which was reported.
    pub(super) default_class: Option<ClassId>,
    pub(super) tenants: Vec<Tenant>,
}

/// Sources of the tenant and of the class.
pub(super) fn read_identity(
    reader: &mut Reader,
    root: &Object<'_>,
) -> (Vec<IdentitySource>, Vec<IdentitySource>) {
    let Some(identity) = reader.child(root, "identity", &["tenant", "class"]) else {
        return (Vec::new(), Vec::new());
    };
    (read_sources(reader, &identity, "tenant"), read_sources(reader, &identity, "class"))
}

fn read_sources(reader: &mut Reader, identity: &Object<'_>, kind: &str) -> Vec<IdentitySource> {
    let items = reader.array(identity, kind).unwrap_or(&[]);
    let at = identity.at(kind);
    if items.len() > range::MAX_SOURCES {
        reader.fail(at, format!("must have at most {} sources, got {}", range::MAX_SOURCES, items.len()));
        return Vec::new();
    }
    let mut sources = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(source) = reader.object(format!("{at}/{index}"), item, &["header", "property", "api_key"])
        else {
            continue;
        };
        if source.len() != 1 {
            reader.fail(
                source.pointer(),
                format!("must hold exactly one of header, property, api_key, got {item}"),
            );
            continue;
        }
        let read = read_header(reader, &source)
            .or_else(|| read_property(reader, &source))
            .or_else(|| read_api_key(reader, &source, kind));
        sources.extend(read);
    }
    sources
}

fn read_header(reader: &mut Reader, source: &Object<'_>) -> Option<IdentitySource> {
    let json = source.get("header")?;
    let Json::Text(written) = json else {
        reader.fail(source.at("header"), format!("must be a header name, got {json}"));
        return None;
    };
    let name = written.trim().to_ascii_lowercase();
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let valid = !name.is_empty() && name.len() <= range::MAX_TEXT_BYTES && name.bytes().all(is_tchar);
    if !valid && !PSEUDO_HEADERS.contains(&name.as_str()) {
        reader.fail(source.at("header"), format!("must be a header name, got {json}"));
        return None;
    }
    Some(IdentitySource::Header(name))
}

fn read_property(reader: &mut Reader, source: &Object<'_>) -> Option<IdentitySource> {
    source.get("property")?;
    let items = reader.array(source, "property")?;
    let at = source.at("property");
    if items.is_empty() || items.len() > range::MAX_SOURCES {
        reader.fail(at, format!("must have 1 to {} path segments, got {}", range::MAX_SOURCES, items.len()));
        return None;
    }
    let mut path = Vec::new();
    for (index, item) in items.iter().enumerate() {
        path.push(reader.text(format!("{at}/{index}"), item)?.to_owned());
    }
    Some(IdentitySource::Property(path))
}

fn read_api_key(reader: &mut Reader, source: &Object<'_>, kind: &str) -> Option<IdentitySource> {
    let json = source.get("api_key")?;
    if kind != "tenant" {
        reader.fail(source.at("api_key"), format!("can name a tenant only, never a class, got {json}"));
        return None;
    }
    if *json != Json::Bool(true) {
        reader
            .fail(source.at("api_key"), format!("must be true (leave the source out otherwise), got {json}"));
        return None;
    }
    Some(IdentitySource::ApiKey)
}

/// Classes, the default class and tenants.
pub(super) fn read_parties(reader: &mut Reader, root: &Object<'_>) -> Parties {
    let classes = read_classes(reader, root);
    let default_class = read_default_class(reader, root, &classes);
    let tenants = read_tenants(reader, root, &classes);
    Parties { classes, default_class, tenants }
}

fn read_classes(reader: &mut Reader, root: &Object<'_>) -> Vec<Class> {
    let mut classes = Vec::new();
    for (name, entry) in named(reader, root, "classes", range::MAX_CLASSES, &["weight"]) {
        let weight = read_weight(reader, &entry).unwrap_or(range::DEFAULT_WEIGHT);
        classes.push(Class { name: name.to_owned(), weight });
    }
    if classes.is_empty() {
        classes.push(Class { name: DEFAULT.to_owned(), weight: range::DEFAULT_WEIGHT });
    }
    classes
}

fn read_default_class(reader: &mut Reader, root: &Object<'_>, classes: &[Class]) -> Option<ClassId> {
    let at = root.at("default_class");
    let Some(json) = root.get("default_class") else {
        let only = if classes.len() == 1 { Some(ClassId(0)) } else { None };
        let found = find_class(classes, DEFAULT).or(only);
        if found.is_none() {
            reader.fail(at, format!("must name one of the classes ({}), got nothing", names(classes)));
        }
        return found;
    };
    let name = reader.text(at.clone(), json)?;
    expect_class(reader, at, classes, name)
}

fn read_tenants(reader: &mut Reader, root: &Object<'_>, classes: &[Class]) -> Vec<Tenant> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for (name, entry) in named(reader, root, "tenants", range::MAX_TENANTS, &["weight", "classes"]) {
        let weight = read_weight(reader, &entry).unwrap_or(range::DEFAULT_WEIGHT);
        let allowed = read_allowed(reader, &entry, classes);
        let key = identity::key_of_named(name, |key| tenants.iter().any(|other| other.key == key));
        tenants.push(Tenant { name: name.to_owned(), key, weight, classes: allowed });
    }
    tenants
}

fn read_allowed(reader: &mut Reader, tenant: &Object<'_>, classes: &[Class]) -> Option<Vec<ClassId>> {
    let items = reader.array(tenant, "classes")?;
    let at = tenant.at("classes");
    if items.is_empty() {
        reader.fail(at, "must name at least one class, or be left out for all, got []");
        return None;
    }
    let mut allowed = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{at}/{index}");
        let Some(name) = reader.text(at.clone(), item) else { continue };
        match expect_class(reader, at.clone(), classes, name) {
            Some(class) if allowed.contains(&class) => {
                reader.fail(at, format!("is named twice, got {name:?}"))
            }
            Some(class) => allowed.push(class),
            None => {}
        }
    }
    Some(allowed)
}

/// The members of an optional map from names to objects, sorted by name.
pub(super) fn named<'a>(
    reader: &mut Reader,
    parent: &Object<'a>,
    key: &str,
    most: usize,
    known: &[&str],
) -> Vec<(&'a str, Object<'a>)> {
    let Some(map) = parent.get(key).and_then(|json| reader.map(parent.at(key), json)) else {
        return Vec::new();
    };
    if map.len() > most {
        reader.fail(map.pointer(), format!("must have at most {most} members, got {}", map.len()));
        return Vec::new();
    }
    let mut found = Vec::new();
    for (name, json, at) in map.entries() {
        if let Some(flaw) = flaw_of_text(name) {
            reader.fail(at, format!("name {flaw}, got {name:?}"));
        } else if let Some(entry) = reader.object(at, json, known) {
            found.push((name, entry));
        }
    }
    crate::sorted::sorted(found, |(a, _), (b, _)| a.cmp(b))
}

pub(super) fn read_weight(reader: &mut Reader, entry: &Object<'_>) -> Option<u32> {
    reader.whole32(entry, "weight", &range::WEIGHT)
}

pub(super) fn find_class(classes: &[Class], name: &str) -> Option<ClassId> {
    classes
        .iter()
        .position(|class| class.name == name)
        .and_then(|index| u8::try_from(index).ok())
        .map(ClassId)
}

/// A class that must exist.
pub(super) fn expect_class(
    reader: &mut Reader,
    pointer: String,
    classes: &[Class],
    name: &str,
) -> Option<ClassId> {
    let found = find_class(classes, name);
    if found.is_none() {
        let hint = match nearest(name, classes.iter().map(|class| class.name.as_str())) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("known are {}", names(classes)),
        };
        reader.fail(pointer, format!("no such class, got {name:?}, {hint}"));
    }
    found
}

fn names(classes: &[Class]) -> String {
    classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ")
}
