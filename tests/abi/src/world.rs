//! What all workers of one process share.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::clock::Clock;
use crate::fault::Faults;
use crate::stats::Stats;
use crate::store::{SharedData, SharedQueues};

/// The process around the virtual machines.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub clock: Clock,
    pub data: SharedData,
    pub queues: SharedQueues,
    pub stats: Stats,
    pub faults: Faults,
    /// Log lines with their level, oldest first.
    pub logs: Vec<(u32, String)>,
    /// How often each host call was made.
    pub calls: BTreeMap<&'static str, u64>,
    /// What the module did that Envoy leaves undefined.
    pub violations: Vec<String>,
    /// Messages of traps.
    pub traps: Vec<String>,
    /// Deepest nesting of deferred resumes and replies.
    pub max_nesting: usize,
    /// Clusters that HTTP callouts may name.
    pub clusters: BTreeSet<String>,
    /// Properties that hold for every context, by NUL-separated path.
    pub properties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Queue notifications not delivered yet: worker, root context, queue.
    pub notices: Vec<(usize, u32, u32)>,
    /// Seed of the next virtual machine's random numbers.
    pub seed: u64,
}

/// The process, shared by its workers on one test thread.
pub type SharedWorld = Rc<RefCell<World>>;

impl World {
    /// Log lines that contain `text`.
    pub fn logged(&self, text: &str) -> usize {
        self.logs.iter().filter(|(_, line)| line.contains(text)).count()
    }

    /// How often a host call was made.
    pub fn calls_of(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }
}
