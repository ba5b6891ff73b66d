//! Who calls: tenant and class.
//!
//! Only the configured sources count. The first that gives a value decides; a value that is empty or not UTF-8 is
//! no value. Nothing in a body ever selects a tenant or a class, and no class is had by asking for one that the
//! tenant may not use.

use crate::config::{Class, ClassId, Config, IdentitySource};
use crate::gate::TenantKey;
use crate::hash::hash64;

/// Name of the tenant of calls that name none.
pub const DEFAULT_TENANT_NAME: &str = "default";
/// Key of that tenant, whether it is configured or not.
pub const DEFAULT_TENANT: TenantKey = TenantKey(0x7FFF_FFFF);
/// Name under which metrics and pages show all tenants that the configuration does not name.
pub const OTHER_TENANTS_NAME: &str = "other";

/// Request headers that may hold a caller's credential, in the order they are tried.
pub const CREDENTIAL_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Set in the keys of unnamed tenants, clear in those of named ones.
const UNNAMED: u32 = 0x8000_0000;
/// Sizes of doubles that are taken for doubles.
const LIKELY: core::ops::RangeInclusive<f64> = 1e-6..=9e15;
const NAME_SEED: u64 = 0x0062_702E_6E61_6D65;
const CREDENTIAL_SEED: u64 = 0x0062_702E_6B65_7973;

/// The outcome of [`resolve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A class that the tenant may use, or the default class.
    pub class: ClassId,
    /// Who is accounted.
    pub tenant: TenantKey,
    /// Index in [`Config::tenants`], when the configuration names the tenant.
    pub tenant_index: Option<usize>,
}

impl Identity {
    /// See [`tenant_name`].
    pub fn tenant_name<'a>(&self, config: &'a Config) -> &'a str {
        match self.tenant_index.and_then(|index| config.tenants.get(index)) {
            Some(tenant) => &tenant.name,
            None => tenant_name(config, self.tenant),
        }
    }

    /// Name of the class.
    pub fn class_name<'a>(&self, config: &'a Config) -> &'a str {
        config.classes.get(usize::from(self.class.0)).map_or("", |class| &class.name)
    }
}

/// Name of a tenant for metrics, logs and pages, by its key in shared state: the configured one, `default`, or `other`.
/// Never text from a request.
pub fn tenant_name(config: &Config, key: TenantKey) -> &str {
    match config.tenants.iter().find(|tenant| tenant.key == key) {
        Some(tenant) => &tenant.name,
        None if key == DEFAULT_TENANT => DEFAULT_TENANT_NAME,
        None => OTHER_TENANTS_NAME,
    }
}

/// Finds tenant and class of a call.
///
/// `lookup` reads one source from the call: the first value of a header, an attribute, or for
/// [`IdentitySource::ApiKey`] the raw credential (see [`credential`]), which is hashed here and not kept.
///
/// A class that is not configured, or that the tenant may not use, becomes the default class, even when the tenant's
/// list lacks that one too: a call has to wait somewhere, and the default class is the one meant for strangers.
pub fn resolve(config: &Config, lookup: &mut dyn FnMut(&IdentitySource) -> Option<Vec<u8>>) -> Identity {
    let tenant_name = first_hit(&config.tenant_sources, lookup);
    let tenant_name = tenant_name.as_deref().unwrap_or(DEFAULT_TENANT_NAME);
    let by_name = config.tenants.binary_search_by(|tenant| tenant.name.as_str().cmp(tenant_name));
    let tenant_index = by_name.ok();
    let named = tenant_index.and_then(|index| config.tenants.get(index));
    let tenant = named.map_or_else(|| key_of_unnamed(tenant_name), |tenant| tenant.key);
    let allowed = named.and_then(|tenant| tenant.classes.as_deref());
    let class = first_hit(&config.class_sources, lookup)
        .and_then(|name| find_class(&config.classes, &name))
        .filter(|class| allowed.is_none_or(|allowed| allowed.contains(class)))
        .unwrap_or(config.default_class);
    Identity { class, tenant, tenant_index }
}

/// The first credential among [`CREDENTIAL_HEADERS`] that holds anything; `header` reads the first value of a header.
pub fn credential(header: &mut dyn FnMut(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    CREDENTIAL_HEADERS.iter().find_map(|name| header(name).filter(|value| !secret_part(value).is_empty()))
}

/// Tenant name of a caller known by its credential: 16 hexadecimal digits of a hash. It can be named in `tenants`.
///
/// The name is that of the secret alone: the scheme `Bearer` before it does not matter, so that the same key is the
/// same tenant in any of the headers. Of an AWS signature only the access key id counts, since the rest differs from
/// call to call.
pub fn name_of_credential(credential: &[u8]) -> String {
    format!("{:016x}", hash64(CREDENTIAL_SEED, secret_part(credential)))
}

/// Key of a tenant that the configuration names; `taken` tells which keys others already have.
///
/// A hash and not an index, so that adding a tenant does not hand one's history to another at the next reload.
pub(crate) fn key_of_named(name: &str, taken: impl Fn(TenantKey) -> bool) -> TenantKey {
    if name == DEFAULT_TENANT_NAME {
        return DEFAULT_TENANT;
    }
    let mut key = low_bits(name);
    // Ends: there are far fewer tenants than keys.
    while key == DEFAULT_TENANT || taken(key) {
        key = TenantKey(key.0.wrapping_add(1) & !UNNAMED);
    }
    key
}

fn key_of_unnamed(name: &str) -> TenantKey {
    if name == DEFAULT_TENANT_NAME { DEFAULT_TENANT } else { TenantKey(low_bits(name).0 | UNNAMED) }
}

fn low_bits(name: &str) -> TenantKey {
    TenantKey((hash64(NAME_SEED, name.as_bytes()) as u32) & !UNNAMED)
}

fn first_hit(
    sources: &[IdentitySource],
    lookup: &mut dyn FnMut(&IdentitySource) -> Option<Vec<u8>>,
) -> Option<String> {
    sources.iter().find_map(|source| {
        let value = lookup(source)?;
        let name = match source {
            IdentitySource::ApiKey if secret_part(&value).is_empty() => return None,
            IdentitySource::ApiKey => name_of_credential(&value),
            IdentitySource::Header(_) => String::from_utf8(value).ok()?,
            IdentitySource::Property(_) => text_of_property(value)?,
        };
        (!name.is_empty()).then_some(name)
    })
}

/// An attribute as text. Envoy gives numbers as eight bytes (a double, or a whole number) and truth values as one; what
/// holds no control byte is a text of that length.
fn text_of_property(value: Vec<u8>) -> Option<String> {
    if let [truth @ (0 | 1)] = value[..] {
        return Some((truth == 1).to_string());
    }
    if let (Ok(bytes), true) = (<[u8; 8]>::try_from(&value[..]), is_no_text(&value)) {
        let (whole, double) = (i64::from_le_bytes(bytes), f64::from_le_bytes(bytes));
        // A whole number of any likely size is no likely double, and the other way round.
        #[allow(clippy::cast_possible_truncation)]
        return Some(match LIKELY.contains(&double.abs()) {
            true if double.fract() == 0.0 => (double as i64).to_string(),
            // The JSON library's writer is in the module anyway; that of the standard library would be 18 KiB more.
            true => serde_json::Number::from_f64(double)?.to_string(),
            false => whole.to_string(),
        });
    }
    String::from_utf8(value).ok()
}

fn is_no_text(value: &[u8]) -> bool {
    core::str::from_utf8(value).map_or(true, |text| text.chars().any(char::is_control))
}

fn find_class(classes: &[Class], name: &str) -> Option<ClassId> {
    classes
        .iter()
        .position(|class| class.name == name)
        .and_then(|index| u8::try_from(index).ok())
        .map(ClassId)
}

fn secret_part(credential: &[u8]) -> &[u8] {
    let credential = credential.trim_ascii();
    let scheme_end = credential.iter().position(u8::is_ascii_whitespace).unwrap_or(credential.len());
    let (scheme, rest) = credential.split_at_checked(scheme_end).unwrap_or((credential, &[]));
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return rest.trim_ascii_start();
    }
    if scheme.starts_with(b"AWS4-") {
        let mut parameters = rest.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let found = parameters.find_map(|parameter| parameter.strip_prefix(b"Credential="));
        if let Some(scope) = found {
            return scope.split(|byte| *byte == b'/').next().unwrap_or(scope);
        }
    }
    credential
}
