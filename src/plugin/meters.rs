//! Counters, gauges and histograms of one worker, and the rate-limited log.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use super::host::{self, MetricKind};
use crate::gate::FlowShare;
use crate::observe::log_limit::LogLimit;
use crate::observe::metrics;
use crate::observe::status::denials::Denials;
use crate::observe::{Anomaly, Decided, Labels, LlmTokenKind, Recorder, TenantLabel};
use crate::session::Plan;
use crate::units::{Resource, Span, Timestamp};

const WARN: u32 = 3;

thread_local! {
    /// Every define call makes a new id in the host, so ids are kept for the life of the VM, over reloads.
    static IDS: RefCell<HashMap<String, u32>> = RefCell::new(HashMap::new());
}

fn define(kind: MetricKind, name: String) -> Option<u32> {
    IDS.with(|ids| {
        let mut ids = ids.borrow_mut();
        if let Some(id) = ids.get(&name) {
            return Some(*id);
        }
        let id = host::define_metric(kind, &name)?;
        ids.insert(name, id);
        Some(id)
    })
}

/// Ids by position, looked up by name only once.
#[derive(Debug, Default)]
struct Table(Vec<Option<u32>>);

impl Table {
    fn id(&mut self, position: usize, kind: MetricKind, name: impl FnOnce() -> String) -> Option<u32> {
        if position >= self.0.len() {
            self.0.resize(position.saturating_add(1), None);
        }
        let slot = self.0.get_mut(position)?;
        if slot.is_none() {
            *slot = define(kind, name());
        }
        *slot
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Meters {
    plan: Rc<Plan>,
    now: Timestamp,
    log_limit: LogLimit,
    requests: Table,
    llm_tokens: Table,
    waits: Table,
    pools: Table,
    anomalies: Table,
    unmatched: Table,
    denials: Denials,
    share_gauges: Table,
    shares: Vec<Share>,
}

/// Share of the flows with the same labels, as last shown, thousandths.
#[derive(Debug)]
struct Share {
    labels: Labels,
    entitled: u32,
    received: u32,
}

/// Metrics of a pool that have no other label, by position in the pool's row.
const POOL_METRICS: usize = 18;
/// Row of the first reason for a refusal; before it stand gauges, the histogram, the throttle counter and what is left.
const FIRST_REASON: usize = 11;
/// Reasons for a refusal in the order of their rows.
const REASONS: [&str; 5] = ["exhausted", "over_share", "concurrency", "upstream_paused", "exceeds_limit"];

impl Meters {
    pub(super) fn new(plan: Rc<Plan>) -> Self {
        Self {
            plan,
            now: Timestamp::EPOCH,
            log_limit: LogLimit::default(),
            requests: Table::default(),
            llm_tokens: Table::default(),
            waits: Table::default(),
            pools: Table::default(),
            anomalies: Table::default(),
            unmatched: Table::default(),
            denials: Denials::default(),
            share_gauges: Table::default(),
            shares: Vec::new(),
        }
    }

    /// Latest refusals of this worker.
    pub(super) const fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Anomalies that occurred, over all workers, since Envoy started.
    pub(super) fn anomaly_counts(&mut self) -> Vec<(&'static str, u64)> {
        let mut counts = Vec::new();
        for anomaly in Anomaly::ALL.iter().copied() {
            let id = self.anomalies.id(anomaly as usize, MetricKind::Counter, || metrics::anomalies(anomaly));
            match id.and_then(host::metric) {
                Some(count) if count > 0 => counts.push((anomaly.name(), count)),
                _ => {}
            }
        }
        counts
    }

    /// Calls held inside Envoy, over all workers.
    pub(super) fn parked(&mut self, pool: usize) -> u64 {
        let row = Gauge::Parked as usize;
        self.pool_metric(pool, row, MetricKind::Gauge, |name| metrics::gauge(name, "parked"))
            .and_then(host::metric)
            .unwrap_or(0)
    }

    /// Sets the moment that log limits go by.
    pub(super) const fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Position of (pool, class, tenant) in a table; absent labels share the last place of their kind.
    fn flow_position(&self, labels: Labels, kinds: usize, kind: usize) -> usize {
        let classes = self.plan.config.classes.len().saturating_add(1);
        let tenants = self.plan.config.tenants.len().saturating_add(2);
        let pool = labels.pool.min(self.plan.config.pools.len());
        let class = labels.class.min(classes.saturating_sub(1));
        let tenant = match labels.tenant {
            TenantLabel::Other => 0,
            TenantLabel::Default => 1,
            TenantLabel::Named(index) => index.saturating_add(2).min(tenants.saturating_sub(1)),
        };
        pool.saturating_mul(classes)
            .saturating_add(class)
            .saturating_mul(tenants)
            .saturating_add(tenant)
            .saturating_mul(kinds)
            .saturating_add(kind)
    }

    fn pool_metric(
        &mut self,
        pool: usize,
        row: usize,
        kind: MetricKind,
        name: impl Fn(&str) -> String,
    ) -> Option<u32> {
        let plan = Rc::clone(&self.plan);
        let pool_name = &plan.config.pools.get(pool)?.name;
        self.pools.id(pool.saturating_mul(POOL_METRICS).saturating_add(row), kind, || name(pool_name))
    }

    /// Sets the gauge of what is left of a resource.
    pub(super) fn available(&mut self, pool: usize, row: usize, resource: Resource, amount: u64) {
        let row = row.saturating_add(6);
        if let Some(id) =
            self.pool_metric(pool, row, MetricKind::Gauge, |name| metrics::available(name, resource))
        {
            host::record_metric(id, amount);
        }
    }

    /// Sets one of the gauges `in_flight`, `parked`, `booked`, `fairness_permille`.
    pub(super) fn gauge(&mut self, pool: usize, gauge: Gauge, value: u64) {
        let row = gauge as usize;
        if let Some(id) =
            self.pool_metric(pool, row, MetricKind::Gauge, |name| metrics::gauge(name, gauge.name()))
        {
            host::record_metric(id, value);
        }
    }

    /// Sets the gauges of a pool's shares: who waits no more is shown with none, once.
    pub(super) fn shares(&mut self, pool: usize, flows: &[FlowShare]) {
        let plan = Rc::clone(&self.plan);
        let config = &plan.config;
        let mut shares = core::mem::take(&mut self.shares);
        for shown in shares.iter_mut().filter(|shown| shown.labels.pool == pool) {
            (shown.entitled, shown.received) = (0, 0);
        }
        for flow in flows {
            let tenant = TenantLabel::of_key(config, flow.flow.tenant);
            let labels = Labels { pool, class: usize::from(flow.flow.class.0), tenant };
            let (entitled, received) = (flow.entitled_permille, flow.received_permille);
            match shares.iter_mut().find(|shown| shown.labels == labels) {
                Some(shown) => {
                    shown.entitled = shown.entitled.saturating_add(entitled);
                    shown.received = shown.received.saturating_add(received);
                }
                None => shares.push(Share { labels, entitled, received }),
            }
        }
        shares.retain(|shown| {
            if shown.labels.pool != pool {
                return true;
            }
            let values = [("entitled", shown.entitled), ("received", shown.received)];
            for (row, (kind, value)) in values.into_iter().enumerate() {
                let position = self.flow_position(shown.labels, values.len(), row);
                let name = || metrics::share(config, shown.labels, kind);
                if let Some(id) = self.share_gauges.id(position, MetricKind::Gauge, name) {
                    host::record_metric(id, value.into());
                }
            }
            shown.entitled > 0 || shown.received > 0
        });
        self.shares = shares;
    }
}

/// Gauges of a pool; the number is the position in its row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gauge {
    InFlight = 0,
    Parked = 1,
    Booked = 2,
    Fairness = 3,
}

impl Gauge {
    const fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Parked => "parked",
            Self::Booked => "booked",
            Self::Fairness => "fairness_permille",
        }
    }
}

impl Recorder for Meters {
    fn decided(&mut self, labels: Labels, decided: Decided) {
        let position = self.flow_position(labels, Decided::ALL.len(), decided as usize);
        let plan = Rc::clone(&self.plan);
        let id = self
            .requests
            .id(position, MetricKind::Counter, || metrics::requests(&plan.config, labels, decided));
        if let Some(id) = id {
            host::add_metric(id, 1);
        }
    }

    fn refused(&mut self, labels: Labels, reason: &'static str, told: Option<Span>) {
        self.denials.push(labels, reason, told, self.now);
        let row = REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len());
        let row = row.saturating_add(FIRST_REASON);
        let id =
            self.pool_metric(labels.pool, row, MetricKind::Counter, |name| metrics::denials(name, reason));
        if let Some(id) = id {
            host::add_metric(id, 1);
        }
    }

    fn llm_tokens(&mut self, labels: Labels, kind: LlmTokenKind, amount: u64) {
        if amount == 0 {
            return;
        }
        let position = self.flow_position(labels, LlmTokenKind::ALL.len(), kind as usize);
        let plan = Rc::clone(&self.plan);
        let id = self
            .llm_tokens
            .id(position, MetricKind::Counter, || metrics::llm_tokens(&plan.config, labels, kind));
        if let Some(id) = id {
            host::add_metric(id, amount);
        }
    }

    fn waited(&mut self, labels: Labels, millis: u64) {
        let position = self.flow_position(Labels { tenant: TenantLabel::Other, ..labels }, 1, 0);
        let plan = Rc::clone(&self.plan);
        let id = self.waits.id(position, MetricKind::Histogram, || metrics::wait_ms(&plan.config, labels));
        if let Some(id) = id {
            host::record_metric(id, millis);
        }
    }

    fn estimate_error(&mut self, pool: usize, permille: u64) {
        if let Some(id) = self.pool_metric(pool, 4, MetricKind::Histogram, metrics::estimate_error) {
            host::record_metric(id, permille);
        }
    }

    fn upstream_throttled(&mut self, pool: usize) {
        if let Some(id) = self.pool_metric(pool, 5, MetricKind::Counter, metrics::upstream_throttled) {
            host::add_metric(id, 1);
        }
    }

    fn unmatched(&mut self) {
        if let Some(id) = self.unmatched.id(0, MetricKind::Counter, metrics::unmatched) {
            host::add_metric(id, 1);
        }
    }

    fn anomaly(&mut self, anomaly: Anomaly) {
        let id = self.anomalies.id(anomaly as usize, MetricKind::Counter, || metrics::anomalies(anomaly));
        if let Some(id) = id {
            host::add_metric(id, 1);
        }
        if let Some(held_back) = self.log_limit.allow(anomaly, self.now) {
            host::log(
                WARN,
                &format!(
                    "backpressure: {}: {} ({held_back} like it held back)",
                    anomaly.name(),
                    anomaly.text()
                ),
            );
        }
    }
}
