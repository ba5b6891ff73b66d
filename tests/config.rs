//! The configuration contract: what is accepted, what it means, and how each mistake is told.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::{Path, PathBuf};

use envoy_backpressure::config::{
    Class, ClassId, Config, IdentitySource, Learn, LlmTokenWeights, Mode, OutputReserve, PRESETS, parse,
    parse_all,
};
use envoy_backpressure::cost::dialect::Dialect;
use envoy_backpressure::units::{Resource, Span};

fn files(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(kind);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn good(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/good").join(name);
    parse(&std::fs::read(path).unwrap()).unwrap()
}

/// A configuration with one pool whose members are the given ones.
fn with_pool(members: &str) -> String {
    format!(r#"{{"pools": [{{"name": "p", "limits": {{"requests_per_minute": 1}}, {members}}}]}}"#)
}

/// A sound configuration with further members at the top.
fn with_root(members: &str) -> String {
    format!(r#"{{{members}, "pools": [{{"name": "p", "limits": {{"requests_per_minute": 1}}}}]}}"#)
}

#[track_caller]
fn refused(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok(config) => panic!("accepted: {text}\n{config:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_good_file_is_accepted() {
    for path in files("good") {
        let text = std::fs::read(&path).unwrap();
        if let Err(errors) = parse_all(&text) {
            panic!("{}: {errors:?}", path.display());
        }
    }
}

/// Each line of `bad/*.jsonl` is `{"config": ..., "error": "..."}`, or has `"text"` when it is not JSON.
#[test]
fn every_bad_example_is_refused_with_its_place_and_reason() {
    for path in files("bad") {
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let example: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = match example.get("text") {
                Some(text) => text.as_str().unwrap().to_owned(),
                None => example["config"].to_string(),
            };
            let expected = example["error"].as_str().unwrap();
            assert_eq!(refused(&text), expected, "{}:{}", path.display(), number + 1);
        }
    }
}

/// A place, a reason, and the value: what stands in the log has to be enough to mend the file.
#[test]
fn every_message_has_the_place_the_reason_and_the_value() {
    for path in files("bad") {
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let example: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(config) = example.get("config") else { continue };
            for error in parse_all(config.to_string().as_bytes()).unwrap_err() {
                assert!(error.pointer.is_empty() || error.pointer.starts_with('/'), "{error:?}");
                let value = error.reason.split_once("got ").or_else(|| error.reason.split_once("(value "));
                let (reason, value) = value.unwrap_or_else(|| panic!("no value: {error}"));
                assert!(!reason.is_empty() && !value.is_empty(), "{error}");
                assert!(
                    !["an object", "an array"].contains(&value.trim_end_matches(')')),
                    "only a kind: {error}"
                );
            }
        }
    }
}

#[test]
fn values_in_messages_are_cut_and_without_secrets() {
    let long = with_root(&format!(r#""tenants": [{}1]"#, r#"{"a": [1, "b"]},"#.repeat(1_000)));
    assert!(refused(&long).starts_with(r#"/tenants: must be an object, got [{"a":[1,"b"]},{"a""#));
    assert!(refused(&long).len() < 200, "{}", refused(&long));
    for text in [
        r#""flet": {"cluster": "s", "auth": {"user": "u", "password": "hush"}}"#,
        r#""fleet": ["hush"]"#,
        r#""fleet": "redis://:hush@s""#,
        r#""fleet": {"cluster": "s", "pasword": "hush"}"#,
        r#""fleet": {"cluster": "s", "auth": "hush"}"#,
        r#""redis_password": "hush""#,
        r#""mode": {"secret": "hush"}"#,
        r#""auth": "hush", "auth": "hush""#,
    ] {
        let message = refused(&with_root(text));
        assert!(!message.contains("hush"), "{message}");
    }
}

#[test]
fn no_message_is_longer_than_a_log_line_whatever_is_written() {
    let long = "\u{e9}\u{1}".repeat(3_000).replace('\u{1}', "\\u0001");
    for text in [
        with_root(&format!(r#""{long}": 1"#)),
        with_root(&format!(r#""mode": "{long}""#)),
        with_root(&format!(r#""status_path": "{long}""#)),
        with_root(&format!(r#""classes": {{"{long}": {{"weight": 1}}}}"#)),
        with_root(&format!(r#""tenants": {{"t": {{"class": "{long}"}}}}"#)),
        with_pool(&format!(r#""limits": {{"{long}": 1}}"#)),
        with_pool(&format!(r#""match": {{"hosts": ["{long}"]}}"#)),
        with_pool(&format!(r#""tenants": {{"{long}": {{"weight": 1}}}}"#)),
    ] {
        for error in parse_all(text.as_bytes()).unwrap_err() {
            assert!(
                error.pointer.len() <= 1_024 && error.reason.len() <= 1_024,
                "{} bytes",
                error.to_string().len()
            );
        }
    }
}

#[test]
fn limits_beyond_what_is_counted_exactly_are_held_to_it() {
    let text = r#"{"pools": [{"name": "p", "limits": {"requests_per_minute": 1000000000000, "tokens_per_minute": 4000000000}}]}"#;
    let limits = parse(text.as_bytes()).unwrap().pools[0].limits;
    assert_eq!((limits.requests, limits.llm_tokens), (Some(4_000_000_000), Some(4_000_000_000)));
}

#[test]
fn hosts_that_can_match_are_accepted() {
    for host in [
        "*",
        "*.example.com",
        "llm.*",
        "llm.test.",
        "[::1]",
        "[::1]:8080",
        "[fe80::*",
        "[*]:443",
        "host:8443",
        "host:*",
        "host:80*",
        "*:443",
        "localhost:65535",
        "10.0.0.1:1",
        "a*b.test",
        "*.*",
    ] {
        let config = with_pool(&format!(r#""match": {{"hosts": ["{host}"]}}"#));
        assert!(parse(config.as_bytes()).is_ok(), "{host}");
        assert!(schema::validator().is_valid(&serde_json::from_str(&config).unwrap()), "{host}");
    }
}

#[test]
fn the_reference_example_means_what_it_says() {
    let config = good("reference.json");
    assert_eq!(config.mode, Mode::Enforce);
    let classes: Vec<_> = config.classes.iter().map(|class| (class.name.as_str(), class.weight)).collect();
    assert_eq!(classes, [("high", 4), ("low", 1), ("normal", 2)]);
    assert_eq!(config.default_class, ClassId(2));
    assert_eq!(config.tenant_sources.len(), 3);
    assert_eq!(config.tenant_sources[2], IdentitySource::ApiKey);
    assert_eq!(config.class_sources, [IdentitySource::Header("x-priority".to_owned())]);
    let tenants: Vec<_> =
        config.tenants.iter().map(|t| (t.name.as_str(), t.weight, t.classes.clone())).collect();
    assert_eq!(tenants, [("acme", 3, Some(vec![ClassId(0), ClassId(2)])), ("beta", 1, None)]);
    let pool = &config.pools[0];
    assert_eq!(pool.limits.requests, Some(60));
    assert_eq!(pool.limits.llm_tokens, Some(10_000));
    assert_eq!(pool.limits.concurrency, None);
    assert_eq!(pool.burst, Span::from_secs(60));
    assert_eq!(pool.default_output_llm_tokens, 512);
    assert_eq!(pool.output_reserve, OutputReserve::MaxTokens);
    assert_eq!(pool.learn, Learn { headers: false, pause_on_429: true, adapt: false });
    assert_eq!(pool.max_wait, [Span::ZERO, Span::from_secs(5), Span::ZERO]);
    assert_eq!(pool.class_weights, [4, 1, 2]);
    assert_eq!(pool.tenant_weights, [5, 1]);
    assert_eq!(pool.llm_token_weights, Some(LlmTokenWeights::ONCE));
}

#[test]
fn defaults_are_those_of_the_reference() {
    let config = good("smallest.json");
    assert_eq!(config.mode, Mode::Enforce);
    assert!(config.hold_headers && config.force_identity_encoding && config.response_headers);
    assert_eq!(config.classes, [Class { name: "default".to_owned(), weight: 1 }]);
    assert_eq!(config.default_class, ClassId(0));
    assert!(config.tenant_sources.is_empty() && config.class_sources.is_empty() && config.tenants.is_empty());
    assert_eq!(config.body_limit_bytes, 262_144);
    assert_eq!(config.reservation_ttl, Span::from_secs(600));
    assert_eq!(config.max_retry_after, Span::from_secs(59));
    assert_eq!(config.cas_attempts, 8);
    assert_eq!(config.status_path, None);
    let pool = &config.pools[0];
    assert_eq!(pool.provider, None);
    assert!(pool.strict_window && !pool.inject_stream_usage);
    assert_eq!(pool.burst, Span::from_secs(10));
    assert_eq!(pool.default_output_llm_tokens, 1024);
    assert_eq!(pool.output_reserve, OutputReserve::Learned);
    assert_eq!(pool.llm_token_weights, None);
    assert_eq!(pool.max_wait, [Span::from_millis(1000)]);
    assert_eq!(pool.max_parked, 1000);
    assert_eq!(pool.learn, Learn { headers: true, pause_on_429: true, adapt: false });
}

#[test]
fn nobody_is_parked_by_default_when_headers_are_not_held() {
    let config = parse(with_root(r#""hold_headers": false"#).as_bytes()).unwrap();
    assert_eq!(config.pools[0].max_wait, [Span::ZERO]);
    let explicit = with_pool(r#""max_wait_ms": 7"#).replacen('{', r#"{"hold_headers": false, "#, 1);
    assert_eq!(parse(explicit.as_bytes()).unwrap().pools[0].max_wait, [Span::from_millis(7)]);
}

#[test]
fn doubles_without_a_fraction_are_whole_numbers() {
    let config = good("doubles.json");
    assert_eq!(config.pools[0].burst, Span::from_secs(60));
    assert_eq!(config.pools[0].limits.llm_tokens, Some(1_000_000));
    assert_eq!(*config.pools[0].limits.get(Resource::Concurrency), Some(1_000_000));
    let weights = config.pools[0].llm_token_weights.unwrap();
    assert_eq!((weights.cached_input_milli, weights.output_milli, weights.input_milli), (100, 5_000, 1_000));
}

#[test]
fn presets_are_the_providers_rules_and_are_overridden_key_by_key() {
    let config = good("presets.json");
    let weights = |name: &str| {
        let pool = config.pools.iter().find(|pool| pool.name == name).unwrap();
        let read = pool.llm_token_weights.unwrap();
        let milli = [read.input_milli, read.cached_input_milli, read.cache_write_milli, read.output_milli];
        (read.preset.unwrap(), milli)
    };
    for (name, preset) in PRESETS {
        assert_eq!(weights(name).0, name);
        let pool = config.pools.iter().find(|pool| pool.name == name).unwrap();
        assert_eq!(pool.llm_token_weights, Some(preset));
    }
    assert_eq!(weights("anthropic"), ("anthropic", [1_000, 0, 1_000, 1_000]));
    assert_eq!(weights("later-bedrock"), ("bedrock", [1_000, 0, 1_000, 10_000]));
    assert_eq!(weights("own"), ("gemini", [0, 0, 0, 1_000]));
}

#[test]
fn a_fleet_is_read_as_it_is_written() {
    let fleet = good("fleet.json").fleet.unwrap();
    assert_eq!((fleet.cluster.as_str(), fleet.prefix.as_str()), ("backpressure-store", "team-a"));
    assert_eq!((fleet.lease, fleet.timeout), (Span::ZERO, Span::from_millis(75)));
    assert_eq!(fleet.credentials.as_deref(), Some("envoy:change-me-too"));
}

#[test]
fn each_provider_name_selects_its_dialect() {
    let dialects: Vec<_> =
        good("every_provider.json").pools.iter().map(|pool| pool.provider.unwrap()).collect();
    assert_eq!(
        dialects,
        [
            Dialect::OpenAi,
            Dialect::AzureOpenAi,
            Dialect::Anthropic,
            Dialect::Gemini,
            Dialect::Bedrock,
            Dialect::Mistral,
            Dialect::Cohere,
            Dialect::Ollama
        ]
    );
}

#[test]
fn header_names_are_trimmed_and_compared_without_case() {
    let sources = good("edges.json").tenant_sources;
    assert_eq!(sources[0], IdentitySource::Header("x-tenant".to_owned()));
}

#[test]
fn order_of_members_does_not_change_the_meaning() {
    let one = with_root(r#""classes": {"a": {}, "b": {"weight": 2}}, "default_class": "b""#);
    let other = with_root(r#""default_class": "b", "classes": {"b": {"weight": 2}, "a": {}}"#);
    assert_eq!(parse(one.as_bytes()), parse(other.as_bytes()));
}

#[test]
fn a_byte_order_mark_is_no_obstacle() {
    let text = format!("\u{FEFF}{}", with_root(r#""mode": "shadow""#));
    assert_eq!(parse(text.as_bytes()).unwrap().mode, Mode::Shadow);
}

#[test]
fn every_mistake_is_reported_not_only_the_first() {
    let text =
        r#"{"mod": 1, "cas_attempts": 0, "pools": [{"name": "p", "limits": {"requests_per_minute": 0}}]}"#;
    let pointers: Vec<_> = parse_all(text.as_bytes()).unwrap_err().into_iter().map(|e| e.pointer).collect();
    assert_eq!(pointers, ["/mod", "/pools/0/limits/requests_per_minute", "/cas_attempts"]);
}

#[test]
fn nothing_of_a_fleet_that_may_be_a_secret_is_shown() {
    for (fleet, place) in [
        (r#"{"store": "redis", "cluster": "s", "auth": "hunter2"}"#, "/fleet/auth"),
        (r#"{"store": "redis", "cluster": "s", "auth": {"user": "a", "pasword": "hunter2"}}"#, "/fleet/auth"),
        (
            r#"{"store": "redis", "cluster": "s", "auht": {"user": "a", "password": "hunter2"}}"#,
            "/fleet/auht",
        ),
        (r#"["hunter2"]"#, "/fleet"),
    ] {
        let message = refused(&with_root(&format!(r#""fleet": {fleet}"#)));
        assert!(message.starts_with(place) && !message.contains("hunter2"), "{message}");
    }
    let fleet = r#"{"store": "redis", "cluster": "s", "auth": {"user": "a", "password": "hunter2"}}"#;
    let config = parse(with_root(&format!(r#""fleet": {fleet}"#)).as_bytes()).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    assert_eq!(config.fleet.unwrap().credentials.as_deref(), Some("a:hunter2"));
}

#[test]
fn deep_nesting_and_huge_numbers_are_refused_not_followed() {
    assert!(refused(&"[".repeat(100_000)).contains("must be JSON"));
    assert!(refused(&with_root(r#""cas_attempts": 1e400"#)).contains("must be JSON"));
    assert!(refused(&with_root(r#""cas_attempts": NaN"#)).contains("must be JSON"));
}

mod arbitrary {
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let known = prop::sample::select(
            [
                "pools",
                "name",
                "limits",
                "requests_per_minute",
                "match",
                "hosts",
                "identity",
                "tenant",
                "classes",
                "weight",
                "tenants",
                "default_class",
                "learn",
                "token_weights",
                "input",
                "header",
                "property",
                "burst_seconds",
                "status_path",
                "p",
                "default",
                "*",
                "/v1/*",
            ]
            .map(str::to_owned)
            .to_vec(),
        );
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            prop_oneof![known.clone(), any::<String>()].prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::hash_map(known.clone(), inner, 0..6)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Replaces the value at the `n`-th place of `tree`, counted depth first.
    fn replace(tree: &mut serde_json::Value, n: &mut usize, with: &serde_json::Value) {
        if *n == 0 {
            *tree = with.clone();
        }
        *n = n.wrapping_sub(1);
        match tree {
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| replace(item, n, with)),
            serde_json::Value::Object(members) => {
                members.values_mut().for_each(|item| replace(item, n, with))
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn parser_and_schema_agree(mut place in 0_usize..80, odd in json()) {
            let mut tree = reference();
            replace(&mut tree, &mut place, &odd);
            let beyond_schema = |reason: &str| {
                ["no such", "has no effect", "is the name of", "must name one of"].iter().any(|text| reason.contains(text))
            };
            match parse_all(tree.to_string().as_bytes()) {
                Ok(_) => prop_assert!(schema::validator().is_valid(&tree), "{tree}"),
                Err(errors) if errors.iter().all(|error| beyond_schema(&error.reason)) => {}
                Err(errors) => prop_assert!(!schema::validator().is_valid(&tree), "{tree}: {errors:?}"),
            }
        }
    }

    fn reference() -> serde_json::Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/good/reference.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    #[track_caller]
    fn sound(text: &[u8]) {
        match parse_all(text) {
            Ok(config) => {
                assert!(!config.pools.is_empty() && !config.classes.is_empty());
                assert!(usize::from(config.default_class.0) < config.classes.len());
                for pool in &config.pools {
                    assert!(Resource::ALL.iter().any(|r| pool.limits.get(*r).is_some()));
                    assert!(Resource::ALL.iter().all(|r| *pool.limits.get(*r) != Some(0)));
                    assert_eq!(pool.class_weights.len(), config.classes.len());
                    assert_eq!(pool.max_wait.len(), config.classes.len());
                    assert_eq!(pool.tenant_weights.len(), config.tenants.len());
                    let weights = pool.class_weights.iter().chain(&pool.tenant_weights);
                    assert!(weights.into_iter().all(|weight| (1..=1000).contains(weight)));
                }
            }
            Err(errors) => assert!(!errors.is_empty() && errors.iter().all(|error| !error.reason.is_empty())),
        }
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            sound(&bytes);
        }

        #[test]
        fn trees_never_panic(tree in json()) {
            sound(tree.to_string().as_bytes());
        }

        #[test]
        fn one_odd_value_anywhere_is_refused_or_sound(mut place in 0_usize..80, odd in json()) {
            let mut tree = reference();
            replace(&mut tree, &mut place, &odd);
            sound(tree.to_string().as_bytes());
        }
    }
}

mod schema {
    use super::*;

    pub(super) fn validator() -> &'static jsonschema::Validator {
        static VALIDATOR: std::sync::OnceLock<jsonschema::Validator> = std::sync::OnceLock::new();
        VALIDATOR.get_or_init(|| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy/backpressure.schema.json");
            let schema: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            assert!(jsonschema::meta::is_valid(&schema));
            jsonschema::validator_for(&schema).unwrap()
        })
    }

    #[test]
    fn the_schema_accepts_every_good_file() {
        let validator = validator();
        for path in files("good") {
            let file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            if let Err(error) = validator.validate(&file) {
                panic!("{}: {}: {error}", path.display(), error.instance_path());
            }
        }
    }

    #[test]
    fn the_schema_has_the_ranges_of_the_parser() {
        use envoy_backpressure::config::range;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy/backpressure.schema.json");
        let schema: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let pool = "/$defs/pool/properties";
        let fleet = "/properties/fleet/anyOf/1/properties";
        for (place, range) in [
            ("/$defs/weight".to_owned(), range::WEIGHT),
            ("/$defs/wait_ms".to_owned(), range::WAIT_MS),
            (format!("{pool}/limits/properties/requests_per_minute"), range::PER_MINUTE),
            (format!("{pool}/limits/properties/tokens_per_minute"), range::PER_MINUTE),
            (format!("{pool}/limits/properties/input_tokens_per_minute"), range::PER_MINUTE),
            (format!("{pool}/limits/properties/output_tokens_per_minute"), range::PER_MINUTE),
            (format!("{pool}/limits/properties/concurrent_requests"), range::CONCURRENT),
            (format!("{pool}/burst_seconds"), range::BURST_SECONDS),
            (format!("{pool}/default_output_tokens"), range::OUTPUT_LLM_TOKENS),
            (format!("{pool}/max_parked"), range::PARKED),
            ("/properties/body_limit_bytes".to_owned(), range::BODY_LIMIT_BYTES),
            ("/properties/reservation_ttl_seconds".to_owned(), range::RESERVATION_TTL_SECONDS),
            ("/properties/max_retry_after_seconds".to_owned(), range::MAX_RETRY_AFTER_SECONDS),
            ("/properties/cas_attempts".to_owned(), range::CAS_ATTEMPTS),
            (format!("{fleet}/lease_ms"), range::LEASE_MS),
            (format!("{fleet}/timeout_ms"), range::FLEET_TIMEOUT_MS),
        ] {
            let found = schema.pointer(&place).unwrap();
            let ends = (found["minimum"].as_u64().unwrap(), found["maximum"].as_u64().unwrap());
            assert_eq!(ends, range.into_inner(), "{place}");
        }
    }

    /// Examples marked `beyond_schema` are wrong in ways no schema can tell: names that must exist or be unique.
    #[test]
    fn the_schema_refuses_every_bad_example_it_can() {
        let validator = validator();
        for path in files("bad") {
            for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
                let example: serde_json::Value = serde_json::from_str(line).unwrap();
                let Some(config) = example.get("config") else { continue };
                let beyond = example.get("beyond_schema").is_some();
                assert_eq!(validator.is_valid(config), beyond, "{}:{}", path.display(), number + 1);
            }
        }
    }
}

mod reference {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    /// Every key of the schema with its definition, written as in the reference.
    fn keys(schema: &Value, at: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
        let mut at = at.clone();
        if let Some(reference) = at.get("$ref").and_then(Value::as_str) {
            let target = schema.pointer(reference.trim_start_matches('#')).unwrap();
            for (key, value) in target.as_object().unwrap() {
                at.as_object_mut().unwrap().entry(key).or_insert_with(|| value.clone());
            }
        }
        for (name, definition) in at.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            keys(schema, definition, &path, found);
        }
        if let Some(definition @ Value::Object(_)) = at.get("additionalProperties") {
            keys(schema, definition, &format!("{path}.<name>"), found);
        }
        if let Some(items) = at.get("items") {
            keys(schema, items, &format!("{path}[]"), found);
        }
        for list in ["oneOf", "anyOf"] {
            for choice in at.get(list).and_then(Value::as_array).into_iter().flatten() {
                keys(schema, choice, path, found);
            }
        }
        let is_key = !path.is_empty() && !path.ends_with(">") && !path.ends_with(']');
        if is_key {
            found.insert(path.to_owned(), at);
        }
    }

    /// The rows of the reference's tables: key to (type, default).
    fn rows() -> BTreeMap<String, (String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
        let text = std::fs::read_to_string(path).unwrap();
        let mut rows = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let key = cells[1].trim_matches('`').to_owned();
            let before = rows.insert(key, (cells[2].to_owned(), cells[3].to_owned()));
            assert_eq!(before, None, "{line}");
        }
        rows
    }

    #[test]
    fn the_reference_names_every_key_with_its_range_and_default() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy/backpressure.schema.json");
        let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut keys_found = BTreeMap::new();
        keys(&schema, &schema, "", &mut keys_found);
        let rows = rows();
        let names = |list: Vec<&String>| list.into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(names(keys_found.keys().collect()), names(rows.keys().collect()));
        for (key, definition) in keys_found {
            let (kind, default) = &rows[&key];
            if let (Some(low), Some(high)) = (definition.get("minimum"), definition.get("maximum")) {
                assert!(kind.contains(&format!("{low} to {high}")), "{key}: {kind}");
            }
            let most = ["maxProperties", "maxItems"].iter().find_map(|name| definition.get(*name));
            assert!(most.is_none_or(|most| kind.contains(&most.to_string())), "{key}: {kind}");
            for word in definition.get("enum").and_then(Value::as_array).into_iter().flatten() {
                assert!(kind.contains(&format!("`{}`", word.as_str().unwrap())), "{key}: {kind}");
            }
            if let Some(Value::String(word)) = definition.get("const") {
                assert!(kind.contains(&format!("`{word}`")), "{key}: {kind}");
            }
            let stated = match definition.get("default") {
                Some(Value::String(word)) => word.clone(),
                Some(other) => other.to_string(),
                None => continue,
            };
            // Weights in a pool fall back to the general ones, which have the default.
            let inherited = default == "the general one";
            assert!(inherited || *default == format!("`{stated}`"), "{key}: {default}, schema {stated}");
        }
    }

    #[test]
    fn every_example_in_the_reference_is_accepted() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
        let text = std::fs::read_to_string(path).unwrap();
        let examples: Vec<_> =
            text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert_eq!(examples.len(), 2);
        for example in examples {
            parse(example.as_bytes()).unwrap();
        }
    }
}
