//! The status page, answered by the filter itself.

use std::rc::Rc;

use proxy_wasm::types::Action;

use super::host;
use super::worker::{self, Worker};
use crate::config::Mode;
use crate::observe::status::{PoolView, Snapshot, build, page};
use crate::session::head::{Headers, first};
use crate::units::Timestamp;

/// True for a request of any method on the path of the status page.
pub(super) fn is_asked_for(worker: &Worker, headers: &Headers<'_>) -> bool {
    let status_path = worker.plan.config.status_path.as_deref();
    status_path.is_some_and(|ours| page::is_status_path(first(headers, ":path").unwrap_or_default(), ours))
}

/// Answers a request for the status page.
pub(super) fn answer(worker: &Rc<Worker>, method: &[u8], headers: &Headers<'_>) -> Action {
    if method != b"GET" && method != b"HEAD" {
        let headers = [("allow", "GET, HEAD".to_owned())];
        return sent(host::send_response(405, "backpressure_status", &headers, &[]));
    }
    let form = page::form(first(headers, "accept").unwrap_or_default());
    let headers = page::headers(form);
    sent(match form {
        page::Form::Html => host::send_response(200, "backpressure_status", &headers, &page::page()),
        page::Form::Json => {
            let body = snapshot(worker).to_json();
            host::send_response(200, "backpressure_status", &headers, body.as_bytes())
        }
    })
}

const fn sent(sent: bool) -> Action {
    if sent { Action::Pause } else { Action::Continue }
}

fn snapshot(worker: &Rc<Worker>) -> Snapshot {
    let now = worker::now().unwrap_or(Timestamp::EPOCH);
    let config = &worker.plan.config;
    let mut pools = Vec::with_capacity(config.pools.len());
    for (index, pool) in config.pools.iter().enumerate() {
        let parked = worker.meters.try_borrow_mut().map_or(0, |mut meters| meters.parked(index));
        let read =
            worker.step(now, |env| env.gate.summary(env.store, index, build::MOST_FLOWS, now)).flatten();
        pools.push(match read {
            Some((summary, standings)) => build::pool(config, pool, &summary, &standings, parked),
            None => PoolView { parked, ..PoolView::unreadable(&pool.name, &pool.limits) },
        });
    }
    let (denials, anomalies) = worker.meters.try_borrow_mut().map_or_else(
        |_| (Vec::new(), Vec::new()),
        |mut meters| (meters.denials().views(config, now), meters.anomaly_counts()),
    );
    let owed = worker.step(now, |env| env.gate.owed()).unwrap_or(0);
    Snapshot {
        version: env!("CARGO_PKG_VERSION"),
        mode: match config.mode {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        },
        at_ms: now.as_micros().checked_div(1_000).unwrap_or(0),
        pools,
        denials,
        anomalies,
        owed: u64::try_from(owed).unwrap_or(u64::MAX),
    }
}
