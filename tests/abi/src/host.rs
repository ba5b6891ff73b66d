//! A process with several workers: plugin loading, routing of events, virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::clock::{NANOS_PER_MILLI, NANOS_PER_SECOND};
use crate::module::{Compiled, filter};
use crate::stream::{Direction, LocalReply, ReplyOrigin, Stream};
use crate::vm::Vm;
use crate::wire::Headers;
use crate::world::{SharedWorld, World};

/// What a worker does after its machine trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// 503 for every call.
    Closed,
    /// A new machine at the next call, at most one a second.
    Reload,
}

/// How the host is set up.
#[derive(Clone)]
pub struct Options {
    pub workers: usize,
    /// `allow_on_headers_stop_iteration` of the plugin.
    pub allow_stop: bool,
    /// Envoy's `per_connection_buffer_limit_bytes`.
    pub buffer_limit: usize,
    pub vm_id: String,
    pub failure: FailurePolicy,
    /// The main thread runs a machine of its own that ticks and serves nothing.
    pub main_thread: bool,
    /// Each configuration is tried in a throw-away machine first.
    pub canary: bool,
    pub module: Arc<Compiled>,
}

impl Options {
    /// As the shipped examples configure Envoy, for the filter under test.
    pub fn filter() -> Self {
        Self::of(filter())
    }

    /// The same for any module.
    pub fn of(module: Arc<Compiled>) -> Self {
        Self {
            workers: 1,
            allow_stop: true,
            buffer_limit: 1 << 20,
            vm_id: "backpressure".to_owned(),
            failure: FailurePolicy::Reload,
            main_thread: true,
            canary: true,
            module,
        }
    }

    /// With another number of workers.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }
}

/// Names a call for as long as the host lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    pub worker: usize,
    pub generation: u32,
    pub id: u32,
}

struct Worker {
    vm: Vm,
    generation: u32,
    root: u32,
    loaded_at: u64,
}

/// The process.
pub struct Host {
    pub world: SharedWorld,
    pub options: Options,
    configuration: Vec<u8>,
    workers: Vec<Worker>,
    finished: BTreeMap<StreamId, Stream>,
    strays: u32,
}

impl Host {
    /// Starts the process; `Err` with the log when the module refuses the configuration.
    pub fn start(options: Options, configuration: &str) -> Result<Self, String> {
        Self::start_in(options, configuration, World::default())
    }

    /// Starts the process in a given world, for probes on a copy of another host's state.
    pub fn start_in(options: Options, configuration: &str, world: World) -> Result<Self, String> {
        let world: SharedWorld = Rc::new(RefCell::new(world));
        let mut host = Self {
            world,
            options,
            configuration: configuration.as_bytes().to_vec(),
            workers: Vec::new(),
            finished: BTreeMap::new(),
            strays: 0,
        };
        host.canary(configuration.as_bytes())?;
        let threads = host.options.workers + usize::from(host.options.main_thread);
        for index in 0..threads {
            let worker = host.load(index, 0).ok_or_else(|| host.log_text())?;
            host.workers.push(worker);
        }
        Ok(host)
    }

    fn new_vm(&self, index: usize) -> Vm {
        let options = &self.options;
        Vm::new(&options.module, &self.world, index, &options.vm_id, options.allow_stop, options.buffer_limit)
    }

    fn load(&self, index: usize, generation: u32) -> Option<Worker> {
        let mut vm = self.new_vm(index);
        let root = vm.add_root(&self.configuration)?;
        Some(Worker { vm, generation, root, loaded_at: self.now() })
    }

    /// Envoy tries each new configuration in a machine that it throws away without any end callback.
    fn canary(&self, configuration: &[u8]) -> Result<(), String> {
        if !self.options.canary {
            return Ok(());
        }
        let mut vm = self.new_vm(usize::MAX);
        vm.add_root(configuration).map(|_| ()).ok_or_else(|| self.log_text())
    }

    fn log_text(&self) -> String {
        let world = self.world.borrow();
        let lines =
            world.logs.iter().map(|(_, line)| line.as_str()).chain(world.traps.iter().map(String::as_str));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Monotonic virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.borrow().clock.monotonic()
    }

    /// Pushes a new configuration: new root contexts in the same machines, old ones live until their last call ends.
    /// `Err` when it is refused: the old one stays.
    pub fn configure(&mut self, configuration: &str) -> Result<(), String> {
        self.canary(configuration.as_bytes())?;
        self.configuration = configuration.as_bytes().to_vec();
        for worker in &mut self.workers {
            if worker.vm.failed {
                continue;
            }
            if let Some(root) = worker.vm.add_root(&self.configuration) {
                let old = std::mem::replace(&mut worker.root, root);
                worker.vm.retire_root(old);
            }
        }
        Ok(())
    }

    /// Replaces a worker's machine by a fresh one, as after a trap; its calls are lost to the module.
    pub fn reload_vm(&mut self, index: usize) {
        let generation = self.workers[index].generation + 1;
        let Some(worker) = self.load(index, generation) else { return };
        let mut old = std::mem::replace(&mut self.workers[index], worker);
        for (id, stream) in std::mem::take(&mut old.vm.state().streams) {
            self.finished.insert(StreamId { worker: index, generation: old.generation, id }, stream);
        }
    }

    /// A worker's machine.
    pub fn vm(&mut self, worker: usize) -> &mut Vm {
        &mut self.workers[worker].vm
    }

    /// Whether no machine is dead.
    pub fn alive(&self) -> bool {
        self.workers.iter().all(|worker| !worker.vm.failed)
    }

    /// Bytes of linear memory over all workers.
    pub fn memory_bytes(&self) -> usize {
        self.workers.iter().map(|worker| worker.vm.memory_bytes()).sum()
    }

    /// Lets virtual time pass, running every tick, deadline and queue notification on the way.
    pub fn advance_nanos(&mut self, by: u64) {
        let target = self.now() + by;
        loop {
            self.deliver_notices();
            let next = self.workers.iter().filter_map(|worker| worker.vm.next_event()).min();
            let Some(at) = next.filter(|at| *at <= target) else { break };
            self.world.borrow_mut().clock.move_to(at);
            for worker in &mut self.workers {
                if worker.vm.next_event().is_some_and(|due| due <= at) {
                    worker.vm.run_due(at);
                }
            }
        }
        self.world.borrow_mut().clock.move_to(target);
    }

    /// Lets `millis` milliseconds pass.
    pub fn advance_millis(&mut self, millis: u64) {
        self.advance_nanos(millis * NANOS_PER_MILLI);
    }

    /// Lets `seconds` seconds pass.
    pub fn advance_secs(&mut self, seconds: u64) {
        self.advance_nanos(seconds * NANOS_PER_SECOND);
    }

    /// Delivers queue notifications, as the workers' event loops would.
    pub fn deliver_notices(&mut self) {
        let notices = std::mem::take(&mut self.world.borrow_mut().notices);
        for (worker, root, queue) in notices {
            if let Some(worker) = self.workers.get_mut(worker) {
                worker.vm.queue_ready(root, queue);
            }
        }
    }

    /// Opens a call on a worker.
    pub fn open(&mut self, worker: usize, headers: Headers, end: bool) -> StreamId {
        self.open_with(worker, headers, end, BTreeMap::new())
    }

    /// Opens a call that has properties (NUL-separated paths).
    pub fn open_with(
        &mut self,
        worker: usize,
        headers: Headers,
        end: bool,
        properties: BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> StreamId {
        let now = self.now();
        let due = now >= self.workers[worker].loaded_at + NANOS_PER_SECOND;
        if self.workers[worker].vm.failed && self.options.failure == FailurePolicy::Reload && due {
            self.reload_vm(worker);
        }
        let stream = Stream { properties, ..Stream::default() };
        let target = &mut self.workers[worker];
        if target.vm.failed {
            self.strays += 1;
            let id = StreamId { worker, generation: u32::MAX, id: self.strays };
            let mut refused = stream;
            refused.replied_by = Some(ReplyOrigin::Other);
            refused.details = "wasm_fail_stream".to_owned();
            refused.response.sent.headers = Some(Headers::from_text(&[(":status", "503")]));
            self.finished.insert(id, refused);
            return id;
        }
        let id = target.vm.open(target.root, stream, headers, end);
        StreamId { worker, generation: target.generation, id }
    }

    fn live(&mut self, id: StreamId) -> Option<&mut Vm> {
        let worker = self.workers.get_mut(id.worker)?;
        (worker.generation == id.generation && worker.vm.stream(id.id).is_some()).then_some(&mut worker.vm)
    }

    /// The record of a call, also after its end.
    pub fn stream(&mut self, id: StreamId) -> &Stream {
        if self.finished.contains_key(&id) {
            return &self.finished[&id];
        }
        self.live(id)
            .and_then(|vm| vm.stream(id.id))
            .expect("the call was opened on a machine that still exists")
    }

    /// Whether the call is still known to its machine.
    pub fn is_live(&mut self, id: StreamId) -> bool {
        self.live(id).is_some()
    }

    /// Drops the record of an ended call.
    pub fn forget(&mut self, id: StreamId) {
        self.finished.remove(&id);
    }

    /// A part of the request body.
    pub fn request_body(&mut self, id: StreamId, bytes: &[u8], end: bool) {
        if let Some(vm) = self.live(id) {
            vm.body(id.id, Direction::Request, bytes, end);
        }
    }

    /// Request trailers.
    pub fn request_trailers(&mut self, id: StreamId, trailers: Headers) {
        if let Some(vm) = self.live(id) {
            vm.trailers(id.id, Direction::Request, trailers);
        }
    }

    fn upstream(&mut self, id: StreamId) -> Option<&mut Vm> {
        self.live(id).filter(|_| true).and_then(|vm| {
            let open =
                vm.stream(id.id).is_some_and(|s| s.replied_by.is_none() && s.request.sent.headers.is_some());
            open.then_some(vm)
        })
    }

    /// Response headers from the upstream; ignored unless the request went there.
    pub fn response_headers(&mut self, id: StreamId, headers: Headers, end: bool) {
        if let Some(vm) = self.upstream(id) {
            if let Some(stream) = vm.stream(id.id) {
                stream.details = "via_upstream".to_owned();
                stream.upstream_reached = true;
            }
            vm.headers(id.id, Direction::Response, headers, end);
        }
    }

    /// A part of the response body.
    pub fn response_body(&mut self, id: StreamId, bytes: &[u8], end: bool) {
        if let Some(vm) = self.upstream(id) {
            vm.body(id.id, Direction::Response, bytes, end);
        }
    }

    /// Response trailers.
    pub fn response_trailers(&mut self, id: StreamId, trailers: Headers) {
        if let Some(vm) = self.upstream(id) {
            vm.trailers(id.id, Direction::Response, trailers);
        }
    }

    /// Another filter, the router or Envoy answers.
    pub fn local_reply(&mut self, id: StreamId, reply: LocalReply) {
        if let Some(vm) = self.live(id) {
            vm.local_reply(id.id, reply, ReplyOrigin::Other);
        }
    }

    /// Either peer resets the call; the end callbacks come separately.
    pub fn reset(&mut self, id: StreamId) {
        if let Some(vm) = self.live(id) {
            vm.reset(id.id);
        }
    }

    /// The log callback alone.
    pub fn log(&mut self, id: StreamId) {
        if let Some(vm) = self.live(id) {
            vm.log(id.id);
        }
    }

    /// The done callback alone.
    pub fn done(&mut self, id: StreamId) {
        if let Some(vm) = self.live(id) {
            vm.done(id.id);
        }
    }

    /// The delete callback alone; the call's record stays readable.
    pub fn delete(&mut self, id: StreamId) {
        if let Some(stream) = self.live(id).and_then(|vm| vm.delete(id.id)) {
            self.finished.insert(id, stream);
        }
    }

    /// Log, done, delete: the order in which Envoy ends a call.
    pub fn end(&mut self, id: StreamId) {
        self.log(id);
        self.done(id);
        self.delete(id);
    }

    /// Numbers of the streams that are live on a worker.
    pub fn live_streams(&mut self, worker: usize) -> Vec<u32> {
        self.workers[worker].vm.state().streams.keys().copied().collect()
    }

    /// A copy of the shared world as it is now, without faults and records of this host.
    pub fn snapshot(&self) -> World {
        let mut world = self.world.borrow().clone();
        world.faults.clear();
        world.logs.clear();
        world.traps.clear();
        world.violations.clear();
        world.notices.clear();
        world
    }
}
