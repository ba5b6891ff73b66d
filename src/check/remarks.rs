//! What is allowed but probably not meant.

use super::Host;
use crate::config::{Config, IdentitySource, Match, Mode, Pool};
use crate::cost::dialect::{self, Dialect};
use crate::units::Span;

/// First segments of the attributes that Envoy has while a request is decided.
const ATTRIBUTE_ROOTS: [&str; 16] = [
    "request",
    "source",
    "destination",
    "connection",
    "upstream",
    "metadata",
    "filter_state",
    "node",
    "cluster_name",
    "cluster_metadata",
    "listener_direction",
    "listener_metadata",
    "route_name",
    "route_metadata",
    "plugin_name",
    "xds",
];

/// Remarks on a valid configuration, each a sentence.
pub fn remarks(config: &Config, host: Host) -> Vec<String> {
    let mut remarks = Vec::new();
    host_remarks(config, host, &mut remarks);
    identity_remarks(config, &mut remarks);
    for (index, pool) in config.pools.iter().enumerate() {
        pool_remarks(config, index, pool, &mut remarks);
    }
    if let Some(path) = &config.status_path
        && dialect::classify(path.as_bytes(), None).is_some()
    {
        remarks.push(format!("status_path {path} hides an endpoint that calls go to."));
    }
    if config.mode == Mode::Shadow {
        remarks.push("mode is shadow: no cap is held.".to_owned());
    }
    remarks
}

fn host_remarks(config: &Config, host: Host, remarks: &mut Vec<String>) {
    let holds = match host {
        Host::None => return,
        Host::Envoy { holds_headers, reloads } => {
            if !reloads {
                remarks.push(
                    "failure_policy is not FAIL_RELOAD: after a fault of the plugin calls would be refused."
                        .to_owned(),
                );
            }
            holds_headers
        }
        Host::WasmPlugin | Host::ExtensionPolicy => false,
    };
    if config.hold_headers && !holds {
        remarks.push(
            "hold_headers is true, but allow_on_headers_stop_iteration is not set (or cannot be set here): \
             set \"hold_headers\": false."
                .to_owned(),
        );
    }
    if !config.hold_headers && holds {
        remarks.push(
            "allow_on_headers_stop_iteration is set, but hold_headers is false: refused calls reach the upstream's \
             connection for nothing."
                .to_owned(),
        );
    }
}

fn identity_remarks(config: &Config, remarks: &mut Vec<String>) {
    if config.tenant_sources.is_empty() && !config.tenants.is_empty() {
        remarks.push(
            "tenants are named, but identity.tenant has no source: all calls are tenant `default`."
                .to_owned(),
        );
    }
    if config.class_sources.is_empty() && config.classes.len() > 1 {
        remarks.push(
            "several classes, but identity.class has no source: all calls are of the default class."
                .to_owned(),
        );
    }
    for tenant in &config.tenants {
        if tenant.classes.as_ref().is_some_and(|classes| !classes.contains(&config.default_class)) {
            remarks.push(format!(
                "tenant `{}` may not use the default class, yet its calls that name no class of its own fall into it.",
                tenant.name
            ));
        }
    }
    let sources = config.tenant_sources.iter().map(|source| (source, "who is accounted"));
    for (source, what) in sources.chain(config.class_sources.iter().map(|source| (source, "the class"))) {
        match source {
            IdentitySource::Header(name) => remarks.push(format!(
                "header {name} decides {what}: make sure that callers cannot set it themselves."
            )),
            IdentitySource::Property(path) => {
                let root = path.first().map_or("", String::as_str);
                if !ATTRIBUTE_ROOTS.contains(&root) {
                    remarks.push(format!(
                        "Envoy has no attribute that begins with {root} while a call is decided."
                    ));
                }
            }
            IdentitySource::ApiKey => {}
        }
    }
}

fn pool_remarks(config: &Config, index: usize, pool: &Pool, remarks: &mut Vec<String>) {
    let name = &pool.name;
    let before = config.pools.iter().take(index);
    if let Some(earlier) = before.into_iter().find(|earlier| covers(&earlier.matches, &pool.matches)) {
        remarks.push(format!("pool `{name}` gets no calls: `{}` before it takes all of them.", earlier.name));
    }
    if !config.hold_headers && pool.max_wait.iter().any(|wait| *wait > Span::ZERO) {
        remarks.push(format!("pool `{name}` parks calls whose headers the upstream has already got."));
    }
    let openai_style = [None, Some(Dialect::OpenAi), Some(Dialect::AzureOpenAi), Some(Dialect::Mistral)];
    if pool.inject_stream_usage && !openai_style.contains(&pool.provider) {
        remarks.push(format!("pool `{name}`: inject_stream_usage has no effect with this provider."));
    }
    let smallest = [pool.limits.llm_tokens, pool.limits.output].into_iter().flatten().min();
    if smallest.is_some_and(|limit| limit <= pool.default_output_llm_tokens) {
        remarks.push(format!(
            "pool `{name}`: default_output_tokens alone takes a whole limit, so calls without a cap pass one by one."
        ));
    }
}

/// Everything that `inner` takes, `outer` takes too, as far as equal globs and `*` show.
fn covers(outer: &Match, inner: &Match) -> bool {
    let list = |outer: &[crate::config::Glob], inner: &[crate::config::Glob]| {
        let all = |glob: &crate::config::Glob| outer.iter().any(|own| own == glob || own.pattern() == "*");
        outer.is_empty() || (!inner.is_empty() && inner.iter().all(all))
    };
    // Without paths a pool takes the known endpoints only, which is less than any path.
    let paths = if outer.paths.is_empty() {
        inner.paths.is_empty()
    } else {
        list(&outer.paths, &inner.paths) || outer.paths.iter().any(|glob| glob.pattern() == "*")
    };
    paths && list(&outer.hosts, &inner.hosts) && list(&outer.models, &inner.models)
}
