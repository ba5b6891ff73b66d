//! What one virtual machine's host functions work on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wasmtime::{Memory, TypedFunc};

use crate::stats::Kind;
use crate::stream::{LocalReply, Stream};
use crate::wire::Headers;
use crate::world::SharedWorld;

/// A root context: one plugin configuration in one virtual machine.
#[derive(Debug, Default)]
pub struct Root {
    pub configuration: Vec<u8>,
    /// 0: no ticks.
    pub tick_millis: u32,
    /// Monotonic moment of the next tick.
    pub next_tick: Option<u64>,
    /// Streams that still refer to it.
    pub streams: usize,
    /// A newer configuration took over; it goes with its last stream.
    pub retired: bool,
}

/// Something the module asked for that happens after its callback.
#[derive(Debug)]
pub enum Deferred {
    Resume { stream: u32, response: bool },
    Reply { stream: u32, reply: LocalReply },
    Reset { stream: u32 },
}

/// An HTTP callout under way.
#[derive(Clone, Debug)]
pub struct Callout {
    pub root: u32,
    pub id: u32,
    pub cluster: String,
    pub headers: Headers,
    pub body: Vec<u8>,
    /// Monotonic moment at which it fails; `None`: never.
    pub deadline: Option<u64>,
}

/// An answer to a callout, readable during its callback.
#[derive(Clone, Debug, Default)]
pub struct CalloutAnswer {
    pub headers: Headers,
    pub body: Vec<u8>,
}

/// Host side of one virtual machine.
pub struct VmState {
    pub world: SharedWorld,
    pub worker: usize,
    pub vm_id: String,
    pub memory: Option<Memory>,
    pub allocate: Option<TypedFunc<u32, u32>>,
    pub roots: BTreeMap<u32, Root>,
    pub streams: BTreeMap<u32, Stream>,
    /// Context whose callback runs.
    pub current: u32,
    /// Context that host calls concern.
    pub effective: u32,
    /// A local reply was asked for: the callback's answer counts as a stop.
    pub stop_iteration: bool,
    /// The log callback runs: header maps are those of the finished call.
    pub log_phase: bool,
    pub deferred: VecDeque<Deferred>,
    pub metrics: BTreeMap<u32, (Kind, String)>,
    pub next_metric: u32,
    pub next_context: u32,
    pub callouts: Vec<Callout>,
    pub next_callout: u32,
    pub answer: Option<CalloutAnswer>,
    pub random: u64,
    /// Contexts that were deleted, to tell a stale identifier from an invented one.
    pub deleted: BTreeSet<u32>,
}

impl VmState {
    /// An empty machine of `worker`.
    pub fn new(world: SharedWorld, worker: usize, vm_id: &str) -> Self {
        let seed = {
            let mut world = world.borrow_mut();
            world.seed = world.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            world.seed | 1
        };
        Self {
            world,
            worker,
            vm_id: vm_id.to_owned(),
            memory: None,
            allocate: None,
            roots: BTreeMap::new(),
            streams: BTreeMap::new(),
            current: 0,
            effective: 0,
            stop_iteration: false,
            log_phase: false,
            deferred: VecDeque::new(),
            metrics: BTreeMap::new(),
            next_metric: 0,
            next_context: 2,
            callouts: Vec::new(),
            next_callout: 1,
            answer: None,
            random: seed,
            deleted: BTreeSet::new(),
        }
    }

    /// Root context of the effective context.
    pub fn effective_root(&self) -> u32 {
        self.streams.get(&self.effective).map_or(self.effective, |stream| stream.root)
    }

    /// A context identifier that was never used in this machine.
    pub fn allocate_context(&mut self) -> u32 {
        let id = self.next_context;
        self.next_context += 1;
        id
    }

    /// Next random number; deterministic for a seed.
    pub fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Writes down behaviour that Envoy leaves undefined.
    pub fn violation(&self, what: impl Into<String>) {
        self.world.borrow_mut().violations.push(what.into());
    }
}
