//! Metric names and labels in one place. Names are fixed at load, so that no caller can make new ones.
//!
//! Labels are written into the name as `label.=.value;.`; the tag rules shipped in `envoy/` cut them out again.

use super::Anomaly;
use crate::config::Config;
use crate::gate::TenantKey;
use crate::identity::{DEFAULT_TENANT, DEFAULT_TENANT_NAME, Identity, OTHER_TENANTS_NAME};
use crate::units::{Resource, Span};

/// What was decided on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decided {
    /// Passed at once.
    Admitted,
    /// Passed after waiting inside Envoy.
    Parked,
    /// Refused with a booked return.
    Denied,
    /// Can never pass.
    TooLarge,
    /// Passed because the gate was unwell.
    FailedOpen,
    /// Would have been refused; passed in shadow mode.
    ShadowDenied,
}

impl Decided {
    /// Every decision, in the order of the metric tables.
    pub const ALL: [Self; 6] =
        [Self::Admitted, Self::Parked, Self::Denied, Self::TooLarge, Self::FailedOpen, Self::ShadowDenied];

    /// Value of the `decision` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Parked => "parked",
            Self::Denied => "denied",
            Self::TooLarge => "too_large",
            Self::FailedOpen => "failed_open",
            Self::ShadowDenied => "shadow_denied",
        }
    }
}

/// Kinds of LLM tokens that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LlmTokenKind {
    /// Reserved for a call, counted at its end.
    Reserved,
    /// Input used, cached input not included.
    Input,
    /// Input read from the provider's cache.
    Cached,
    /// Output used.
    Output,
}

impl LlmTokenKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Input, Self::Cached, Self::Output];

    /// Value of the `kind` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Input => "input",
            Self::Cached => "cached",
            Self::Output => "output",
        }
    }
}

/// Whose call a figure belongs to, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Index of the pool.
    pub pool: usize,
    /// Index of the class.
    pub class: usize,
    /// The tenant.
    pub tenant: TenantLabel,
}

/// Value of the `tenant` label; never text from a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantLabel {
    /// Index of a configured tenant.
    Named(usize),
    /// Callers without an identity.
    Default,
    /// Any tenant that the configuration does not name.
    Other,
}

impl TenantLabel {
    /// Label of a caller.
    pub fn of(identity: &Identity) -> Self {
        match identity.tenant_index {
            Some(index) => Self::Named(index),
            None if identity.tenant == DEFAULT_TENANT => Self::Default,
            None => Self::Other,
        }
    }

    /// Label of whoever has an account by this key.
    pub fn of_key(config: &Config, key: TenantKey) -> Self {
        match config.tenants.iter().position(|tenant| tenant.key == key) {
            Some(index) => Self::Named(index),
            None if key == DEFAULT_TENANT => Self::Default,
            None => Self::Other,
        }
    }

    /// The label's text.
    pub fn name(self, config: &Config) -> &str {
        match self {
            Self::Named(index) => config.tenants.get(index).map_or(OTHER_TENANTS_NAME, |tenant| &tenant.name),
            Self::Default => DEFAULT_TENANT_NAME,
            Self::Other => OTHER_TENANTS_NAME,
        }
    }
}

/// Where figures of calls go.
pub trait Recorder {
    /// One call was decided.
    fn decided(&mut self, labels: Labels, decided: Decided);
    /// One call was refused, or would have been in shadow mode. `told`: the wait, `None` when it can never pass.
    fn refused(&mut self, labels: Labels, reason: &'static str, told: Option<Span>);
    /// LLM tokens were reserved or used.
    fn llm_tokens(&mut self, labels: Labels, kind: LlmTokenKind, amount: u64);
    /// A call waited `millis` ms inside Envoy before it passed.
    fn waited(&mut self, labels: Labels, millis: u64);
    /// The estimate was off by `permille` of the real amount.
    fn estimate_error(&mut self, pool: usize, permille: u64);
    /// The provider refused a call for load.
    fn upstream_throttled(&mut self, pool: usize);
    /// A metered call matched no pool.
    fn unmatched(&mut self);
    /// Something did not go as planned.
    fn anomaly(&mut self, anomaly: Anomaly);
}

const PREFIX: &str = "backpressure.";

/// Cuts what would break a label out of a configured name.
fn clean(value: &str) -> String {
    value
        .chars()
        .map(|c| if c.is_control() || matches!(c, ';' | '=' | ' ' | '"') { '_' } else { c })
        .take(120)
        .collect()
}

fn labelled(labels: &[(&str, &str)], name: &str) -> String {
    let mut out = String::from(PREFIX);
    for (label, value) in labels {
        out.push_str(label);
        out.push_str(".=.");
        out.push_str(&clean(value));
        out.push_str(";.");
    }
    out.push_str(name);
    out
}

fn names(config: &Config, labels: Labels) -> (&str, &str, &str) {
    (
        config.pools.get(labels.pool).map_or("other", |pool| pool.name.as_str()),
        config.classes.get(labels.class).map_or("other", |class| class.name.as_str()),
        labels.tenant.name(config),
    )
}

/// Counter of decisions.
pub fn requests(config: &Config, labels: Labels, decided: Decided) -> String {
    let (pool, class, tenant) = names(config, labels);
    labelled(
        &[("pool", pool), ("class", class), ("tenant", tenant), ("decision", decided.name())],
        "requests",
    )
}

/// Counter of LLM tokens.
pub fn llm_tokens(config: &Config, labels: Labels, kind: LlmTokenKind) -> String {
    let (pool, class, tenant) = names(config, labels);
    labelled(&[("pool", pool), ("class", class), ("tenant", tenant), ("kind", kind.name())], "tokens")
}

/// Gauge: share of a flow among those that wait, thousandths. `kind`: `entitled` or `received`.
pub fn share(config: &Config, labels: Labels, kind: &str) -> String {
    let (pool, class, tenant) = names(config, labels);
    labelled(&[("pool", pool), ("class", class), ("tenant", tenant), ("kind", kind)], "share_permille")
}

/// Histogram of waits inside Envoy, ms.
pub fn wait_ms(config: &Config, labels: Labels) -> String {
    let (pool, class, _) = names(config, labels);
    labelled(&[("pool", pool), ("class", class)], "wait_ms")
}

/// Histogram of estimate errors, thousandths of the real amount.
pub fn estimate_error(pool: &str) -> String {
    labelled(&[("pool", pool)], "estimate_error_permille")
}

/// Counter of refusals by their reason, those of shadow mode included.
pub fn denials(pool: &str, reason: &str) -> String {
    labelled(&[("pool", pool), ("reason", reason)], "denials")
}

/// Counter of upstream 429/503/529.
pub fn upstream_throttled(pool: &str) -> String {
    labelled(&[("pool", pool)], "upstream_throttled")
}

/// Counter of anomalies.
pub fn anomalies(anomaly: Anomaly) -> String {
    labelled(&[("reason", anomaly.name())], "anomalies")
}

/// Counter of metered calls that matched no pool.
pub fn unmatched() -> String {
    labelled(&[], "unmatched")
}

/// Gauge: what could be taken now.
pub fn available(pool: &str, resource: Resource) -> String {
    labelled(&[("pool", pool), ("resource", resource.name())], "available")
}

/// Gauges of a pool without further labels: `in_flight`, `parked`, `booked`, `fairness_permille`.
pub fn gauge(pool: &str, name: &str) -> String {
    labelled(&[("pool", pool)], name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_segments_that_tag_rules_can_cut() {
        assert_eq!(gauge("m-chat", "parked"), "backpressure.pool.=.m-chat;.parked");
        assert_eq!(anomalies(Anomaly::UsageMissing), "backpressure.reason.=.usage_missing;.anomalies");
        assert_eq!(gauge("a;b=c \u{7}", "parked"), "backpressure.pool.=.a_b_c__;.parked");
    }
}
