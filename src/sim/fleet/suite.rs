//! The fleets whose figures are published and asserted.

use super::{FleetLoad, FleetOutcome, Routing, State, Trouble, play};
use crate::sim::client::Client;
use crate::sim::load::{Arrival, Group, Load, Size, secs};
use crate::units::{Limits, Span};

/// A run with a name.
#[derive(Clone, Debug)]
pub struct Scene {
    /// What is special about it.
    pub name: &'static str,
    /// What was played.
    pub fleet: FleetLoad,
    /// What was measured.
    pub outcome: FleetOutcome,
}

/// What the contract demands of a fleet under saturation, when each try reaches a random Envoy.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Least use of the binding limit.
    pub utilisation: f64,
    /// Least index of fairness.
    pub jain: f64,
    /// Least part of the bookings kept.
    pub kept: f64,
}

impl Bounds {
    /// Those of a fleet of this size.
    pub const fn of(replicas: usize) -> Self {
        Self { utilisation: if replicas < 1_000 { 0.97 } else { 0.95 }, jain: 0.99, kept: 0.95 }
    }

    /// What a run missed; empty: nothing.
    pub fn missed(&self, scene: &Scene) -> Vec<String> {
        let (load, outcome) = (&scene.fleet.load, &scene.outcome.outcome);
        let mut missed = Vec::new();
        for (name, measured, least) in [
            ("use", outcome.utilisation(load), self.utilisation),
            ("Jain", outcome.jain_classes(load), self.jain),
            ("kept", outcome.kept(), self.kept),
        ] {
            if measured < least {
                missed.push(format!("{name} {measured:.4} < {least}"));
            }
        }
        if load.strict_window && scene.outcome.most.1 > 1.0 {
            missed.push(format!("{:.4} of a limit in 60 s", scene.outcome.most.1));
        }
        missed
    }
}

fn judged(scenes: Vec<Scene>, bounds: Bounds) -> Vec<(Scene, Vec<String>)> {
    let judge = |scene: Scene| {
        let missed = bounds.missed(&scene);
        (scene, missed)
    };
    scenes.into_iter().map(judge).collect()
}

impl Scene {
    /// Plays a fleet.
    pub fn play(name: &'static str, fleet: FleetLoad, seed: u64) -> Self {
        let outcome = play(&fleet, seed);
        Self { name, fleet, outcome }
    }

    /// One line of figures.
    pub fn line(&self) -> String {
        let kind = if self.fleet.load.strict_window { "strict" } else { "bucket" };
        format!(
            "{:>4} {kind} {:<34} {}",
            self.fleet.replicas,
            format!("{}, {}", self.fleet.load.name, self.name),
            self.outcome.line(&self.fleet)
        )
    }
}

/// What a fleet of this size is given, in minutes' limits of a small account (600 requests, 120 000 LLM tokens): more Envoys
/// stand before larger accounts.
const fn accounts(replicas: usize) -> u64 {
    match replicas {
        0..10 => 2,
        10..100 => 4,
        100..1_000 => 20,
        _ => 60,
    }
}

/// Three classes of weights 4:2:1 that want more than there is.
pub fn load(replicas: usize, requests_bind: bool, strict: bool, minutes: f64) -> Load {
    let accounts = accounts(replicas);
    let (name, requests, llm_tokens, callers) = if requests_bind {
        ("requests bind", 100 * accounts, 1_200_000 * accounts, 14 * accounts)
    } else {
        ("LLM tokens bind", 600 * accounts, 120_000 * accounts, 20 * accounts)
    };
    let groups = (0..3_u8)
        .map(|class| Group::closed(class, [4, 2, 1][usize::from(class)], callers as usize))
        .collect();
    let load = Load::new(name, groups).with(|load| {
        load.limits = Limits { requests: Some(requests), llm_tokens: Some(llm_tokens), ..Limits::default() };
        load.measure_from = secs(90.0);
        load.steady_from = secs(90.0);
        load.until = secs(90.0 + minutes * 60.0);
    });
    if strict { load.strict() } else { load }
}

/// A small account before three Envoys, 300 requests a minute, and from the 100th second no store: 14 callers of four tenants,
/// measured for so long from then on.
pub fn wandering(strict: bool, routing: Routing, client: Client, seconds: f64) -> FleetLoad {
    let tenant = |tenant: u32| {
        let callers = [4, 4, 3, 3][tenant as usize];
        Group {
            tenant,
            arrival: Arrival::Closed { callers, think: (secs(0.3), secs(0.35)) },
            size: Size::Fixed(50),
            duration: (secs(0.01), secs(0.02)),
            client,
            ..Group::closed(0, 1, callers)
        }
    };
    let load = Load::new("requests bind, a small account", (0..4).map(tenant).collect()).with(|load| {
        load.limits = Limits { requests: Some(300), llm_tokens: Some(1_000_000), ..Limits::default() };
        load.burst = Span::from_secs(2);
        load.workers = 1;
        load.measure_from = secs(100.0);
        load.steady_from = secs(100.0);
        load.until = secs(100.0 + seconds);
    });
    FleetLoad::new(3, if strict { load.strict() } else { load })
        .with(|fleet| fleet.routing = routing)
        .and(100.0, Trouble::Store(State::Down))
}

/// Begins to count ten seconds after the store is well again.
const BACK: f64 = 130.0;

/// A store that is not well from the 100th second to the 130th; counted is from ten seconds later on, and of the bookings
/// those that are made a minute later: whoever an Envoy told a time alone comes back as a newcomer, and while they
/// all come, the queue grows and turns shift.
pub fn outage(replicas: usize, strict: bool, state: State) -> FleetLoad {
    let end = if state == State::Down { Trouble::Restart } else { Trouble::Store(State::Well) };
    troubled(replicas, strict).and(100.0, Trouble::Store(state)).and(BACK, end)
}

/// A store that goes away and comes back every two seconds, from the 100th second to the 130th.
pub fn flapping(replicas: usize, strict: bool) -> FleetLoad {
    (0..15).fold(troubled(replicas, strict), |fleet, round| {
        let at = 100.0 + 2.0 * f64::from(round);
        fleet.and(at, Trouble::Store(State::Hangs)).and(at + 1.0, Trouble::Store(State::Well))
    })
}

/// Envoys that die, are cut off for half a minute, and come anew.
pub fn replaced(replicas: usize, strict: bool) -> FleetLoad {
    troubled(replicas, strict)
        .and(95.0, Trouble::Die(0))
        .and(98.0, Trouble::Cut(1))
        .and(110.0, Trouble::Join(0))
        .and(BACK, Trouble::Mend(1))
}

fn troubled(replicas: usize, strict: bool) -> FleetLoad {
    let load = load(replicas, false, strict, 0.0).with(|load| {
        load.measure_from = secs(BACK + 10.0);
        load.steady_from = secs(BACK + 70.0);
        load.until = secs(BACK + 150.0);
    });
    FleetLoad::new(replicas, load)
}

/// Round trips longer by an exponential time of this mean.
pub fn jittery(replicas: usize, strict: bool, mean: Span, minutes: f64) -> FleetLoad {
    FleetLoad::new(replicas, load(replicas, false, strict, minutes))
        .and(0.0, Trouble::Store(State::Jittery(mean)))
}

/// Round trips longer by so much, for ever.
pub fn slow(replicas: usize, strict: bool, least: Span, most: Span, minutes: f64) -> FleetLoad {
    FleetLoad::new(replicas, load(replicas, false, strict, minutes))
        .and(0.0, Trouble::Store(State::Slow(least, most)))
}

/// Callers that reach one Envoy nearly always, or of one class there only.
pub fn uneven(replicas: usize, strict: bool, routing: Routing, minutes: f64) -> FleetLoad {
    FleetLoad::new(replicas, load(replicas, false, strict, minutes)).with(|fleet| fleet.routing = routing)
}

/// The saturated fleets of this size with all that the contract varies, and what each missed.
pub fn saturated(replicas: usize, seed: u64, minutes: f64) -> Vec<(Scene, Vec<String>)> {
    let mut scenes = Vec::new();
    for strict in [true, false] {
        for requests_bind in [false, true] {
            let fleet = FleetLoad::new(replicas, load(replicas, requests_bind, strict, minutes));
            scenes.push(Scene::play("any Envoy", fleet, seed));
        }
        let skewed = uneven(replicas, strict, Routing::Skewed(0.9), minutes);
        scenes.push(Scene::play("90 % to one", skewed, seed));
        let pinned = uneven(replicas, strict, Routing::Pinned { class: 0, replica: 1 }, minutes);
        scenes.push(Scene::play("a class to one", pinned, seed));
    }
    judged(scenes, Bounds::of(replicas))
}

/// What troubles leave of the figures ten seconds after they are over, and what each missed.
pub fn recoveries(replicas: usize, seed: u64) -> Vec<(Scene, Vec<String>)> {
    let mut scenes = Vec::new();
    for strict in [true, false] {
        for (name, state) in [
            ("store restarts empty", State::Down),
            ("store hangs", State::Hangs),
            ("store is full", State::Full),
            ("foreign data", State::Foreign),
            ("not a store", State::Garbage),
            ("answers in 60 to 100 ms", State::Slow(Span::from_millis(60), Span::from_millis(100))),
        ] {
            scenes.push(Scene::play(name, outage(replicas, strict, state), seed));
        }
        scenes.push(Scene::play("store flaps", flapping(replicas, strict), seed));
        scenes.push(Scene::play("Envoys die, are cut off", replaced(replicas, strict), seed));
    }
    judged(scenes, RECOVERED)
}

/// Asked of a fleet ten seconds after the store is well again. What passed in a wave when a strict window was free leaves it in
/// a wave a minute later, hence not the use of a fleet that never knew trouble.
pub const RECOVERED: Bounds = Bounds { utilisation: 0.94, jain: 0.99, kept: 0.95 };
/// Asked while the store answers about the timeout or later: fair within each Envoy's part, and the cap holds.
pub const SLUGGISH: Bounds = Bounds { utilisation: 0.90, jain: 0.97, kept: 0.0 };

/// Asked of the first half minute without a store, of callers who mostly reach another Envoy than the one that told them to come back:
/// each Envoy has its part, and hardly holds any of it for who does not come. Of a strict window the first two seconds' worth stays unused.
pub const ALONE: Bounds = Bounds { utilisation: 0.85, jain: 0.99, kept: 0.0 };

/// Fleets whose store goes away while callers wander, and what each missed.
pub fn wanderers(seed: u64) -> Vec<(Scene, Vec<String>)> {
    let mut scenes = Vec::new();
    for strict in [true, false] {
        for (name, routing) in [("to the next Envoy", Routing::Next(1)), ("to any Envoy", Routing::Random)] {
            scenes.push(Scene::play(name, wandering(strict, routing, Client::Obeys, 30.0), seed));
        }
    }
    judged(scenes, ALONE)
}

/// Stores that answer about the timeout or later, for ever, and what each missed.
pub fn sluggish(replicas: usize, seed: u64, minutes: f64) -> Vec<(Scene, Vec<String>)> {
    let millis = Span::from_millis;
    let mut scenes = Vec::new();
    for strict in [true, false] {
        for (name, mean) in
            [("+15 ms on average", 15), ("+50 ms on average", 50), ("+100 ms on average", 100)]
        {
            scenes.push(Scene::play(name, jittery(replicas, strict, millis(mean), minutes), seed));
        }
        for (name, least, most) in [("+40 to 60 ms", 40, 60), ("+60 to 100 ms", 60, 100)] {
            let fleet = slow(replicas, strict, millis(least), millis(most), minutes);
            scenes.push(Scene::play(name, fleet, seed));
        }
    }
    judged(scenes, SLUGGISH)
}
