//! What goes between Envoys and their store, and the ticks that send it.

use super::*;

impl World<'_> {
    /// Lets a worker that has something to post tick soon.
    pub(super) fn hurry(&mut self, place: usize) {
        let soon = self.now.after(FAST_TICK);
        if let Some(worker) = &mut self.workers[place]
            && worker.tick > soon
            && worker.owes()
        {
            worker.tick = soon;
            self.push(soon, Event::Tick(place));
        }
    }

    pub(super) fn tick(&mut self, place: usize) {
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

    pub(super) fn send(&mut self, worker: usize, command: String, kind: Kind) {
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

    pub(super) fn ask(&mut self, place: usize, call: usize, question: Question, loaded: bool) {
        let command = self.workers[place].as_ref().and_then(|worker| worker.written(loaded, &question));
        if let Some(command) = command {
            self.send(place, command, Kind::Decision { call, question, loaded });
        }
    }

    pub(super) fn arrive(&mut self, id: usize) {
        let request = &mut self.requests[id];
        let command = core::mem::take(&mut request.command);
        let replica = request.worker / self.fleet.load.workers;
        if let Some((at, answer)) = self.network.arrive(replica, &command, self.now) {
            self.push(at, Event::Answer(id, Some(answer)));
        }
        self.seen.markers = self.seen.markers.max(self.network.store.markers("bp:{m}"));
    }

    pub(super) fn answer(&mut self, id: usize, answer: Option<&str>) {
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
            Kind::Decision { call, question, loaded } => {
                if reply == Some(Reply::NoScript) && !loaded {
                    return self.ask(place, call, question, true);
                }
                let Some(mut session) = self.calls[call].session.take() else { return };
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
}
