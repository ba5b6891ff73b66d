//! Who a call is accounted to, and what cannot be had by asking.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::HashSet;

use envoy_backpressure::config::{Config, IdentitySource, parse};
use envoy_backpressure::gate::TenantKey;
use envoy_backpressure::identity::{DEFAULT_TENANT, Identity, credential, name_of_credential, resolve};

const SOURCES: &str = r#"{"tenant": [{"property": ["metadata", "org"]}, {"header": "X-Tenant"}, {"api_key": true}],
    "class": [{"header": "x-priority"}]}"#;

fn config(tenants: &str) -> Config {
    let text = format!(
        r#"{{"identity": {SOURCES}, "classes": {{"high": {{"weight": 4}}, "normal": {{"weight": 2}}, "low": {{}}}},
            "default_class": "normal", "tenants": {tenants},
            "pools": [{{"name": "p", "limits": {{"requests_per_minute": 1}}, "tenants": {{}}, "classes": {{"low": {{"weight": 9}}}}}}]}}"#
    );
    parse(text.as_bytes()).unwrap()
}

fn bench() -> Config {
    config(r#"{"acme": {"weight": 3, "classes": ["normal", "low"]}, "beta": {}}"#)
}

/// Resolves a call with these headers; `org` is the attribute, `key` the credential.
fn who(config: &Config, values: &[(&str, &[u8])]) -> Identity {
    let value = |name: &str| values.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_vec());
    resolve(config, &mut |source| match source {
        IdentitySource::Header(name) => value(name),
        IdentitySource::Property(path) => value(path.last().unwrap()),
        IdentitySource::ApiKey => value("key"),
    })
}

fn class_of(config: &Config, tenant: &str, class: &[u8]) -> String {
    who(config, &[("x-tenant", tenant.as_bytes()), ("x-priority", class)]).class_name(config).to_owned()
}

#[test]
fn the_first_source_that_gives_a_value_decides() {
    let config = bench();
    let named = |values: &[(&str, &[u8])]| who(&config, values).tenant_name(&config).to_owned();
    assert_eq!(named(&[("org", b"acme"), ("x-tenant", b"beta")]), "acme");
    assert_eq!(named(&[("x-tenant", b"beta")]), "beta");
    assert_eq!(named(&[("org", b""), ("x-tenant", b"beta")]), "beta");
    assert_eq!(named(&[("org", b"\xC0\xA7"), ("x-tenant", b"beta")]), "beta");
    assert_eq!(named(&[("org", b"nobody"), ("x-tenant", b"beta")]), "other");
}

#[test]
fn calls_without_a_name_share_the_default_tenant() {
    let config = bench();
    for values in [&[][..], &[("x-tenant", &b""[..])], &[("x-tenant", b"\xFF")], &[("key", b"Bearer  ")]] {
        let identity = who(&config, values);
        assert_eq!(identity.tenant, DEFAULT_TENANT);
        assert_eq!(identity.tenant_index, None);
        assert_eq!(identity.tenant_name(&config), "default");
        assert_eq!(config.pools[0].flow(&identity).tenant_weight, 1);
    }
}

#[test]
fn a_configured_tenant_named_default_applies_to_them() {
    let config = config(r#"{"default": {"weight": 7, "classes": ["low"]}}"#);
    let identity = who(&config, &[("x-priority", b"high")]);
    assert_eq!((identity.tenant, identity.tenant_index), (DEFAULT_TENANT, Some(0)));
    assert_eq!(config.pools[0].flow(&identity).tenant_weight, 7);
}

#[test]
fn a_class_is_not_had_by_asking_for_it() {
    let config = bench();
    for class in [&b"high"[..], b"HIGH", b"urgent", b"0", b"-1", b"", b"high, low", b"high,high", b"\xFF"] {
        assert_eq!(class_of(&config, "acme", class), "normal", "{class:?}");
    }
    assert_eq!(class_of(&config, "acme", b"low"), "low");
    assert_eq!(class_of(&config, "beta", b"high"), "high");
    assert_eq!(class_of(&config, "stranger", b"high"), "high");
}

#[test]
fn a_tenant_that_may_not_use_the_default_class_falls_into_it_all_the_same() {
    let config = config(r#"{"acme": {"classes": ["low"]}}"#);
    assert_eq!(class_of(&config, "acme", b"high"), "normal");
    assert_eq!(class_of(&config, "acme", b"low"), "low");
}

#[test]
fn unnamed_tenants_are_told_apart_but_not_named() {
    let config = bench();
    let keys: HashSet<TenantKey> = (0..1_000)
        .map(|i| {
            let identity = who(&config, &[("x-tenant", format!("stranger-{i}").as_bytes())]);
            assert_eq!(identity.tenant_name(&config), "other");
            assert!(identity.tenant.0 >= 0x8000_0000);
            identity.tenant
        })
        .collect();
    assert!(keys.len() >= 999);
}

#[test]
fn named_tenants_keep_their_keys_when_others_come_and_go() {
    let key = |config: &Config, name: &str| {
        let identity = who(config, &[("x-tenant", name.as_bytes())]);
        assert!(identity.tenant.0 < 0x8000_0000 && identity.tenant != DEFAULT_TENANT);
        identity.tenant
    };
    let before = bench();
    let after = config(r#"{"aaa": {}, "beta": {}, "zzz": {}, "acme": {}}"#);
    assert_eq!(key(&before, "beta"), key(&after, "beta"));
    assert_eq!(key(&before, "acme"), key(&after, "acme"));
    assert_ne!(key(&after, "acme"), key(&after, "beta"));
}

#[test]
fn weights_of_the_pool_go_before_those_of_the_whole() {
    let config = bench();
    let flow =
        |class: &[u8]| config.pools[0].flow(&who(&config, &[("x-tenant", b"acme"), ("x-priority", class)]));
    assert_eq!((flow(b"low").class_weight, flow(b"low").tenant_weight), (9, 3));
    assert_eq!(flow(b"normal").class_weight, 2);
}

#[test]
fn a_credential_names_the_same_tenant_in_every_header() {
    let name = name_of_credential(b"sk-123");
    assert_eq!(name.len(), 16);
    assert!(!name.contains("sk-"));
    for same in [&b"Bearer sk-123"[..], b"bearer   sk-123", b"  BEARER sk-123 ", b"sk-123 "] {
        assert_eq!(name_of_credential(same), name, "{}", String::from_utf8_lossy(same));
    }
    assert_ne!(name_of_credential(b"Bearer sk-124"), name);
    assert_ne!(name_of_credential(b"Basic sk-123"), name);
}

#[test]
fn signatures_that_change_with_every_call_name_one_tenant() {
    let signed = |date: &str, signature: &str| {
        let scope = format!("Credential=AKIDEXAMPLE/{date}/us-east-1/bedrock/aws4_request");
        let header =
            format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host;x-amz-date, Signature={signature}");
        name_of_credential(header.as_bytes())
    };
    assert_eq!(signed("20260101", "aa"), signed("20260102", "bb"));
}

#[test]
fn a_configured_tenant_may_be_named_by_its_credential() {
    let config = config(&format!(r#"{{"{}": {{"weight": 5}}}}"#, name_of_credential(b"sk-123")));
    assert_eq!(who(&config, &[("key", b"Bearer sk-123")]).tenant_index, Some(0));
    assert_eq!(who(&config, &[("key", b"Bearer sk-999")]).tenant_index, None);
}

#[test]
fn an_empty_credential_does_not_hide_the_next_one() {
    let mut header = |name: &str| match name {
        "authorization" => Some(b"Bearer ".to_vec()),
        "x-api-key" => Some(b"sk-123".to_vec()),
        _ => None,
    };
    assert_eq!(credential(&mut header).unwrap(), b"sk-123");
    assert_eq!(credential(&mut |_| None), None);
}

#[test]
fn numbers_and_truth_values_of_attributes_are_read_as_their_text() {
    let config =
        config(r#"{"42": {}, "-7": {}, "1.5": {}, "true": {}, "false": {}, "0": {}, "12345678": {}}"#);
    let named = |value: &[u8]| who(&config, &[("org", value)]).tenant_name(&config).to_owned();
    for (value, name) in [
        (42.0_f64.to_le_bytes(), "42"),
        (42_i64.to_le_bytes(), "42"),
        ((-7.0_f64).to_le_bytes(), "-7"),
        ((-7_i64).to_le_bytes(), "-7"),
        (1.5_f64.to_le_bytes(), "1.5"),
        (0_i64.to_le_bytes(), "0"),
        (12_345_678.0_f64.to_le_bytes(), "12345678"),
        (*b"12345678", "12345678"),
        (f64::NAN.to_le_bytes(), "other"),
    ] {
        assert_eq!(named(&value), name, "{value:?}");
    }
    assert_eq!((named(&[1]).as_str(), named(&[0]).as_str()), ("true", "false"));
    assert_eq!(named(b"true"), "true");
    assert_eq!(who(&config, &[("x-tenant", &42_i64.to_le_bytes())]).tenant_index, None, "a header is text");
}
