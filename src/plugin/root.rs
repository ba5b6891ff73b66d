//! One configuration in one worker: load, tick, and the creation of calls.

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

use super::generations;
use super::host::{self, Buffer};
use super::http::Call;
use super::meters::Gauge;
use super::questions;
use super::verdict::Resume;
use super::worker::{self, Worker};
use crate::config;
use crate::hash::hash64;
use crate::observe::Anomaly;
use crate::observe::status::build::MOST_FLOWS;
use crate::session::{Plan, Verdict};
use crate::units::{Resource, Span, Timestamp};

const ERROR: u32 = 4;

/// Tick while nothing waits: gauges and learned sizes are brought up to date.
const SLOW_TICK_MILLIS: u32 = 500;
/// Tick while calls are held back: the grain of their turns.
pub(super) const FAST_TICK_MILLIS: u32 = 5;
/// Tick while more calls are ready than one tick may release.
pub(super) const BACKLOG_TICK_MILLIS: u32 = 1;
/// Calls released or refused per tick. The host runs what they set off nested in each other, so a mass release
/// would exhaust the VM's stack.
pub(super) const SLICE: usize = 12;

/// See the module.
#[derive(Debug)]
pub(super) struct Root {
    id: u32,
    worker: Option<Rc<Worker>>,
    slow_due: Timestamp,
}

impl Root {
    pub(super) const fn new(id: u32) -> Self {
        Self { id, worker: None, slow_due: Timestamp::EPOCH }
    }

    /// Tries held calls in the order of their turns; true when the slice was used up.
    fn release_held(worker: &Rc<Worker>, now: Timestamp, most: usize) -> bool {
        for _ in 0..most {
            let next = worker.parking.try_borrow_mut().ok().and_then(|mut parking| parking.next(now));
            let Some((pool, held)) = next else { return false };
            let Some(session) = held.session.upgrade() else { continue };
            let verdict = {
                let Ok(mut call) = session.try_borrow_mut() else { continue };
                worker.step(now, |env| call.decide_parked(env))
            };
            let Some(verdict) = verdict else { continue };
            if !matches!(verdict, Verdict::Park { .. })
                && let Ok(mut parking) = worker.parking.try_borrow_mut()
            {
                parking.try_next_soon(pool);
            }
            if !host::set_effective_context(held.context) {
                // The stream is gone; its end callback settles it.
                continue;
            }
            super::verdict::carry_out(worker, &session, held.context, verdict, now, Resume::Held);
            host::set_effective_context(worker.root);
        }
        true
    }

    /// Asks the fleet's store what has gathered, and passes on what it said; says to how many calls.
    fn tend_questions(worker: &Rc<Worker>, now: Timestamp) -> usize {
        if worker.questions.try_borrow().is_ok_and(|questions| questions.is_empty()) {
            return 0;
        }
        questions::ask_gathered(worker, now);
        let passed_on = questions::pass_on(worker, now, SLICE >> 1_u32);
        host::set_effective_context(worker.root);
        passed_on
    }

    /// Resumes calls whose body this host does not show while their headers are held; true when the slice was used up.
    fn release_headers(worker: &Rc<Worker>, now: Timestamp) -> bool {
        let overdue = worker.watch.overdue(now, SLICE);
        let more = overdue.len() >= SLICE;
        for (context, session) in overdue {
            worker.step(now, |env| env.recorder.anomaly(Anomaly::BodyHidden));
            if host::set_effective_context(context) {
                super::http::headers_leave(worker, &session);
                host::continue_request();
                host::set_effective_context(worker.root);
            }
        }
        more
    }

    fn slow_work(worker: &Rc<Worker>, now: Timestamp) {
        let unknown = worker.step(now, |env| {
            env.suggestions.exchange(env.store, env.recorder);
            env.gate.fleet.as_mut().is_some_and(|fleet| {
                fleet.beat(now);
                fleet.is_unknown()
            })
        });
        if unknown == Some(true) {
            super::fleet::identify(worker, now);
        }
        for pool in 0..worker.plan.pools.len() {
            if worker.is_superseded(pool) {
                continue;
            }
            let glance = worker.step(now, |env| env.gate.summary(env.store, pool, MOST_FLOWS, now));
            let (Some(Some((summary, standings))), Ok(mut meters)) = (glance, worker.meters.try_borrow_mut())
            else {
                continue;
            };
            worker.note_mood(pool, &summary);
            meters.gauge(pool, Gauge::InFlight, summary.in_flight.into());
            meters.gauge(pool, Gauge::Booked, summary.booked.into());
            meters.gauge(pool, Gauge::Fairness, summary.jain_permille.into());
            meters.shares(pool, &summary.flows);
            for (row, resource) in Resource::ALL.iter().enumerate() {
                if let Some(standing) = standings.get(*resource) {
                    meters.available(pool, row, *resource, standing.remaining);
                }
            }
        }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, number: u32, headers: usize, _: usize, _: usize) {
        if let Some(worker) = &self.worker {
            super::fleet::answered(worker, number, headers);
        }
    }

    fn on_done(&mut self) -> bool {
        // The host keeps the timer of a deleted root; stop it so that it does not fire for nothing.
        host::set_tick_period(0);
        if let Some(worker) = &self.worker {
            generations::ended(worker);
        }
        true
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, size: usize) -> bool {
        let text = host::buffer(Buffer::PluginConfiguration, 0, size).unwrap_or_default();
        match config::parse(&text) {
            Ok(config) => {
                let plan = Rc::new(Plan::new(config));
                let digest = hash64(0, &text);
                let worker = Rc::new(Worker::new(plan, self.id, digest));
                worker.set_tick(if worker.plan.config.fleet.is_some() {
                    FAST_TICK_MILLIS
                } else {
                    SLOW_TICK_MILLIS
                });
                generations::loaded(&worker, worker.now_or_last());
                let line = format!("backpressure: configured, pools: {}", worker.plan.pools.len());
                worker::log_change("bp.log.configured", &digest.to_le_bytes(), &line);
                self.worker = Some(worker);
                true
            }
            Err(error) => {
                host::log(ERROR, &format!("backpressure: configuration refused: {error}"));
                false
            }
        }
    }

    fn on_tick(&mut self) {
        let (Some(worker), Some(now)) = (&self.worker, worker::now()) else { return };
        let passed_on = Self::tend_questions(worker, now);
        let more = Self::release_held(worker, now, SLICE.saturating_sub(passed_on))
            | Self::release_headers(worker, now);
        let owed = worker.step(now, |env| {
            env.gate.pay_owed(env.store, now);
            env.gate.owed().saturating_add(env.gate.posts())
        });
        let slow =
            now >= self.slow_due || self.slow_due.since(now).as_millis_ceil() > u64::from(SLOW_TICK_MILLIS);
        let untold = worker.report_parked(now, slow);
        if slow {
            self.slow_due = now.after(Span::from_millis(u64::from(SLOW_TICK_MILLIS)));
            generations::refresh();
            Self::slow_work(worker, now);
        }
        if worker.plan.config.fleet.is_some() {
            super::fleet::post(worker, now);
        }
        let held = worker.parking.try_borrow().is_ok_and(|parking| !parking.is_empty());
        let asks = worker.questions.try_borrow().is_ok_and(|questions| !questions.is_empty());
        worker.set_tick(if more || asks {
            BACKLOG_TICK_MILLIS
        } else if held || untold || owed.unwrap_or(0) > 0 {
            FAST_TICK_MILLIS
        } else {
            worker
                .tends_in(now)
                .map_or(SLOW_TICK_MILLIS, |millis| millis.clamp(FAST_TICK_MILLIS, SLOW_TICK_MILLIS))
        });
    }

    fn create_http_context(&self, context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(match &self.worker {
            Some(worker) => Box::new(Call::new(context_id, Rc::clone(worker))),
            None => Box::new(PassThrough),
        })
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

/// A call of a root that was never configured.
#[derive(Debug)]
struct PassThrough;

impl Context for PassThrough {}

impl HttpContext for PassThrough {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        Action::Continue
    }
}
