//! The event loop of a fleet: callers, Envoys, network, store and provider in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use super::network::{Network, Way};
use super::outcome::{FleetOutcome, Trailing};
use super::replica::{Worker, plan};
use super::{FleetLoad, Routing, State, Trouble};
use crate::fleet::webdis::{self, Reply};
use crate::session::fleet::Batch;
use crate::session::{Plan, Session, Verdict};
use crate::sim::client::Client;
use crate::sim::load::Arrival;
use crate::sim::outcome::{GroupOutcome, Outcome};
use crate::sim::provider::Provider;
use crate::sim::rng::{Rng, mix};
use crate::sim::world::beginning;
use crate::testing::shared_data::SharedData;
use crate::units::{Cost, Span, Timestamp};

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
    Decision { call: usize, loaded: bool },
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

    fn begin(&mut self, index: usize, caller: u64) {
        let group = self.fleet.load.groups[index];
        if self.now > beginning().after(group.stop) {
            return;
        }
        if let Arrival::Open { per_second } = group.arrival {
            let gap = Span::from_micros((self.rng.exponential(1.0 / per_second) * 1e6) as u64);
            self.push(self.now.after(gap), Event::Begin { group: index, caller: caller + 1 });
        }
        let id = self.calls.len();
        let mut own = Rng::new(mix(index as u64), id as u64 + 1);
        let output = group.draw(&mut own, &self.fleet.load.limits).llm_tokens.saturating_sub(PROMPT).max(1);
        let body = format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"call number {id:09}\"}}],\"max_tokens\":{output}}}"
        );
        self.calls.push(Call {
            group: index,
            caller,
            body,
            output,
            session: None,
            worker: 0,
            since: self.now,
            asked: self.now,
            tries: 0,
            refusals: 0,
            first_return: None,
            counted_return: false,
            used: 0,
            passed: false,
        });
        if self.measured() {
            let cost = Cost { requests: 1, llm_tokens: output + PROMPT, ..Cost::default() };
            self.seen.outcome.groups[index].offered.add(&cost, Span::ZERO);
        }
        self.attempt(id);
    }

    fn route(&mut self, class: u8) -> Option<usize> {
        let fixed = match self.fleet.routing {
            Routing::Random => None,
            Routing::Skewed(part) => self.rng.chance(part).then_some(0),
            Routing::Pinned { class: pinned, replica } => (pinned == class).then_some(replica),
        };
        let pick = self.rng.next_u64() as usize;
        let replica = fixed
            .filter(|replica| self.alive.contains(replica))
            .or_else(|| self.alive.get(pick % self.alive.len().max(1)).copied())?;
        let each = self.fleet.load.workers;
        Some(replica * each + self.rng.next_u64() as usize % each)
    }

    fn attempt(&mut self, id: usize) {
        let measured = self.measured();
        let group = self.fleet.load.groups[self.calls[id].group];
        let Some(place) = self.route(group.class) else { return self.refuse(id, None) };
        let call = &mut self.calls[id];
        (call.worker, call.asked) = (place, self.now);
        call.tries += 1;
        let counted = &mut self.seen.outcome.groups[call.group];
        counted.knocks += u64::from(measured);
        if measured && call.first_return.is_some() && !call.counted_return {
            call.counted_return = true;
            counted.returned += 1;
        }
        let Some(worker) = &mut self.workers[place] else { return };
        let store = &mut self.stores[worker.replica];
        let (session, verdict) = worker.begin(store, (group.class, group.tenant), &call.body, self.now);
        call.session = Some(session);
        self.carry_out(id, verdict);
    }

    fn wake(&mut self, id: usize) {
        let Some(mut session) = self.calls[id].session.take() else { return };
        let place = self.calls[id].worker;
        let Some(worker) = &mut self.workers[place] else { return };
        let verdict = worker.wake(&mut self.stores[worker.replica], &mut session, self.now);
        self.calls[id].session = Some(session);
        self.carry_out(id, verdict);
    }

    fn carry_out(&mut self, id: usize, verdict: Verdict) {
        let place = self.calls[id].worker;
        match verdict {
            Verdict::Consult(command) => {
                self.send(place, command, Kind::Decision { call: id, loaded: false });
            }
            Verdict::Park { due } => {
                // `due` is on the Envoy's clock; what matters is how far it is.
                let _ = due;
                self.push(self.now.after(FAST_TICK), Event::Wake(id));
            }
            Verdict::Forward(_) => self.pass(id),
            Verdict::Answer(answer) => {
                let header = |name: &str| answer.headers.iter().find(|(other, _)| *other == name);
                let told =
                    header("retry-after-ms").and_then(|(_, value)| value.parse().ok()).map(Span::from_millis);
                self.calls[id].session = None;
                self.refuse(id, told);
            }
        }
        self.hurry(place);
    }

    /// Lets a worker that has something to post tick soon.
    fn hurry(&mut self, place: usize) {
        let soon = self.now.after(FAST_TICK);
        if let Some(worker) = &mut self.workers[place]
            && worker.tick > soon
            && worker.owes()
        {
            worker.tick = soon;
            self.push(soon, Event::Tick(place));
        }
    }

    fn tick(&mut self, place: usize) {
        let now = self.now;
        let Some(worker) = &mut self.workers[place] else { return };
        if worker.tick != now {
            return;
        }
        let store = &mut self.stores[worker.replica];
        worker.ticked(store, now);
        let mut out = Vec::new();
        while worker.batches + out.len() < MOST_BATCHES {
            let Some(next) = worker.next_batch(store, now) else { break };
            out.push(next);
        }
        worker.batches += out.len();
        let next = now.after(if worker.owes() { FAST_TICK } else { SLOW_TICK });
        worker.tick = next;
        self.push(next, Event::Tick(place));
        for (batch, command) in out {
            self.send(place, command, Kind::Batch(batch, false));
        }
    }

    fn send(&mut self, worker: usize, command: String, kind: Kind) {
        let id = self.requests.len();
        let replica = worker / self.fleet.load.workers;
        let generation = self.generations[worker];
        let patience = match (&kind, &self.workers[worker]) {
            (Kind::Batch(..), Some(worker)) => worker.patience(),
            _ => self.fleet.timeout,
        };
        self.requests.push(Request { worker, generation, command, kind: Some(kind) });
        self.push(self.now.after(patience), Event::Answer(id, None));
        match self.network.send(replica, self.now) {
            Way::Arrives(at) => self.push(at, Event::Arrive(id)),
            Way::Fails(at) => self.push(at, Event::Answer(id, None)),
            Way::Lost => {}
        }
    }

    fn arrive(&mut self, id: usize) {
        let request = &mut self.requests[id];
        let command = core::mem::take(&mut request.command);
        let replica = request.worker / self.fleet.load.workers;
        if let Some((at, answer)) = self.network.arrive(replica, &command, self.now) {
            self.push(at, Event::Answer(id, Some(answer)));
        }
        self.seen.markers = self.seen.markers.max(self.network.store.markers("bp:{m}"));
    }

    fn answer(&mut self, id: usize, answer: Option<&str>) {
        let now = self.now;
        let (place, generation) = (self.requests[id].worker, self.requests[id].generation);
        let Some(kind) = self.requests[id].kind.take() else { return };
        let Some(worker) = self.workers[place].as_mut().filter(|_| generation == self.generations[place])
        else {
            return;
        };
        let store = &mut self.stores[worker.replica];
        let reply = answer.map(|text| webdis::reply(b"200", text.as_bytes()));
        match kind {
            Kind::Decision { call, loaded } => {
                let Some(mut session) = self.calls[call].session.take() else { return };
                let again = (reply == Some(Reply::NoScript) && !loaded)
                    .then(|| worker.again(store, &mut session, now))
                    .flatten();
                if let Some(Verdict::Consult(command)) = again {
                    self.calls[call].session = Some(session);
                    return self.send(place, command, Kind::Decision { call, loaded: true });
                }
                if self.now >= beginning().after(self.fleet.load.measure_from) {
                    self.seen.decisions.push(now.since(self.calls[call].asked));
                }
                let verdict = worker.heard(store, &mut session, reply, now);
                self.calls[call].session = Some(session);
                self.carry_out(call, verdict);
            }
            Kind::Batch(batch, loaded) => {
                if reply == Some(Reply::NoScript)
                    && !loaded
                    && let Some(command) = worker.loaded(&batch)
                {
                    return self.send(place, command, Kind::Batch(batch, true));
                }
                worker.batches -= 1;
                worker.posted(store, batch, reply, now);
                self.hurry(place);
            }
        }
    }

    fn pass(&mut self, id: usize) {
        let (now, measured, second) = (self.now, self.measured(), self.second());
        let limits = self.fleet.load.limits;
        let call = &mut self.calls[id];
        let reserved = call.session.as_ref().and_then(Session::log_field).and_then(|field| {
            field.split("\"reserved\":").nth(1)?.split([',', '}']).next()?.trim().parse::<u64>().ok()
        });
        call.used = reserved.unwrap_or(call.output + PROMPT);
        let cost = Cost { requests: 1, llm_tokens: call.used, concurrency: 1, ..Cost::default() };
        if !self.provider.arrive(&cost, now) {
            self.seen.outcome.provider_429 += 1;
            self.finish_call(id, None);
            return self.refuse(id, None);
        }
        self.trailing[usize::from(measured)].add(&limits, &cost, now);
        if self.seen.passed_llm_tokens.len() <= second {
            self.seen.passed_llm_tokens.resize(second + 1, 0);
        }
        self.seen.passed_llm_tokens[second] += cost.llm_tokens;
        let call = &mut self.calls[id];
        call.passed = true;
        let lasting = self.rng.span(self.fleet.load.groups[call.group].duration);
        self.seen.outcome.served += 1;
        if measured {
            let counted = &mut self.seen.outcome.groups[call.group];
            counted.used.add(&cost, lasting);
            counted.admitted += 1;
            counted.tries += call.tries;
            counted.waits.push(now.since(call.since));
            let kept = call.first_return.is_some_and(|due| now <= due.after(KEPT_WITHIN));
            counted.kept += u64::from(call.counted_return && kept);
        }
        self.push(now.after(lasting), Event::End(id));
    }

    fn finish_call(&mut self, id: usize, usage: Option<(u64, u64)>) {
        let place = self.calls[id].worker;
        if let (Some(mut session), Some(worker)) =
            (self.calls[id].session.take(), self.workers[place].as_mut())
        {
            worker.answered(&mut self.stores[worker.replica], &mut session, usage, self.now);
        }
        self.hurry(place);
    }

    fn end(&mut self, id: usize) {
        if self.calls[id].session.is_none() {
            return;
        }
        self.provider.end();
        let (used, output) = (self.calls[id].used, self.calls[id].output);
        self.finish_call(id, Some((used.saturating_sub(output), output)));
        self.next_call(id);
    }

    fn refuse(&mut self, id: usize, told: Option<Span>) {
        let (now, measured) = (self.now, self.measured());
        let call = &mut self.calls[id];
        let group = self.fleet.load.groups[call.group];
        call.refusals += 1;
        let counted = &mut self.seen.outcome.groups[call.group];
        if group.never_return > 0.0 && self.rng.chance(group.never_return) {
            counted.abandoned += u64::from(measured);
            return self.next_call(id);
        }
        let Some(delay) = group.client.next_try(told, call.refusals, &mut self.rng) else {
            counted.failed += u64::from(measured);
            return self.next_call(id);
        };
        let promised = told.is_some_and(|told| told <= LONGEST_PROMISE);
        // A promise of a time of trouble is none of the steady state.
        let steady = now >= beginning().after(self.fleet.load.steady_from);
        if steady
            && call.refusals == 1
            && promised
            && !matches!(group.client, Client::Hammers(_) | Client::Early(_))
        {
            call.first_return = Some(now.after(delay));
        }
        self.push(now.after(delay), Event::Try(id));
    }

    fn next_call(&mut self, id: usize) {
        let (index, caller) = (self.calls[id].group, self.calls[id].caller);
        self.calls[id].body = String::new();
        let Arrival::Closed { think, .. } = self.fleet.load.groups[index].arrival else { return };
        let pause = self.rng.span(think);
        self.push(self.now.after(pause), Event::Begin { group: index, caller });
    }
}
