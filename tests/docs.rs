//! The documents are held to the code: causes, metrics, tests, targets and links that they name exist.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use envoy_backpressure::observe::Anomaly;
use envoy_backpressure::observe::status::{DenialView, FlowView, PoolView, ReturnView, Snapshot};
use envoy_backpressure::units::Limits;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Files below a folder with one of the endings; what is installed or built is left out.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "node_modules" && name != "target" {
                files(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Every Markdown page that speaks to users and operators, with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join("docs"), &[".md"], &mut found);
    for name in ["README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md"] {
        found.push(root().join(name));
    }
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Names of the functions in the tests and in the sources.
fn functions() -> BTreeSet<String> {
    let mut sources = Vec::new();
    files(&root().join("src"), &[".rs"], &mut sources);
    files(&root().join("tests"), &[".rs", ".py"], &mut sources);
    let mut found = BTreeSet::new();
    for path in sources {
        for line in fs::read_to_string(path).unwrap().lines() {
            let line = line.trim_start();
            let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "));
            if let Some((name, _)) = name.and_then(|name| name.split_once('(')) {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// What stands between back quotes, outside of blocks of code.
fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            code = !code;
        } else if !code {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

/// Rows of the tables of a page whose header begins with `first`, cell by cell.
fn rows(text: &str, first: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with(&format!("| {first} |")) {
            inside = true;
        } else if !line.starts_with('|') {
            inside = false;
        } else if inside && !line.starts_with("| ---") {
            found.push(line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect());
        }
    }
    found
}

/// Rows of `docs/failure-modes.md`: cause, client, counters, log, tests.
fn failures() -> Vec<Vec<String>> {
    let rows = rows(&read("docs/failure-modes.md"), "cause");
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
    }
    rows
}

fn reason(row: &[String]) -> Option<&str> {
    row[2].split("anomalies{reason=\"").nth(1)?.split('"').next()
}

#[test]
fn every_cause_has_a_row_and_every_row_a_cause() {
    let rows = failures();
    let told: Vec<&str> = rows.iter().filter_map(|row| reason(row)).collect();
    let known: Vec<&str> = Anomaly::ALL.iter().map(|anomaly| anomaly.name()).collect();
    assert_eq!(told, known, "rows in the order of `src/observe/anomaly.rs`");
}

#[test]
fn the_log_of_every_cause_is_quoted_as_it_is() {
    for row in failures() {
        if let Some(anomaly) = Anomaly::ALL.iter().find(|anomaly| reason(&row) == Some(anomaly.name())) {
            assert_eq!(row[3], anomaly.text());
        }
    }
}

#[test]
fn every_cause_has_a_test() {
    let known = functions();
    for row in failures() {
        let tests = quoted(&row[4]);
        assert!(!tests.is_empty(), "no test: {}", row[0]);
        for test in tests {
            assert!(known.contains(test), "{}: there is no {test}", row[0]);
        }
    }
}

/// Names of tests are sentences, so they are known by their length.
#[test]
fn tests_that_a_page_names_exist() {
    let known = functions();
    for (path, text) in pages() {
        for name in quoted(&text) {
            let sentence = name.matches('_').count() >= 4 || name.starts_with("case_");
            let plain =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            // Keys of the configuration and of Envoy have at most three blanks to fill.
            if sentence && plain && name != "allow_on_headers_stop_iteration" {
                assert!(known.contains(name), "{}: there is no {name}", path.display());
            }
        }
    }
}

#[test]
fn every_metric_is_in_the_table_and_every_row_is_a_metric() {
    let told: BTreeSet<String> = rows(&read("docs/metrics.md"), "metric")
        .iter()
        .map(|row| row[0].trim_matches('`').to_owned())
        .collect();
    let source = read("src/observe/metrics.rs");
    let code = source.split("#[cfg(test)]").next().unwrap();
    // The name of a metric is the last text in the function that builds it; the gauges are named in a comment.
    let mut known: BTreeSet<String> = code
        .split("\npub fn ")
        .filter(|function| !function.starts_with("gauge("))
        .filter_map(|function| function.split("\n}").next())
        .filter(|body| body.contains("labelled("))
        .map(|body| body.rsplit('"').nth(1).unwrap().to_owned())
        .collect();
    let gauges = code.split("without further labels: ").nth(1).unwrap().split(".\n").next().unwrap();
    known.extend(gauges.split('`').skip(1).step_by(2).map(str::to_owned));
    assert_eq!(told, known);
    for name in told {
        assert!(read("README.md").contains(&format!("`{name}`")), "the README lacks {name}");
    }
}

/// Paths of all members below a value; the causes in `anomalies` have a page of their own.
fn members(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if path != "anomalies" => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                members(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

#[test]
fn every_member_of_the_status_json_is_in_the_table_and_every_row_is_a_member() {
    let (class, tenant) = ("high".to_owned(), "acme".to_owned());
    let flow = FlowView {
        class: class.clone(),
        tenant: tenant.clone(),
        waiting: 1,
        entitled_permille: 1,
        received_permille: 1,
        returning_permille: 1,
    };
    let limits = Limits { requests: Some(60), ..Limits::default() };
    let pool = PoolView {
        flows: vec![flow],
        returns: vec![ReturnView { class: class.clone(), tenant: tenant.clone(), in_ms: 1 }],
        ..PoolView::unreadable("p", &limits)
    };
    let denial =
        DenialView { ago_ms: 1, pool: "p".to_owned(), class, tenant, reason: "exhausted", told_ms: None };
    let snapshot = Snapshot { pools: vec![pool], denials: vec![denial], ..Snapshot::default() };
    let mut known = BTreeSet::new();
    members(&serde_json::from_str(&snapshot.to_json()).unwrap(), "", &mut known);
    let rows = rows(&read("docs/status.md"), "member");
    let told: BTreeSet<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(told, known);
    assert_eq!(told.len(), rows.len());
}

/// The Makefile and what it includes, in one.
fn makefiles() -> String {
    let mut makefiles = read("Makefile");
    let mut more = Vec::new();
    files(&root().join("make"), &[".mk"], &mut more);
    for path in more {
        makefiles.push_str(&fs::read_to_string(path).unwrap());
    }
    makefiles
}

#[test]
fn make_alone_prints_every_target() {
    // What others need, and nobody asks for.
    let parts = ["toolchain", "testbed", "fetch", "fleet-store", "fuzz-build"];
    let makefiles = makefiles();
    let known: Vec<&str> = makefiles
        .lines()
        .filter_map(|line| line.strip_prefix(".PHONY: "))
        .filter(|name| !parts.contains(name))
        .collect();
    let printed = std::process::Command::new("make")
        .arg("--no-print-directory")
        .current_dir(root())
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let told: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()))
        .collect();
    let sorted = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&told), sorted(&known));
    let headings: Vec<&str> =
        printed.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert_eq!(headings.len(), sorted(&headings).len(), "a heading stands once: {headings:?}");
}

#[test]
fn targets_that_a_page_names_exist() {
    let makefiles = makefiles();
    let known: BTreeSet<&str> = makefiles.lines().filter_map(|line| line.strip_prefix(".PHONY: ")).collect();
    assert!(known.len() > 10);
    for (path, text) in pages() {
        let mut code = false;
        for line in text.lines() {
            code ^= line.starts_with("```");
            let commands = if code { vec![line.trim_start()] } else { quoted(line) };
            for command in commands {
                if let Some(target) = command.strip_prefix("make ") {
                    let target = target.split_whitespace().next().unwrap();
                    assert!(known.contains(target), "{}: make {target}", path.display());
                }
            }
        }
    }
}

#[test]
fn relative_links_lead_somewhere() {
    for (path, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") || file.contains(' ') {
                continue;
            }
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !anchor.is_empty() && target.extension().is_some_and(|ending| ending == "md") {
                let found = fs::read_to_string(&target)
                    .unwrap()
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| heading(line) == anchor);
                assert!(found, "{}: no heading for {link}", path.display());
            }
        }
    }
}

/// Anchor of a heading, as Markdown renderers make it.
fn heading(line: &str) -> String {
    line.trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn the_summary_lists_every_page() {
    let summary = read("docs/SUMMARY.md");
    let mut found = Vec::new();
    files(&root().join("docs"), &[".md"], &mut found);
    for path in found {
        let name = path.strip_prefix(root().join("docs")).unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || summary.contains(&format!("]({name})")), "{name}");
    }
}
