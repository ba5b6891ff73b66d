//! Callouts to the fleet's store: decisions, for calls that wait for them, and batches from the tick.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::hostcalls;

use super::host::{self, Buffer, Map};
use super::questions::{self, Asked};
use super::shared::HostStore;
use super::worker::Worker;
use crate::config::Config;
use crate::fleet::webdis::{self, Reply};
use crate::gate::{Expected, SharedStore as _};
use crate::session::fleet::Batch;
use crate::session::head::first;
use crate::units::{Span, Timestamp};

/// Shared-data key of this Envoy's number.
const KEY: &str = "bp.fleet.envoy";
/// Most of an answer that is read.
const MOST_BYTES: usize = 1 << 16;
/// Batches on their way at once.
const MOST_BATCHES: usize = 4;

/// A request that was sent to the store.
#[derive(Debug)]
pub(super) enum Pending {
    /// Calls wait for it.
    Asked(Asked),
    /// Nobody waits.
    Batch(Batch, bool),
}

/// What is on its way, by the host's number.
pub(super) type Callouts = RefCell<Vec<(u32, Pending)>>;

/// The credentials as a header.
pub(super) fn basic(config: &Config) -> Option<String> {
    let credentials = config.fleet.as_ref()?.credentials.as_deref()?;
    Some(format!("Basic {}", base64(credentials.as_bytes())))
}

/// Sends a command whose answer is waited for so long; `None` when the host cannot.
pub(super) fn send(worker: &Worker, command: &str, timeout: Span) -> Option<u32> {
    let fleet = worker.plan.config.fleet.as_ref()?;
    let mut headers =
        vec![(":method", "POST"), (":path", "/"), (":authority", "webdis"), ("content-type", "text/plain")];
    if let Some(basic) = &worker.basic {
        headers.push(("authorization", basic));
    }
    let timeout = Duration::from_micros(timeout.as_micros());
    hostcalls::dispatch_http_call(&fleet.cluster, headers, Some(command.as_bytes()), Vec::new(), timeout).ok()
}

/// Level of what needs somebody's attention.
const ERROR: u32 = 4;
const NEVER_REACHED: &str = "backpressure: the fleet's store never answered this Envoy, which therefore uses the whole \
    limits and not a part of them; see anomalies fleet_unreachable, fleet_refused, fleet_garbled";

/// Sends what waits. Only from the tick: an answer finds its way to the root, which outlives the calls.
pub(super) fn post(worker: &Worker, now: Timestamp) {
    loop {
        let batches = worker.callouts.try_borrow().map_or(0, |callouts| {
            callouts.iter().filter(|(_, pending)| matches!(pending, Pending::Batch(..))).count()
        });
        if batches >= MOST_BATCHES {
            return;
        }
        let batch = worker.step(now, |env| env.gate.fleet.as_mut()?.next_batch(env.now)).flatten();
        let Some(batch) = batch else { return };
        if !send_batch(worker, batch, false, now) {
            return;
        }
    }
}

fn send_batch(worker: &Worker, batch: Batch, loaded: bool, now: Timestamp) -> bool {
    let command = worker
        .step(now, |env| {
            let policy = env.gate.policy(batch.pool)?;
            let fleet = env.gate.fleet.as_ref()?;
            Some((fleet.batch_command(loaded, &batch, policy), fleet.patience()))
        })
        .flatten();
    let number = command.and_then(|(command, timeout)| send(worker, &command, timeout));
    match (number, worker.callouts.try_borrow_mut()) {
        (Some(number), Ok(mut callouts)) => {
            callouts.push((number, Pending::Batch(batch, loaded)));
            true
        }
        _ => {
            posted(worker, batch, None, now);
            false
        }
    }
}

fn posted(worker: &Worker, batch: Batch, reply: Option<Reply>, now: Timestamp) {
    worker.step(now, |env| {
        let policy = env.gate.policy(batch.pool).cloned();
        if let (Some(policy), Some(fleet)) = (policy, env.gate.fleet.as_mut()) {
            let failed = !matches!(reply, Some(Reply::Lines(_)));
            fleet.posted(batch, &policy, reply, env.now, env.recorder);
            if failed && fleet.should_warn(env.now) {
                host::log(ERROR, NEVER_REACHED);
            }
        }
    });
}

/// A callout ended: with an answer, or with none (no headers).
pub(super) fn answered(worker: &Rc<Worker>, number: u32, headers: usize) {
    let pending = worker.callouts.try_borrow_mut().ok().and_then(|mut callouts| {
        let found = callouts.iter().position(|(other, _)| *other == number)?;
        Some(callouts.swap_remove(found).1)
    });
    let reply = (headers > 0).then(read).flatten();
    let now = worker.now_or_last();
    match pending {
        Some(Pending::Batch(batch, false)) if reply == Some(Reply::NoScript) => {
            send_batch(worker, batch, true, now);
        }
        Some(Pending::Batch(batch, _)) => posted(worker, batch, reply, now),
        Some(Pending::Asked(asked)) => questions::answered(worker, asked, reply, now),
        None => {}
    }
    worker.hurry_if_owing();
}

/// The answer of the present callout. `None`: Envoy made it up because the store cannot be reached.
fn read() -> Option<Reply> {
    let encoded = host::header_map(Map::Callout);
    let headers = host::pairs(&encoded);
    let status = first(&headers, ":status").unwrap_or_default();
    if [b"502", b"503", b"504"].iter().any(|made_up| status == *made_up) {
        return None;
    }
    let body = host::buffer(Buffer::Callout, 0, MOST_BYTES).unwrap_or_default();
    Some(webdis::reply(status, &body))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
        for place in 0..4_usize {
            let digit =
                usize::try_from((word >> 18_usize.saturating_sub(place.saturating_mul(6))) & 63).unwrap_or(0);
            let known = place <= chunk.len();
            out.push(if known { DIGITS.get(digit).map_or('=', |digit| char::from(*digit)) } else { '=' });
        }
    }
    out
}

/// Numbers that tell this worker and this Envoy from all others.
pub(super) fn identify(worker: &Worker, now: Timestamp) {
    let mut store = HostStore;
    let mut value = Vec::new();
    let _ = store.put(KEY, &host::random().to_le_bytes(), Expected::Absent);
    let _ = store.get(KEY, &mut value);
    let envoy = value.try_into().map_or_else(|_| host::random(), u64::from_le_bytes);
    worker.step(now, |env| {
        if let Some(fleet) = &mut env.gate.fleet {
            fleet.identify(host::random(), envoy);
        }
    });
}
