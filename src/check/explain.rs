//! A configuration in words.

use std::fmt::Write as _;

use crate::config::{Config, IdentitySource, Match, Mode, OutputReserve, Pool};
use crate::units::{Resource, Span};

/// What the configuration does, for people.
pub fn explain(config: &Config) -> String {
    let mut out = String::new();
    match config.mode {
        Mode::Enforce => line(&mut out, "Mode: enforce. Calls over a cap are parked or denied."),
        Mode::Shadow => line(&mut out, "Mode: shadow. Everything is decided and counted, every call passes."),
    }
    let when = if config.hold_headers {
        "once the body was read, with the request headers held back"
    } else {
        "once the body was read, with the request headers already sent on"
    };
    line(&mut out, &format!("Decided {when}; at most {} bytes of a body are read.", config.body_limit_bytes));
    line(&mut out, &format!("Tenant: {}.", sources(&config.tenant_sources, "`default`")));
    let class = config.classes.get(usize::from(config.default_class.0)).map_or("", |class| &class.name);
    line(&mut out, &format!("Class: {}.", sources(&config.class_sources, &format!("`{class}`"))));
    for tenant in config.tenants.iter() {
        if let Some(allowed) = &tenant.classes {
            let names = allowed.iter().filter_map(|class| config.classes.get(usize::from(class.0)));
            let names: Vec<_> = names.map(|class| class.name.as_str()).collect();
            let text = format!(
                "Tenant `{}` may use {}; other classes become `{class}`.",
                tenant.name,
                names.join(", ")
            );
            line(&mut out, &text);
        }
    }
    line(&mut out, &format!("No wait above {} is told to a client.", span(config.max_retry_after)));
    if let Some(fleet) = &config.fleet {
        let text = format!(
            "Fleet: each limit is shared with all Envoys that use the store behind cluster `{}` with prefix `{}`; a call \
             is held up to {} for its answer, then this Envoy decides alone.",
            fleet.cluster,
            fleet.prefix,
            span(fleet.timeout)
        );
        line(&mut out, &text);
    }
    for (index, pool) in config.pools.iter().enumerate() {
        out.push('\n');
        explain_pool(&mut out, config, index, pool);
    }
    out
}

fn explain_pool(out: &mut String, config: &Config, index: usize, pool: &Pool) {
    line(out, &format!("Pool {} of {}: `{}`", index.saturating_add(1), config.pools.len(), pool.name));
    item(out, "takes", &calls(&pool.matches));
    let provider = pool.provider.map_or("by path and body", |dialect| dialect.name());
    item(out, "dialect", provider);
    for resource in Resource::ALL {
        if let Some(limit) = pool.limits.get(resource) {
            item(out, "limit", &limit_in_words(pool, resource, *limit));
        }
    }
    let window = if pool.strict_window {
        "never more than the limit in any trailing 60 s"
    } else {
        "a token bucket: after idling up to the burst more than the limit can pass within 60 s"
    };
    // Slots are free again when their calls end, whatever the window.
    if Resource::ALL
        .iter()
        .any(|&resource| resource != Resource::Concurrency && pool.limits.get(resource).is_some())
    {
        item(out, "window", window);
    }
    let reserve = match pool.output_reserve {
        OutputReserve::MaxTokens => "the declared cap times the number of answers",
        OutputReserve::Learned => "what recent outputs suggest, at most the declared cap",
    };
    let default = pool.default_output_llm_tokens;
    item(
        out,
        "output",
        &format!("reserved is {reserve}; {default} tokens when nothing is declared or learned"),
    );
    if let Some(weights) = pool.llm_token_weights {
        let factor = |milli: u32| f64::from(milli) / 1_000.0;
        let preset = weights.preset.map(|name| format!("by the rules of {name}: ")).unwrap_or_default();
        let text = format!(
            "{preset}input counts {}, cached input {}, cache writes {}, output {}",
            factor(weights.input_milli),
            factor(weights.cached_input_milli),
            factor(weights.cache_write_milli),
            factor(weights.output_milli)
        );
        item(out, "weights", &text);
    }
    shares(out, config, pool);
    parking(out, config, pool);
    let mut learns = Vec::new();
    learns
        .extend(pool.learn.headers.then_some("adopts the provider's remaining amounts when they are lower"));
    learns.extend(pool.learn.pause_on_429.then_some("pauses when the provider answers 429, 503 or 529"));
    learns.extend(pool.learn.adapt.then_some("lowers its limits on 429s and raises them back"));
    let learns = if learns.is_empty() { "nothing".to_owned() } else { learns.join("; ") };
    item(out, "learns", &learns);
    if pool.inject_stream_usage {
        item(out, "changes", "asks for usage in OpenAI-style streams that do not ask themselves");
    }
}

fn calls(matches: &Match) -> String {
    let list = |globs: &[crate::config::Glob]| {
        globs.iter().map(crate::config::Glob::pattern).collect::<Vec<_>>().join(" or ")
    };
    let mut parts = vec![if matches.paths.is_empty() {
        "POST on the generation endpoints of all dialects".to_owned()
    } else {
        format!("POST on {}", list(&matches.paths))
    }];
    if !matches.hosts.is_empty() {
        parts.push(format!("for host {}", list(&matches.hosts)));
    }
    parts.push(if matches.models.is_empty() {
        "for any model, or none that can be read".to_owned()
    } else {
        format!("for model {}", list(&matches.models))
    });
    parts.join(", ")
}

fn limit_in_words(pool: &Pool, resource: Resource, limit: u64) -> String {
    let what = match resource {
        Resource::Requests => "requests per minute",
        Resource::LlmTokens => "tokens per minute, input and output together",
        Resource::InputLlmTokens => "input tokens per minute",
        Resource::OutputLlmTokens => "output tokens per minute",
        Resource::Concurrency => return format!("{limit} calls in flight at once"),
    };
    // Rounded as the status page does; a call above it passes on a full bucket.
    let burst = u128::from(limit).saturating_mul(u128::from(pool.burst.as_micros())) / 60_000_000;
    let burst = burst.max(1);
    format!("{limit} {what}; {burst} at once after idling, then {}", pace(limit))
}

fn pace(limit: u64) -> String {
    let per_second = limit as f64 / 60.0;
    if per_second >= 1.0 {
        format!("{} per second", short(per_second))
    } else {
        format!("one every {} s", short(1.0 / per_second))
    }
}

/// At most one digit behind the point.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// What each class and each tenant within a class is entitled to while all of them want more.
fn shares(out: &mut String, config: &Config, pool: &Pool) {
    let total: u64 = pool.class_weights.iter().map(|weight| u64::from(*weight)).sum();
    let mut classes: Vec<_> = config.classes.iter().zip(&pool.class_weights).collect();
    classes.sort_by_key(|(_, weight)| core::cmp::Reverse(**weight));
    let parts: Vec<_> = classes
        .iter()
        .map(|(class, weight)| {
            let percent = f64::from(**weight) * 100.0 / total.max(1) as f64;
            format!("{} {} %", class.name, short(percent))
        })
        .collect();
    item(out, "classes", &format!("when all want more than they get: {}", parts.join(", ")));
    let named: Vec<_> = config
        .tenants
        .iter()
        .zip(&pool.tenant_weights)
        .map(|(tenant, weight)| format!("{} {weight}", tenant.name))
        .collect();
    let text = if named.is_empty() {
        "equal shares within a class".to_owned()
    } else {
        format!("within a class by weight: {}, every other tenant 1", named.join(", "))
    };
    item(out, "tenants", &text);
}

fn parking(out: &mut String, config: &Config, pool: &Pool) {
    let waits = &pool.max_wait;
    if waits.iter().all(|wait| *wait == Span::ZERO) || pool.max_parked == 0 {
        item(out, "parking", "never; calls that must wait are denied with the time to come back");
        return;
    }
    let parts: Vec<_> = config
        .classes
        .iter()
        .zip(waits)
        .map(|(class, wait)| match *wait {
            Span::ZERO => format!("{} never", class.name),
            wait => format!("{} up to {}", class.name, span(wait)),
        })
        .collect();
    let most = pool.max_parked;
    item(out, "parking", &format!("{}; at most {most} calls per worker", parts.join(", ")));
}

fn sources(sources: &[IdentitySource], otherwise: &str) -> String {
    let mut words: Vec<String> = sources
        .iter()
        .map(|source| match source {
            IdentitySource::Header(name) => format!("header `{name}`"),
            IdentitySource::Property(path) => format!("attribute `{}`", path.join("/")),
            IdentitySource::ApiKey => "a hash of the caller's credential".to_owned(),
        })
        .collect();
    words.push(otherwise.to_owned());
    words.join(", else ")
}

fn span(span: Span) -> String {
    let seconds = span.as_micros() as f64 / 1e6;
    if seconds < 1.0 { format!("{} ms", span.as_millis_ceil()) } else { format!("{} s", short(seconds)) }
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

fn item(out: &mut String, key: &str, text: &str) {
    let _ = writeln!(out, "  {key:<8} {text}");
}
