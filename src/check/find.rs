//! Where a plugin configuration stands in the files of Envoy, Istio and Envoy Gateway.

use super::Documents;
use crate::config::error::join;
use crate::config::json::Json;

/// What surrounds a configuration, which decides whether the host can hold request headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The file is the configuration itself.
    None,
    /// Envoy's `PluginConfig`, also inside an Istio `EnvoyFilter` or an `EnvoyPatchPolicy`.
    Envoy {
        /// `allow_on_headers_stop_iteration` is set.
        holds_headers: bool,
        /// `failure_policy` is `FAIL_RELOAD`.
        reloads: bool,
    },
    /// Istio's `WasmPlugin`, which has no way to set the flag.
    WasmPlugin,
    /// Envoy Gateway's `EnvoyExtensionPolicy`, which has none either.
    ExtensionPolicy,
}

/// A configuration in a file.
pub struct Found {
    /// JSON pointer within the file, with the number of the document before it when there are several.
    pub place: String,
    /// What surrounds it.
    pub host: Host,
    /// JSON text, or the tree of a Struct.
    pub(super) body: Json,
}

/// Deepest nesting followed; the parsers allow no deeper trees.
const DEPTH: usize = 128;

/// Every configuration of this plugin in the file. Other Wasm plugins are left alone: a configuration is ours when it
/// has pools, or when the plugin or its code is called backpressure.
pub fn find(documents: &Documents) -> Vec<Found> {
    let mut found = Vec::new();
    for (number, document) in documents.0.iter().enumerate() {
        let place = if documents.0.len() > 1 {
            format!("document {}: ", number.saturating_add(1))
        } else {
            String::new()
        };
        if member(document, "pools").is_some() && member(document, "kind").is_none() {
            found.push(Found {
                place: format!("{place}the whole"),
                host: Host::None,
                body: document.clone(),
            });
        } else {
            search(document, &place, DEPTH, &mut found);
        }
    }
    let patched = |path: &str| documents.0.iter().any(|document| patches(document, path));
    if patched("/allow_on_headers_stop_iteration") {
        for found in found.iter_mut().filter(|found| found.host == Host::ExtensionPolicy) {
            found.host = Host::Envoy { holds_headers: true, reloads: patched("/failure_policy") };
        }
    }
    found
}

/// True for an `EnvoyPatchPolicy` that sets `path` in a filter's configuration.
fn patches(document: &Json, path: &str) -> bool {
    let patches = member(document, "spec").and_then(|spec| member(spec, "jsonPatches"));
    let Some(Json::Array(patches)) =
        patches.filter(|_| text(document, &["kind"]) == Some("EnvoyPatchPolicy"))
    else {
        return false;
    };
    patches
        .iter()
        .filter_map(|patch| member(patch, "operation"))
        .any(|operation| text(operation, &["path"]) == Some(path))
}

fn search(json: &Json, place: &str, depth: usize, found: &mut Vec<Found>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    found.extend(plugin_config(json, place));
    match text(json, &["kind"]) {
        Some("WasmPlugin") => {
            let spec = member(json, "spec");
            let place = join(place, "spec");
            found.extend(spec.and_then(|spec| kubernetes(spec, &place, "pluginConfig", Host::WasmPlugin)));
        }
        Some("EnvoyExtensionPolicy") => {
            let wasm = member(json, "spec").and_then(|spec| member(spec, "wasm"));
            let Some(Json::Array(items)) = wasm else { return };
            for (index, item) in items.iter().enumerate() {
                let place = format!("{place}/spec/wasm/{index}");
                found.extend(kubernetes(item, &place, "config", Host::ExtensionPolicy));
            }
        }
        _ => {}
    }
    match json {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                search(item, &format!("{place}/{index}"), depth, found);
            }
        }
        Json::Object(members) => {
            for (name, value) in members {
                search(value, &join(place, name), depth, found);
            }
        }
        _ => {}
    }
}

/// Envoy's `PluginConfig`, known by its `vm_config` or by a `configuration` of a type that it takes.
fn plugin_config(json: &Json, place: &str) -> Option<Found> {
    let configuration = member(json, "configuration")?;
    let vm = member(json, "vm_config").or_else(|| member(json, "vmConfig"));
    let kind = text(configuration, &["@type"]).unwrap_or_default();
    let known =
        ["google.protobuf.StringValue", "google.protobuf.Struct"].iter().any(|name| kind.ends_with(name));
    if vm.is_none() && !known {
        return None;
    }
    let body = member(configuration, "value").unwrap_or(configuration).clone();
    let named = text(json, &["name"]).into_iter().chain(text(json, &["root_id", "rootId"]));
    let code = vm.map(|vm| format!("{:?}", member(vm, "code"))).unwrap_or_default();
    let ours = named.chain([code.as_str()]).any(is_our_name) || has_pools(&body);
    let flag = ["allow_on_headers_stop_iteration", "allowOnHeadersStopIteration"];
    let holds_headers = flag.iter().any(|name| {
        // The flag is a BoolValue, which YAML may also spell out.
        let value = member(json, name);
        value.map(|value| member(value, "value").unwrap_or(value)) == Some(&Json::Bool(true))
    });
    let reloads = text(json, &["failure_policy", "failurePolicy"]) == Some("FAIL_RELOAD");
    let place = join(place, "configuration");
    ours.then_some(Found { place, host: Host::Envoy { holds_headers, reloads }, body })
}

fn kubernetes(json: &Json, place: &str, key: &str, host: Host) -> Option<Found> {
    let body = member(json, key)?.clone();
    let names = text(json, &["name", "pluginName"]).into_iter().chain(text(json, &["url"]));
    let code = format!("{:?}", member(json, "code"));
    let ours = names.chain([code.as_str()]).any(is_our_name) || has_pools(&body);
    ours.then(|| Found { place: join(place, key), host, body })
}

fn is_our_name(name: &str) -> bool {
    name.to_ascii_lowercase().contains("backpressure")
}

fn has_pools(body: &Json) -> bool {
    match body {
        Json::Text(text) => {
            serde_json::from_str(text).is_ok_and(|tree: Json| member(&tree, "pools").is_some())
        }
        tree => member(tree, "pools").is_some(),
    }
}

fn member<'a>(json: &'a Json, key: &str) -> Option<&'a Json> {
    let Json::Object(members) = json else { return None };
    members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// The first of these members that is a string.
fn text<'a>(json: &'a Json, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| match member(json, key) {
        Some(Json::Text(text)) => Some(text.as_str()),
        _ => None,
    })
}
