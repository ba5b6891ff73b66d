//! The callers at work.

use super::call::{Http, Met, Prepared, prepare, send, usage};
use super::flow::Flow;
use super::random::Random;
use super::record::{Record, progress};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a refused caller comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// 0.5 s doubling to 8 s, whatever it was told.
    Naive,
    /// When it was told to.
    Obey,
    /// Never.
    None,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `http://address:port`
    pub base: String,
    /// `host` header.
    pub host: String,
    /// `model` of the bodies.
    pub model: String,
    /// Length of the run.
    pub length: Duration,
    /// See [`Retry`].
    pub retry: Retry,
    /// Probability that a refused caller gives its call up.
    pub give_up: f64,
    /// Tries per call at most; 0: no end.
    pub max_tries: u64,
    /// Seed of everything drawn.
    pub seed: u64,
    /// Print a line of JSON a second on stderr.
    pub progress: bool,
    /// The callers.
    pub flows: Vec<Flow>,
}

/// How long an answer that has begun may take past the end of the run.
const DRAIN: Duration = Duration::from_secs(5);

struct Run {
    plan: Plan,
    http: Http,
    started: Instant,
    records: Mutex<Vec<Record>>,
}

impl Run {
    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn note(&self, index: usize, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records().get_mut(index) {
            change(record);
        }
    }

    fn over(&self) -> bool {
        self.now() >= self.plan.length
    }

    /// Sleeps, at most to the end of the run. False: the run is over.
    async fn sleep(&self, time: Duration) -> bool {
        let left = self.plan.length.saturating_sub(self.now());
        tokio::time::sleep(time.min(left)).await;
        !self.over()
    }
}

/// Runs the plan and returns what happened to every call.
pub async fn run(plan: Plan, http: Http) -> Vec<Record> {
    let run = Arc::new(Run { plan, http, started: Instant::now(), records: Mutex::default() });
    let mut tasks = tokio::task::JoinSet::new();
    for (index, flow) in run.plan.flows.iter().enumerate() {
        let seed = run.plan.seed.wrapping_mul(1_000_003).wrapping_add(index as u64 * 7919);
        if flow.rate.is_some() {
            tasks.spawn(open_loop(run.clone(), index, seed));
        } else {
            for caller in 0..flow.callers {
                tasks.spawn(closed_loop(run.clone(), index, seed.wrapping_add(caller << 32)));
            }
        }
    }
    if run.plan.progress {
        tasks.spawn(report(run.clone()));
    }
    let end =
        tokio::time::timeout(run.plan.length + DRAIN, async { while tasks.join_next().await.is_some() {} });
    drop(end.await);
    tasks.abort_all();
    std::mem::take(&mut *run.records())
}

async fn report(run: Arc<Run>) {
    while run.sleep(Duration::from_secs(1)).await {
        let line = progress(&run.records(), run.now().as_secs());
        eprintln!("{}", serde_json::to_string(&line).unwrap_or_default());
    }
}

async fn closed_loop(run: Arc<Run>, flow: usize, seed: u64) {
    let mut random = Random::new(seed);
    let Some(spec) = run.plan.flows.get(flow).cloned() else { return };
    // Callers do not start in step.
    let mut go = run.sleep(Duration::from_millis(spec.start_ms + random.bits() % 50)).await;
    while go {
        one_call(&run, flow, &mut random).await;
        go = run.sleep(Duration::from_millis(spec.think_ms)).await;
    }
}

async fn open_loop(run: Arc<Run>, flow: usize, seed: u64) {
    let mut random = Random::new(seed);
    let Some(spec) = run.plan.flows.get(flow).cloned() else { return };
    let mean = 1.0 / spec.rate.unwrap_or(1.0).max(1e-6);
    let mut calls = tokio::task::JoinSet::new();
    let mut due = Duration::from_millis(spec.start_ms);
    while run.sleep(due.saturating_sub(run.now())).await {
        due += Duration::from_secs_f64(random.exponential(mean));
        let (run, mut random) = (run.clone(), Random::new(random.bits()));
        calls.spawn(async move { one_call(&run, flow, &mut random).await });
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
}

/// One call with all its tries.
async fn one_call(run: &Run, flow: usize, random: &mut Random) {
    let index = {
        let mut records = run.records();
        records.push(Record { flow, begun: run.now(), ..Record::default() });
        records.len() - 1
    };
    let plan = &run.plan;
    let Some(spec) = plan.flows.get(flow) else { return };
    let number = (plan.seed << 40) | index as u64;
    let Some(call) = prepare(&plan.base, &plan.host, &plan.model, spec, number, random) else { return };
    let mut backoff = 0.5;
    while let Some(told) = one_try(run, index, &call).await {
        let tries = run.records().get(index).map_or(0, |record| record.tries);
        let done = plan.max_tries > 0 && tries >= plan.max_tries;
        if done || plan.retry == Retry::None || random.unit() < plan.give_up {
            run.note(index, |record| record.ended = Some(run.now()));
            return;
        }
        let naive = Duration::from_secs_f64(backoff * (0.75 + random.unit() / 4.0));
        backoff = (backoff * 2.0_f64).min(8.0);
        let wait = told.filter(|_| plan.retry == Retry::Obey).unwrap_or(naive);
        if !run.sleep(wait).await {
            return;
        }
    }
}

/// One try. `None`: the call is over; else the wait that was told, if any.
async fn one_try(run: &Run, index: usize, call: &Prepared) -> Option<Option<Duration>> {
    run.note(index, |record| record.tries += 1);
    let met = send(&run.http, call).await;
    let now = run.now();
    let returned = |admitted: bool| {
        run.note(index, |record| {
            if record.told.is_some() && record.first_return_admitted.is_none() {
                record.first_return_admitted = Some(admitted);
            }
        });
    };
    match met {
        Met::Admitted(body) => {
            returned(true);
            run.note(index, |record| record.admitted = Some(now));
            let llm_tokens = usage(body).await;
            run.note(index, |record| match llm_tokens {
                Some(llm_tokens) => record.llm_tokens = llm_tokens,
                None => record.errors += 1,
            });
            None
        }
        Met::Refused { by_gate, told } => {
            returned(false);
            run.note(index, |record| {
                if by_gate {
                    record.gate_denials.push(now);
                    record.told = record.told.or(told);
                } else {
                    record.provider_429s.push(now);
                }
            });
            Some(told)
        }
        Met::Failed(status) => {
            run.note(index, |record| record.errors += 1);
            let for_good = status.is_some_and(|status| status.is_client_error());
            if for_good {
                run.note(index, |record| record.ended = Some(now));
                return None;
            }
            Some(None)
        }
    }
}
