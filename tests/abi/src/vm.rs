//! One virtual machine: an instance of the module and its callbacks.

use std::sync::Arc;

use wasmtime::{Store, TypedFunc, WasmParams, WasmResults};

use crate::clock::NANOS_PER_MILLI;
use crate::module::Compiled;
use crate::state::{CalloutAnswer, Deferred, Root, VmState};
use crate::wire::Headers;
use crate::world::SharedWorld;

/// Exports that the host calls.
pub(crate) struct Exports {
    pub context_create: TypedFunc<(u32, u32), ()>,
    pub vm_start: TypedFunc<(u32, u32), u32>,
    pub configure: TypedFunc<(u32, u32), u32>,
    pub tick: TypedFunc<u32, ()>,
    pub queue_ready: TypedFunc<(u32, u32), ()>,
    pub request_headers: TypedFunc<(u32, u32, u32), u32>,
    pub request_body: TypedFunc<(u32, u32, u32), u32>,
    pub request_trailers: TypedFunc<(u32, u32), u32>,
    pub response_headers: TypedFunc<(u32, u32, u32), u32>,
    pub response_body: TypedFunc<(u32, u32, u32), u32>,
    pub response_trailers: TypedFunc<(u32, u32), u32>,
    pub http_call_response: TypedFunc<(u32, u32, u32, u32, u32), ()>,
    pub log: TypedFunc<u32, ()>,
    pub done: TypedFunc<u32, u32>,
    pub delete: TypedFunc<u32, ()>,
}

/// A running instance.
pub struct Vm {
    pub(crate) store: Store<VmState>,
    pub(crate) exports: Arc<Exports>,
    /// A trap killed it; nothing runs any more.
    pub failed: bool,
    /// Envoy's `allow_on_headers_stop_iteration`.
    pub(crate) allow_stop: bool,
    /// Most bytes Envoy buffers while the filter pauses in a body callback.
    pub(crate) buffer_limit: usize,
    metered: bool,
    depth: usize,
}

const FUEL: u64 = u64::MAX / 2;

impl Vm {
    /// Instantiates the module and runs its initialiser.
    pub fn new(
        compiled: &Compiled,
        world: &SharedWorld,
        worker: usize,
        vm_id: &str,
        allow_stop: bool,
        buffer_limit: usize,
    ) -> Self {
        let mut store = Store::new(&compiled.engine, VmState::new(world.clone(), worker, vm_id));
        if compiled.metered {
            store.set_fuel(FUEL).expect("fuel is switched on");
        }
        let instance = compiled
            .linker
            .instantiate(&mut store, &compiled.module)
            .expect("the module imports only what Envoy offers");
        let memory = instance.get_memory(&mut store, "memory");
        store.data_mut().memory = memory;
        assert!(
            instance.get_func(&mut store, "proxy_abi_version_0_2_1").is_some(),
            "the module speaks another ABI version"
        );
        macro_rules! export {
            ($name:literal) => {
                instance.get_typed_func(&mut store, $name).expect(concat!("export ", $name))
            };
        }
        let allocate = export!("proxy_on_memory_allocate");
        let exports = Arc::new(Exports {
            context_create: export!("proxy_on_context_create"),
            vm_start: export!("proxy_on_vm_start"),
            configure: export!("proxy_on_configure"),
            tick: export!("proxy_on_tick"),
            queue_ready: export!("proxy_on_queue_ready"),
            request_headers: export!("proxy_on_request_headers"),
            request_body: export!("proxy_on_request_body"),
            request_trailers: export!("proxy_on_request_trailers"),
            response_headers: export!("proxy_on_response_headers"),
            response_body: export!("proxy_on_response_body"),
            response_trailers: export!("proxy_on_response_trailers"),
            http_call_response: export!("proxy_on_http_call_response"),
            log: export!("proxy_on_log"),
            done: export!("proxy_on_done"),
            delete: export!("proxy_on_delete"),
        });
        store.data_mut().allocate = Some(allocate);
        let mut vm = Self {
            store,
            exports,
            failed: false,
            allow_stop,
            buffer_limit,
            metered: compiled.metered,
            depth: 0,
        };
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut vm.store, "_initialize") {
            vm.call(0, &initialize, ());
        }
        vm
    }

    /// Host side of the machine.
    pub fn state(&mut self) -> &mut VmState {
        self.store.data_mut()
    }

    /// Bytes of linear memory.
    pub fn memory_bytes(&self) -> usize {
        self.store.data().memory.map_or(0, |memory| memory.data_size(&self.store))
    }

    /// Instructions run so far; 0 when they are not counted.
    pub fn instructions(&self) -> u64 {
        if self.metered { FUEL - self.store.get_fuel().unwrap_or(FUEL) } else { 0 }
    }

    /// Runs one export on a context; `None` once the machine is dead.
    pub(crate) fn call<P, R>(&mut self, context: u32, export: &TypedFunc<P, R>, params: P) -> Option<R>
    where
        P: WasmParams,
        R: WasmResults,
    {
        if self.failed {
            return None;
        }
        let state = self.store.data_mut();
        state.current = context;
        state.effective = context;
        match export.call(&mut self.store, params) {
            Ok(result) => Some(result),
            Err(error) => {
                self.failed = true;
                let state = self.store.data_mut();
                state.deferred.clear();
                state.world.borrow_mut().traps.push(format!("{error:?}"));
                None
            }
        }
    }

    /// Runs what callbacks asked for: one queue for the machine, drained by whichever callback ends, also nested ones.
    pub(crate) fn run_deferred(&mut self) {
        self.store.data_mut().stop_iteration = false;
        self.depth += 1;
        while let Some(action) = self.store.data_mut().deferred.pop_front() {
            let depth = self.depth;
            {
                let mut world = self.store.data().world.borrow_mut();
                world.max_nesting = world.max_nesting.max(depth);
            }
            match action {
                Deferred::Resume { stream, response } => self.resume(stream, response),
                Deferred::Reply { stream, reply } => self.filter_reply(stream, reply),
                Deferred::Reset { stream } => self.reset(stream),
            }
        }
        self.depth -= 1;
    }

    /// Creates a root context and configures it; `None` when the module refuses.
    pub fn add_root(&mut self, configuration: &[u8]) -> Option<u32> {
        let id = self.state().allocate_context();
        self.state().roots.insert(id, Root { configuration: configuration.to_vec(), ..Root::default() });
        let exports = self.exports.clone();
        let created = self.call(id, &exports.context_create, (id, 0));
        let started = created.and_then(|()| self.call(id, &exports.vm_start, (id, 0)));
        self.run_deferred();
        let configured = match started {
            Some(ok) if ok & 1 == 1 => self.call(id, &exports.configure, (id, configuration.len() as u32)),
            _ => None,
        };
        self.run_deferred();
        configured.filter(|ok| ok & 1 == 1).map(|_| id)
    }

    /// Lets a root context go: at once when it has no streams, else with its last one.
    pub fn retire_root(&mut self, id: u32) {
        if let Some(root) = self.state().roots.get_mut(&id) {
            root.retired = true;
        }
        self.drop_idle_root(id);
    }

    pub(crate) fn drop_idle_root(&mut self, id: u32) {
        if !self.state().roots.get(&id).is_some_and(|root| root.retired && root.streams == 0) {
            return;
        }
        let exports = self.exports.clone();
        self.call(id, &exports.done, id);
        self.run_deferred();
        self.call(id, &exports.delete, id);
        self.run_deferred();
        self.state().callouts.retain(|callout| callout.root != id);
        self.state().roots.remove(&id);
        self.state().deleted.insert(id);
    }

    /// Earliest moment at which a tick or a callout's deadline is due.
    pub fn next_event(&self) -> Option<u64> {
        if self.failed {
            return None;
        }
        let state = self.store.data();
        let ticks = state.roots.values().filter_map(|root| root.next_tick);
        ticks.chain(state.callouts.iter().filter_map(|callout| callout.deadline)).min()
    }

    /// Runs every tick and every expired callout due at `now`; a tick is armed again after its handler.
    pub fn run_due(&mut self, now: u64) {
        let due: Vec<u32> = {
            let roots = self.state().roots.iter();
            roots.filter(|(_, root)| root.next_tick.is_some_and(|at| at <= now)).map(|(id, _)| *id).collect()
        };
        for id in due {
            if let Some(root) = self.state().roots.get_mut(&id) {
                root.next_tick = None;
            }
            let tick = self.exports.clone();
            self.call(id, &tick.tick, id);
            self.run_deferred();
            if let Some(root) = self.state().roots.get_mut(&id)
                && root.next_tick.is_none()
                && root.tick_millis > 0
            {
                root.next_tick = Some(now + u64::from(root.tick_millis) * NANOS_PER_MILLI);
            }
        }
        let expired: Vec<u32> = {
            let callouts = self.state().callouts.iter();
            callouts.filter(|c| c.deadline.is_some_and(|at| at <= now)).map(|c| c.id).collect()
        };
        for id in expired {
            self.answer_callout(id, None);
        }
    }

    /// Answers a callout; `None` is a failure (no headers at all).
    pub fn answer_callout(&mut self, id: u32, answer: Option<(Headers, Vec<u8>)>) {
        let Some(at) = self.state().callouts.iter().position(|callout| callout.id == id) else { return };
        let callout = self.state().callouts.remove(at);
        let (headers, body) = answer.unwrap_or_default();
        let sizes = (headers.len() as u32, body.len() as u32);
        self.state().answer = Some(CalloutAnswer { headers, body });
        let exports = self.exports.clone();
        self.call(callout.root, &exports.http_call_response, (callout.root, id, sizes.0, sizes.1, 0));
        self.state().answer = None;
        self.run_deferred();
    }

    /// Notifies a root context about a queue.
    pub fn queue_ready(&mut self, root: u32, queue: u32) {
        if self.state().roots.contains_key(&root) {
            let exports = self.exports.clone();
            self.call(root, &exports.queue_ready, (root, queue));
            self.run_deferred();
        }
    }
}
