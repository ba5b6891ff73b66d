//! The event loop of a fleet: callers, Envoys, network, store and provider in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use super::network::{Network, Way};
use super::outcome::{FleetOutcome, Trailing};
use super::replica::{Worker, plan};
use super::{FleetLoad, Routing, State, Trouble};
use crate::fleet::webdis::{self, Reply};
use crate::session::fleet::{Batch, Question};
use crate::session::{Plan, Session, Verdict};
use crate::sim::client::Client;
use crate::sim::load::Arrival;
use crate::sim::outcome::{GroupOutcome, Outcome};
use crate::sim::provider::Provider;
use crate::sim::rng::{Rng, mix};
use crate::sim::world::beginning;
use crate::testing::shared_data::SharedData;
use crate::units::{Cost, Span, Timestamp};

mod callers;
mod messages;

/// Batches of a worker on their way at once, as in the filter.
const MOST_BATCHES: usize = 4;
const FAST_TICK: Span = Span::from_millis(5);
const SLOW_TICK: Span = Span::from_millis(500);
/// As in [`crate::sim::world`].
const LONGEST_PROMISE: Span = Span::from_secs(60);
const KEPT_WITHIN: Span = Span::from_secs(1);
/// LLM tokens of the prompt, about.
const PROMPT: u64 = 16;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Trouble(usize),
    End(usize),
    /// A request reaches the store.
    Arrive(usize),
    /// An answer comes back, or the news that there is none.
    Answer(usize, Option<String>),
    Begin {
        group: usize,
        caller: u64,
    },
    Try(usize),
    Wake(usize),
    Tick(usize),
}

enum Kind {
    Decision { call: usize, question: Question, loaded: bool },
    Batch(Batch, bool),
}

struct Request {
    worker: usize,
    generation: u64,
    command: String,
    /// Gone when it was answered or given up.
    kind: Option<Kind>,
}

struct Call {
    group: usize,
    caller: u64,
    body: String,
    output: u64,
    session: Option<Session>,
    worker: usize,
    since: Timestamp,
    asked: Timestamp,
    tries: u64,
    refusals: u32,
    first_return: Option<Timestamp>,
    counted_return: bool,
    used: u64,
    passed: bool,
}

struct World<'a> {
    fleet: &'a FleetLoad,
    plan: Rc<Plan>,
    network: Network,
    /// `None`: its Envoy is dead.
    workers: Vec<Option<Worker>>,
    generations: Vec<u64>,
    stores: Vec<SharedData>,
    alive: Vec<usize>,
    provider: Provider,
    rng: Rng,
    now: Timestamp,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    serial: u64,
    calls: Vec<Call>,
    requests: Vec<Request>,
    trailing: [Trailing; 2],
    seen: FleetOutcome,
}

/// Plays a fleet. The same seed gives the same outcome.
pub fn play(fleet: &FleetLoad, seed: u64) -> FleetOutcome {
    let load = &fleet.load;
    let outcome = Outcome {
        keeper: "fleet",
        groups: vec![GroupOutcome::default(); load.groups.len()],
        provider_429: 0,
        served: 0,
        series: load.groups.iter().map(|group| (group.class, Vec::new())).collect(),
        most_parked: 0,
    };
    let seen = FleetOutcome {
        outcome,
        most: (0.0, 0.0),
        anomalies: BTreeMap::new(),
        passed_llm_tokens: Vec::new(),
        operations: BTreeMap::new(),
        bytes: (0, 0),
        busy: 0.0,
        markers: 0,
        decisions: Vec::new(),
    };
    let mut world = World {
        fleet,
        plan: plan(load, fleet.timeout),
        network: Network::new(fleet, seed),
        workers: Vec::new(),
        generations: Vec::new(),
        stores: Vec::new(),
        alive: (0..fleet.replicas).collect(),
        provider: Provider::new(load.limits, load.provider_measure(), beginning()),
        rng: Rng::new(seed, u64::MAX),
        now: beginning(),
        events: BinaryHeap::new(),
        serial: 0,
        calls: Vec::new(),
        requests: Vec::new(),
        trailing: [Trailing::default(), Trailing::default()],
        seen,
    };
    for replica in 0..fleet.replicas {
        world.stores.push(SharedData::new());
        for _ in 0..load.workers {
            world.workers.push(None);
            world.generations.push(0);
        }
        world.join(replica);
    }
    world.run();
    world.finish()
}

impl World<'_> {
    fn push(&mut self, at: Timestamp, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, event)));
    }

    fn run(&mut self) {
        for (index, (after, _)) in self.fleet.troubles.iter().enumerate() {
            self.push(beginning().after(*after), Event::Trouble(index));
        }
        for (index, group) in self.fleet.load.groups.iter().enumerate() {
            let from = beginning().after(group.start);
            let callers =
                if let Arrival::Closed { callers, .. } = group.arrival { callers as u64 } else { 1 };
            for caller in 0..callers {
                let spread = self.rng.span((Span::ZERO, Span::from_secs(5)));
                self.push(from.after(spread), Event::Begin { group: index, caller });
            }
        }
        let end = beginning().after(self.fleet.load.until);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            match event {
                Event::Trouble(index) => self.trouble(self.fleet.troubles[index].1),
                Event::End(call) => self.end(call),
                Event::Arrive(request) => self.arrive(request),
                Event::Answer(request, answer) => self.answer(request, answer.as_deref()),
                Event::Begin { group, caller } => self.begin(group, caller),
                Event::Try(call) => self.attempt(call),
                Event::Wake(call) => self.wake(call),
                Event::Tick(worker) => self.tick(worker),
            }
        }
    }

    fn finish(mut self) -> FleetOutcome {
        for worker in self.workers.iter().flatten() {
            for (name, count) in &worker.tally.anomalies {
                *self.seen.anomalies.entry(name).or_default() += count;
            }
        }
        self.seen.most = (self.trailing[0].most, self.trailing[1].most);
        self.seen.operations = self.network.store.operations.clone();
        self.seen.bytes = self.network.bytes;
        let lasted = self.fleet.load.until.as_micros().max(1) as f64;
        self.seen.busy = self.network.worked.as_micros() as f64 / lasted;
        self.seen.decisions.sort_unstable();
        self.seen
    }

    fn measured(&self) -> bool {
        self.now >= beginning().after(self.fleet.load.measure_from)
    }

    fn second(&self) -> usize {
        (self.now.since(beginning()).as_micros() / 1_000_000) as usize
    }

    fn trouble(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Store(state) => self.network.state = state,
            Trouble::Restart => {
                self.network.store.forget();
                self.network.state = State::Well;
            }
            Trouble::Cut(replica) => self.network.cut[replica] = true,
            Trouble::Mend(replica) => self.network.cut[replica] = false,
            Trouble::Die(replica) => self.die(replica),
            Trouble::Join(replica) => {
                self.join(replica);
                self.alive.push(replica);
            }
        }
    }

    /// The places of an Envoy's workers.
    fn places(&self, replica: usize) -> std::ops::Range<usize> {
        let each = self.fleet.load.workers;
        replica * each..(replica + 1) * each
    }

    fn join(&mut self, replica: usize) {
        let apart = self.fleet.clocks.as_micros();
        let offset =
            self.rng.span((Span::ZERO, Span::from_micros(apart))).as_micros() as i64 - (apart / 2) as i64;
        let envoy = self.rng.next_u64() | 1;
        self.stores[replica] = SharedData::new();
        for place in self.places(replica) {
            let number = self.rng.next_u64();
            let tick = self.now.after(self.rng.span((Span::ZERO, SLOW_TICK)));
            let mut worker = Worker::new(&self.plan, replica, number, envoy, offset);
            worker.tick = tick;
            self.workers[place] = Some(worker);
            self.generations[place] += 1;
            self.push(tick, Event::Tick(place));
        }
    }

    fn die(&mut self, replica: usize) {
        self.alive.retain(|other| *other != replica);
        let places = self.places(replica);
        for place in places.clone() {
            if let Some(worker) = self.workers[place].take() {
                for (name, count) in worker.tally.anomalies {
                    *self.seen.anomalies.entry(name).or_default() += count;
                }
            }
            self.generations[place] += 1;
        }
        for id in 0..self.calls.len() {
            let call = &mut self.calls[id];
            if places.contains(&call.worker) && call.session.take().is_some() {
                if call.passed {
                    self.provider.end();
                    self.next_call(id);
                } else {
                    self.refuse(id, None);
                }
            }
        }
    }
}
