//! The checking command: what it finds, what it says, and how it ends.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use envoy_backpressure::check::{Host, explain, find, read, remarks};
use envoy_backpressure::config::{Config, parse};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Pool name, or first error, with place and host of everything found in a file.
fn found(file: &str) -> Vec<(String, String, Host)> {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let describe = |result: Result<Config, Vec<_>>| match result {
        Ok(config) => config.pools[0].name.clone(),
        Err(errors) => format!("{}", errors.first().unwrap() as &envoy_backpressure::config::ConfigError),
    };
    let documents = read(&text).unwrap();
    find(&documents).into_iter().map(|found| (describe(found.parse()), found.place, found.host)).collect()
}

#[test]
fn configurations_are_found_in_an_envoy_bootstrap() {
    let found = found("tests/check/bootstrap.yaml");
    let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
    let broken = "configuration: must be JSON: EOF while parsing an object at line 1 column 1";
    assert_eq!(names, ["text", "struct", broken]);
    assert_eq!(found[0].2, Host::Envoy { holds_headers: true, reloads: true });
    assert_eq!(found[1].2, Host::Envoy { holds_headers: false, reloads: false });
    assert_eq!(
        found[0].1,
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1/typed_config/config/configuration"
    );
}

#[test]
fn configurations_are_found_in_kubernetes_resources() {
    let istio = ("istio".to_owned(), "document 2: /spec/pluginConfig".to_owned(), Host::WasmPlugin);
    let place =
        "document 3: /spec/configPatches/0/patch/value/typed_config/value/config/configuration".to_owned();
    let filter = ("filter".to_owned(), place, Host::Envoy { holds_headers: true, reloads: true });
    let gateway = ("gateway".to_owned(), "document 4: /spec/wasm/1/config".to_owned(), Host::ExtensionPolicy);
    assert_eq!(found("tests/check/kubernetes.yaml"), [istio, filter, gateway]);
}

/// The first remark on what an example should not show. Trust in headers depends on where an example stands.
fn unmeant(remarks: &[String]) -> Option<&String> {
    let fits = |remark: &&String| !remark.starts_with("header ") && !remark.starts_with("mode is shadow");
    remarks.iter().find(fits)
}

#[test]
fn every_shipped_configuration_is_valid() {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join("envoy"), &mut files);
    let mut count = 0;
    for file in files {
        // Templates and rule files of other programs need not be YAML of the kind looked for here.
        let Ok(documents) = read(&std::fs::read_to_string(&file).unwrap()) else { continue };
        for found in find(&documents) {
            count += 1;
            let config = found.parse().unwrap_or_else(|errors| panic!("{}: {errors:?}", file.display()));
            let remarks = remarks(&config, found.host);
            assert_eq!(unmeant(&remarks), None, "{}", file.display());
        }
    }
    assert!(count >= 1);
}

/// Blocks of JSON in the pages; what is no configuration is known by its members.
#[test]
fn every_configuration_in_the_pages_is_valid() {
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(root().join("README.md"));
    let mut count = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        for block in text.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let mut tree: serde_json::Value = serde_json::from_str(block).unwrap();
            if tree.get("decision").is_some() {
                continue;
            }
            count += 1;
            // Some show the part that matters and leave out the pools.
            if tree.get("pools").is_none() {
                tree["pools"] = serde_json::json!([{"name": "p", "limits": {"requests_per_minute": 60}}]);
            }
            let config = parse(tree.to_string().as_bytes())
                .unwrap_or_else(|errors| panic!("{}: {block}: {errors:?}", page.display()));
            let remarks = remarks(&config, Host::None);
            // A part may leave out where tenants and classes come from.
            let whole = |remark: &&String| !remark.contains("has no source");
            let remarks: Vec<String> = remarks.iter().filter(whole).cloned().collect();
            assert_eq!(unmeant(&remarks), None, "{}: {block}", page.display());
        }
    }
    assert!(count > 5, "{count} blocks");
}

fn remarks_on(members: &str, host: Host) -> String {
    remarks(&parse(format!("{{{members}}}").as_bytes()).unwrap(), host).join("\n")
}

const POOL: &str =
    r#""pools": [{"name": "p", "limits": {"requests_per_minute": 90, "tokens_per_minute": 60000}}]"#;

#[test]
fn what_was_probably_not_meant_is_remarked() {
    assert_eq!(remarks_on(POOL, Host::None), "");
    assert!(remarks_on(POOL, Host::WasmPlugin).contains("hold_headers is true"));
    let held = Host::Envoy { holds_headers: true, reloads: false };
    assert!(remarks_on(POOL, held).contains("FAIL_RELOAD"));
    for (members, expected) in [
        (r#""mode": "shadow""#, "no cap is held"),
        (r#""tenants": {"a": {}}"#, "no source: all calls are tenant"),
        (r#""classes": {"default": {}, "b": {}}"#, "no source: all calls are of the default class"),
        (
            r#""classes": {"default": {}, "b": {}}, "tenants": {"a": {"classes": ["b"]}}"#,
            "may not use the default class",
        ),
        (r#""identity": {"tenant": [{"header": "x-t"}]}"#, "callers cannot set it"),
        (
            r#""identity": {"tenant": [{"property": ["metdata", "x"]}]}"#,
            "no attribute that begins with metdata",
        ),
        (r#""status_path": "/v1/messages""#, "hides an endpoint"),
    ] {
        let remarks = remarks_on(&format!("{members}, {POOL}"), Host::None);
        assert!(remarks.contains(expected), "{members}: {remarks}");
    }
}

#[test]
fn a_pool_that_gets_no_calls_is_remarked() {
    let pools = |first: &str, second: &str| {
        let limits = r#""limits": {"requests_per_minute": 1}"#;
        let text = format!(
            r#""pools": [{{"name": "a", {limits}, "match": {first}}}, {{"name": "b", {limits}, "match": {second}}}]"#
        );
        remarks_on(&text, Host::None).contains("`b` gets no calls")
    };
    assert!(pools("{}", r#"{"models": ["m"]}"#));
    assert!(pools(r#"{"hosts": ["a"]}"#, r#"{"hosts": ["A"]}"#));
    assert!(!pools(r#"{"models": ["*"]}"#, "{}"));
    assert!(!pools("{}", r#"{"paths": ["/x"]}"#));
    assert!(!pools(r#"{"hosts": ["a"]}"#, r#"{"hosts": ["b"]}"#));
}

#[test]
fn a_preset_is_explained_by_name_and_with_what_it_counts() {
    let explained = |weights: &str| {
        let limits = r#""limits": {"tokens_per_minute": 60000}"#;
        let text = format!(r#"{{"pools": [{{"name": "p", {limits}, "token_weights": {weights}}}]}}"#);
        explain(&parse(text.as_bytes()).unwrap())
    };
    let words = explained(r#"{"preset": "bedrock", "output": 10}"#);
    let expected = "by the rules of bedrock: input counts 1, cached input 0, cache writes 1, output 10";
    assert!(words.contains(expected), "{words}");
    assert!(explained(r#"{"output": 2}"#).contains("weights  input counts 1, cached input 1"));
}

#[test]
fn pools_are_explained_in_words() {
    let text = std::fs::read(root().join("tests/config/good/reference.json")).unwrap();
    let words = explain(&parse(&text).unwrap());
    for expected in [
        "60 requests per minute; 60 at once after idling, then 1 per second",
        "high 57.1 %, normal 28.6 %, low 14.3 %",
        "acme 5, beta 1, every other tenant 1",
        "high never, low up to 5 s, normal never",
        "Tenant `acme` may use high, normal; other classes become `normal`.",
        "POST on /v1/chat/*, for host llm.test, for model m-chat or m-chat-*",
    ] {
        assert!(words.contains(expected), "{expected}\n{words}");
    }
    let thirds = br#"{"pools": [{"name": "p", "limits": {"tokens_per_minute": 10000}}]}"#;
    let words_of_thirds = explain(&parse(thirds).unwrap());
    assert!(
        words_of_thirds.contains("; 1666 at once after idling"),
        "as on the status page: {words_of_thirds}"
    );
    assert!(words.contains("  window   never more than the limit"), "{words}");
    let slots = br#"{"pools": [{"name": "gpus", "limits": {"concurrent_requests": 32}}]}"#;
    let words = explain(&parse(slots).unwrap());
    assert!(words.contains("32 calls in flight at once") && !words.contains("  window"), "{words}");
}

#[test]
fn a_fleet_is_explained_without_its_password() {
    let text = r#"{"fleet": {"cluster": "the-store", "auth": {"user": "envoy", "password": "hidden"}},
        "pools": [{"name": "p", "limits": {"requests_per_minute": 60}}]}"#;
    let words = explain(&parse(text.as_bytes()).unwrap());
    assert!(
        words.contains("behind cluster `the-store` with prefix `bp`; a call is held up to 50 ms"),
        "{words}"
    );
    assert!(!words.contains("hidden"), "{words}");
}

/// Exit status and output of the command, run in the repository's root.
fn run(arguments: &[&str], input: &str) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_backpressure-check"))
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn the_exit_status_tells_the_outcome() {
    assert_eq!(run(&["tests/config/good/reference.json"], "").0, 0);
    assert_eq!(run(&["-"], r#"{"pools": [{"name": "p", "limits": {"requests_per_minute": 1}}]}"#).0, 0);
    let (code, text) =
        run(&["-"], r#"{"pools": [{"name": "p", "limits": {"requests_per_minute": 0}}], "x": 1}"#);
    assert_eq!(code, 1);
    assert!(
        text.contains("/pools/0/limits/requests_per_minute: must be at least 1, got 0")
            && text.contains("/x: ")
    );
    assert_eq!(run(&["tests/check/bootstrap.yaml"], "").0, 1);
    assert_eq!(run(&["-"], "a: b").0, 1);
    for arguments in
        [&[][..], &["--nonsense"], &["missing.yaml"], &["Cargo.toml"], &["-", "--price", "/x"], &["--price"]]
    {
        assert_eq!(run(arguments, "").0, 2, "{arguments:?}");
    }
    assert_eq!(run(&["--help"], "").0, 0);
}

#[test]
fn a_call_is_priced() {
    let body = |cap: u32| {
        format!(
            r#"{{"model": "m-chat", "max_tokens": {cap}, "messages": [{{"role": "user", "content": "hi"}}]}}"#
        )
    };
    let arguments =
        ["tests/config/good/reference.json", "--host", "llm.test", "--price", "/v1/chat/completions"];
    let (code, text) = run(&arguments, &body(100));
    assert_eq!(code, 0);
    assert!(
        text.contains("Output    100 tokens, declared by the call")
            && text.contains("Reserves  1 of 60 requests"),
        "{text}"
    );
    assert!(run(&arguments, &body(50_000)).1.contains("Reserves  10000 of 10000 tokens (100.0 %)"));
    let huge = body(1).replace("hi", &"several words ".repeat(20_000));
    let text = run(&arguments, &huge).1;
    assert!(text.contains("413") && text.contains("decided on its first 16384 bytes"), "{text}");
    assert!(!run(&arguments, &body(100)).1.contains("Body "));
    let elsewhere = ["tests/config/good/reference.json", "--price", "/v1/chat/completions"];
    let text = run(&elsewhere, &body(1)).1;
    assert!(
        text.contains("No pool takes this call") && text.contains("host localhost, model m-chat"),
        "{text}"
    );
}

#[test]
fn a_credential_is_named_and_never_shown() {
    let (code, text) = run(&["--key-name"], "sk-secret\n");
    assert_eq!((code, text.trim().len()), (0, 16));
    assert!(!text.contains("secret"));
    // An empty variable is no caller, and its name would match nobody.
    assert_eq!(run(&["--key-name"], "").0, 2);
    assert_eq!(run(&["--key-name"], "\n").0, 2);
}
