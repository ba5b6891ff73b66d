//! From what the gate tells of a pool to what the page shows of it.

use crate::config::{ClassId, Config, Pool};
use crate::gate::{Flow, Standings, Summary, TenantKey};
use crate::observe::TenantLabel;
use crate::units::{Resource, Span};

use super::{FlowView, LimitView, MOST_ROWS, PoolView, ReturnView};

/// Flows to ask the gate for: as many as it keeps, because those of unnamed tenants are shown as one.
pub const MOST_FLOWS: usize = 1_024;

/// Shows one pool. `parked`: calls held inside Envoy.
pub fn pool(config: &Config, pool: &Pool, summary: &Summary, standings: &Standings, parked: u64) -> PoolView {
    PoolView {
        name: pool.name.clone(),
        readable: true,
        limits: limits(standings, pool.burst),
        scale_permille: summary.scale_permille,
        paused_ms: summary.paused.map(|span| span.as_millis_ceil()),
        in_flight: summary.in_flight.into(),
        parked,
        booked: summary.booked.into(),
        mean_duration_ms: summary.mean_duration.map(|span| span.as_millis_ceil()),
        fairness_permille: summary.jain_permille,
        flows: flows(config, summary),
        returns: returns(config, summary),
    }
}

fn limits(standings: &Standings, burst: Span) -> Vec<LimitView> {
    let minute = Span::from_secs(60).as_micros();
    Resource::ALL
        .into_iter()
        .filter_map(|resource| {
            let standing = (*standings.get(resource))?;
            let part = standing.limit.saturating_mul(burst.as_micros()).checked_div(minute).unwrap_or(0);
            let at_once = if resource == Resource::Concurrency { standing.limit } else { part };
            Some(LimitView {
                resource,
                limit: standing.limit,
                at_once: at_once.max(standing.remaining).max(1),
                remaining: standing.remaining,
                reset_ms: standing.reset.as_millis_ceil(),
            })
        })
        .collect()
}

/// One row for each class and shown tenant name, the flows of unnamed tenants added up.
fn flows(config: &Config, summary: &Summary) -> Vec<FlowView> {
    let mut views: Vec<FlowView> = Vec::new();
    for share in &summary.flows {
        let (class, tenant) = names(config, &share.flow);
        match views.iter_mut().find(|view| view.class == class && view.tenant == tenant) {
            Some(view) => {
                let returning = |permille: u32, calls: u32| u64::from(permille).saturating_mul(calls.into());
                let sum = returning(view.returning_permille, view.waiting)
                    .saturating_add(returning(share.returning_permille, share.waiting));
                view.waiting = view.waiting.saturating_add(share.waiting);
                let mean = sum.checked_div(view.waiting.into()).unwrap_or(0);
                view.returning_permille = u32::try_from(mean).unwrap_or(1_000);
                view.entitled_permille = view.entitled_permille.saturating_add(share.entitled_permille);
                view.received_permille = view.received_permille.saturating_add(share.received_permille);
            }
            None => views.push(FlowView {
                class: class.to_owned(),
                tenant: tenant.to_owned(),
                waiting: share.waiting,
                entitled_permille: share.entitled_permille,
                received_permille: share.received_permille,
                returning_permille: share.returning_permille,
            }),
        }
    }
    // The most entitled first: with many rows, those that matter are not the ones cut off.
    let mut views = crate::sorted::sorted(views, |a, b| {
        b.entitled_permille
            .cmp(&a.entitled_permille)
            .then_with(|| (&a.class, &a.tenant).cmp(&(&b.class, &b.tenant)))
    });
    views.truncate(MOST_ROWS);
    views
}

fn returns(config: &Config, summary: &Summary) -> Vec<ReturnView> {
    let view = |upcoming: &crate::gate::Upcoming| {
        let (class, tenant) = names(config, &upcoming.flow);
        ReturnView {
            class: class.to_owned(),
            tenant: tenant.to_owned(),
            in_ms: upcoming.wait.as_millis_ceil(),
        }
    };
    summary.upcoming.iter().take(MOST_ROWS).map(view).collect()
}

fn names<'a>(config: &'a Config, flow: &Flow) -> (&'a str, &'a str) {
    (class_name(config, flow.class), tenant_name(config, flow.tenant))
}

/// A class that a newer configuration no longer has is shown without a name.
fn class_name(config: &Config, class: ClassId) -> &str {
    config.classes.get(usize::from(class.0)).map_or("?", |class| class.name.as_str())
}

fn tenant_name(config: &Config, key: TenantKey) -> &str {
    TenantLabel::of_key(config, key).name(config)
}
