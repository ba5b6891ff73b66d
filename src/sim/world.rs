//! The event loop: callers, workers, provider and gatekeeper in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::gate::{Ask, Reservation, Settlement};
use crate::sim::client::Client;
use crate::sim::gatekeeper::{Answer, Gatekeeper, Knock};
use crate::sim::load::{Arrival, Change, Load};
use crate::sim::outcome::{BIN, GroupOutcome, Outcome, Used};
use crate::sim::provider::{Measure, Provider};
use crate::sim::rng::{Rng, mix};
use crate::units::{Cost, Span, Timestamp};

/// Wall clock at virtual time zero.
const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// Parked calls are looked at this often.
const TICK_MICROS: u64 = 5_000;
/// A booking is told in full and short enough to be counted as a promise.
const LONGEST_PROMISE: Span = Span::from_secs(60);
/// An admitted return this late still counts as kept.
const KEPT_WITHIN: Span = Span::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An item of the load's script.
    Script(usize),
    /// A served call is over.
    End(usize),
    /// A caller begins a new call.
    Begin { group: usize, caller: u64 },
    /// A call is tried (again).
    Try(usize),
    /// A parked call's time has come.
    Wake(usize),
}

#[derive(Clone, Debug)]
struct Call {
    group: usize,
    caller: u64,
    actual: Cost,
    reserved: Cost,
    fingerprint: u64,
    since: Timestamp,
    tries: u64,
    refusals: u32,
    worker: usize,
    /// When it comes back from its first booking, if that was told in full.
    first_return: Option<Timestamp>,
    counted_return: bool,
    parked_since: Option<Timestamp>,
    reservation: Option<Reservation>,
}

struct World<'a, K: Gatekeeper + ?Sized> {
    load: Load,
    keeper: &'a mut K,
    provider: Provider,
    rng: Rng,
    seed: u64,
    now: Timestamp,
    clock_step: i64,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    serial: u64,
    calls: Vec<Call>,
    parked: Vec<usize>,
    outcome: Outcome,
}

/// Runs a load against a gatekeeper. The same seed gives the same outcome.
pub fn play<K: Gatekeeper + ?Sized>(load: &Load, keeper: &mut K, seed: u64) -> Outcome {
    let measure = if keeper.is_absent() { Measure::Bucket(load.burst) } else { load.provider_measure() };
    let outcome = Outcome {
        keeper: keeper.name(),
        groups: vec![GroupOutcome::default(); load.groups.len()],
        provider_429: 0,
        served: 0,
        series: load.groups.iter().map(|group| (group.class, Vec::new())).collect(),
        most_parked: 0,
    };
    let mut world = World {
        load: load.clone(),
        provider: Provider::new(load.limits, measure, BEGIN),
        keeper,
        rng: Rng::new(seed, u64::MAX),
        seed,
        now: BEGIN,
        clock_step: 0,
        events: BinaryHeap::new(),
        serial: 0,
        calls: Vec::new(),
        parked: vec![0; load.workers],
        outcome,
    };
    world.populate();
    world.run();
    world.outcome
}

/// Virtual time zero as a gatekeeper made for a run sees it.
pub const fn beginning() -> Timestamp {
    BEGIN
}

impl<K: Gatekeeper + ?Sized> World<'_, K> {
    fn push(&mut self, at: Timestamp, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, event)));
    }

    fn populate(&mut self) {
        for index in 0..self.load.script.len() {
            self.push(BEGIN.after(self.load.script[index].0), Event::Script(index));
        }
        for index in 0..self.load.groups.len() {
            let group = self.load.groups[index];
            let from = BEGIN.after(group.start);
            match group.arrival {
                Arrival::Closed { callers, .. } => {
                    for caller in 0..callers as u64 {
                        let spread = self.rng.span((Span::ZERO, Span::from_secs(5)));
                        self.push(from.after(spread), Event::Begin { group: index, caller });
                    }
                }
                Arrival::Open { .. } => self.push(from, Event::Begin { group: index, caller: 0 }),
            }
        }
    }

    fn run(&mut self) {
        let end = BEGIN.after(self.load.until);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            match event {
                Event::Script(index) => self.change(self.load.script[index].1),
                Event::End(call) => self.end(call),
                Event::Begin { group, caller } => self.begin(group, caller),
                Event::Try(call) => self.attempt(call),
                Event::Wake(call) => self.wake(call),
            }
        }
    }

    /// The wall clock as the gatekeeper reads it.
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.now.as_micros().saturating_add_signed(self.clock_step))
    }

    fn measured(&self, at: Timestamp) -> bool {
        at >= BEGIN.after(self.load.measure_from)
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::ClassWeight(class, weight) => {
                for group in self.load.groups.iter_mut().filter(|group| group.class == class) {
                    group.class_weight = weight;
                }
            }
            Change::ClockStep(micros) => self.clock_step += micros,
            Change::Limits(limits) => {
                self.load.limits = limits;
                self.keeper.reload(&self.load.policy(), self.wall());
                let measure = self.load.provider_measure();
                self.provider = Provider::new(limits, measure, self.now);
            }
        }
    }

    fn begin(&mut self, index: usize, caller: u64) {
        let group = self.load.groups[index];
        if self.now > BEGIN.after(group.stop) {
            return;
        }
        if let Arrival::Open { per_second } = group.arrival {
            let gap = Span::from_micros((self.rng.exponential(1.0 / per_second) * 1e6) as u64);
            self.push(self.now.after(gap), Event::Begin { group: index, caller: caller + 1 });
        }
        let id = self.calls.len();
        let number = if group.same_body { 0 } else { id as u64 + 1 };
        let mut own = Rng::new(self.seed, mix(index as u64) ^ number);
        let actual = group.draw(&mut own, &self.load.limits);
        let reserved = self.estimate(&actual);
        self.calls.push(Call {
            group: index,
            caller,
            actual,
            reserved,
            fingerprint: mix(mix(u64::from(group.class) << 32 | u64::from(group.tenant)) ^ number),
            since: self.now,
            tries: 0,
            refusals: 0,
            worker: 0,
            first_return: None,
            counted_return: false,
            parked_since: None,
            reservation: None,
        });
        if self.measured(self.now) {
            self.outcome.groups[index].offered.add(&actual, Span::ZERO);
        }
        self.attempt(id);
    }

    fn estimate(&self, actual: &Cost) -> Cost {
        let scale = |amount: u64, limit: Option<u64>| {
            ((amount as f64 * self.load.estimate_factor) as u64).clamp(1, limit.unwrap_or(u64::MAX))
        };
        let limits = &self.load.limits;
        Cost {
            llm_tokens: scale(actual.llm_tokens, limits.llm_tokens),
            input: scale(actual.input, limits.input),
            output: scale(actual.output, limits.output),
            ..*actual
        }
    }

    /// A caller's try reaches a worker.
    fn attempt(&mut self, id: usize) {
        let measured = self.measured(self.now);
        let worker = (self.rng.next_u64() % self.load.workers as u64) as usize;
        let call = &mut self.calls[id];
        call.tries += 1;
        call.worker = worker;
        let counted = &mut self.outcome.groups[call.group];
        if measured {
            counted.knocks += 1;
            let steady = self.now >= BEGIN.after(self.load.steady_from);
            if steady && call.first_return.is_some() && !call.counted_return {
                call.counted_return = true;
                counted.returned += 1;
            }
        }
        self.ask(id);
    }

    fn wake(&mut self, id: usize) {
        let worker = self.calls[id].worker;
        self.parked[worker] -= 1;
        self.ask(id);
    }

    fn ask(&mut self, id: usize) {
        let call = &self.calls[id];
        let group = &self.load.groups[call.group];
        let flow = group.flow();
        let since = call.parked_since.unwrap_or(self.now);
        let ask = Ask {
            flow,
            cost: call.reserved,
            fingerprint: call.fingerprint,
            max_told: self.load.max_told,
            max_park: since.after(group.max_wait).since(self.now),
            parked: false,
        };
        let knock = Knock { worker: call.worker, ask };
        let wall = self.wall();
        match self.keeper.call(&knock, wall) {
            Answer::Pass(reservation) => self.pass(id, reservation),
            Answer::Later(None) => self.refuse(id, None, false),
            Answer::Later(Some(turn)) => {
                if !self.park(id, turn.wait) {
                    self.refuse(id, Some(turn.told), turn.told == turn.wait);
                }
            }
        }
    }

    /// Holds the call in its worker when its turn is near enough.
    fn park(&mut self, id: usize, wait: Span) -> bool {
        let call = &mut self.calls[id];
        let max_wait = self.load.groups[call.group].max_wait;
        let since = *call.parked_since.get_or_insert(self.now);
        if self.now.after(wait) > since.after(max_wait) || self.parked[call.worker] >= self.load.max_parked {
            call.parked_since = None;
            return false;
        }
        self.parked[call.worker] += 1;
        self.outcome.most_parked = self.outcome.most_parked.max(self.parked[call.worker]);
        let due = self.now.after(wait).as_micros().div_ceil(TICK_MICROS) * TICK_MICROS;
        self.push(Timestamp::from_micros(due), Event::Wake(id));
        true
    }

    fn pass(&mut self, id: usize, reservation: Option<Reservation>) {
        let actual = self.calls[id].actual;
        if !self.provider.arrive(&actual, self.now) {
            self.outcome.provider_429 += 1;
            if let Some(reservation) = reservation {
                let (worker, wall) = (self.calls[id].worker, self.wall());
                self.keeper.refused(worker, &reservation, wall);
            }
            self.refuse(id, None, false);
            return;
        }
        let measured = self.measured(self.now);
        let lasting = self.rng.span(self.load.groups[self.calls[id].group].duration);
        let call = &mut self.calls[id];
        call.reservation = reservation;
        let over = self.now.after(lasting);
        let visible = over.min(BEGIN.after(self.load.until)).since(self.now);
        self.outcome.served += 1;
        let class = self.load.groups[call.group].class;
        if let Some(bins) = self.outcome.series.get_mut(&class) {
            let bin = (self.now.since(BEGIN).as_micros() / BIN.as_micros()) as usize;
            bins.resize(bins.len().max(bin + 1), Used::default());
            bins[bin].add(&actual, lasting);
        }
        if measured {
            let counted = &mut self.outcome.groups[call.group];
            counted.used.add(&actual, visible);
            counted.admitted += 1;
            counted.tries += call.tries;
            counted.waits.push(self.now.since(call.since));
            counted.parked += u64::from(call.parked_since.is_some());
            let kept = call.first_return.is_some_and(|due| self.now <= due.after(KEPT_WITHIN));
            counted.kept += u64::from(call.counted_return && kept);
        }
        self.push(over, Event::End(id));
    }

    fn end(&mut self, id: usize) {
        self.provider.end();
        let call = &self.calls[id];
        if let Some(reservation) = call.reservation {
            let (worker, actual, wall) = (call.worker, call.actual, self.wall());
            self.keeper.end(worker, &reservation, Settlement::Actual(actual), wall);
        }
        self.next_call(id, false);
    }

    /// The caller is told to come back, or gives up.
    fn refuse(&mut self, id: usize, told: Option<Span>, in_full: bool) {
        let (now, measured) = (self.now, self.measured(self.now));
        let call = &mut self.calls[id];
        let group = self.load.groups[call.group];
        call.refusals += 1;
        let counted = &mut self.outcome.groups[call.group];
        if group.never_return > 0.0 && self.rng.chance(group.never_return) {
            counted.abandoned += u64::from(measured);
            self.next_call(id, true);
            return;
        }
        let Some(delay) = group.client.next_try(told, call.refusals, &mut self.rng) else {
            counted.failed += u64::from(measured);
            self.next_call(id, true);
            return;
        };
        let promised = told.is_some_and(|told| in_full && told <= LONGEST_PROMISE);
        let obedient = !matches!(group.client, Client::Hammers(_) | Client::Early(_));
        if call.refusals == 1 && promised && obedient {
            call.first_return = Some(now.after(delay));
        }
        self.push(now.after(delay), Event::Try(id));
    }

    /// A closed-loop caller goes on to its next call; after giving up it pauses for as long as a call would last.
    fn next_call(&mut self, id: usize, gave_up: bool) {
        let (index, caller) = (self.calls[id].group, self.calls[id].caller);
        let group = self.load.groups[index];
        let Arrival::Closed { think, .. } = group.arrival else { return };
        let idle = if gave_up { self.rng.span(group.duration) } else { Span::ZERO };
        let pause = self.rng.span(think).plus(idle);
        self.push(self.now.after(pause), Event::Begin { group: index, caller });
    }
}
