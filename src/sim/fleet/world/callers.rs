//! What callers do: begin, try, wait, come back.

use super::*;

impl World<'_> {
    pub(super) fn begin(&mut self, index: usize, caller: u64) {
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

    /// The worker that a try reaches. `last`: that of the call's last one.
    pub(super) fn route(&mut self, class: u8, last: Option<usize>) -> Option<usize> {
        let fixed = match self.fleet.routing {
            Routing::Random => None,
            Routing::Next(step) => {
                last.map(|worker| (worker / self.fleet.load.workers + step) % self.fleet.replicas)
            }
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

    pub(super) fn attempt(&mut self, id: usize) {
        let measured = self.measured();
        let group = self.fleet.load.groups[self.calls[id].group];
        let last = (self.calls[id].tries > 0).then(|| self.calls[id].worker);
        let Some(place) = self.route(group.class, last) else { return self.refuse(id, None) };
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

    pub(super) fn wake(&mut self, id: usize) {
        let Some(mut session) = self.calls[id].session.take() else { return };
        let place = self.calls[id].worker;
        let Some(worker) = &mut self.workers[place] else { return };
        let verdict = worker.wake(&mut self.stores[worker.replica], &mut session, self.now);
        self.calls[id].session = Some(session);
        self.carry_out(id, verdict);
    }

    pub(super) fn carry_out(&mut self, id: usize, verdict: Verdict) {
        let place = self.calls[id].worker;
        match verdict {
            Verdict::Consult(question) => self.ask(place, id, question, false),
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

    pub(super) fn pass(&mut self, id: usize) {
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

    pub(super) fn finish_call(&mut self, id: usize, usage: Option<(u64, u64)>) {
        let place = self.calls[id].worker;
        if let (Some(mut session), Some(worker)) =
            (self.calls[id].session.take(), self.workers[place].as_mut())
        {
            worker.answered(&mut self.stores[worker.replica], &mut session, usage, self.now);
        }
        self.hurry(place);
    }

    pub(super) fn end(&mut self, id: usize) {
        if self.calls[id].session.is_none() {
            return;
        }
        self.provider.end();
        let (used, output) = (self.calls[id].used, self.calls[id].output);
        self.finish_call(id, Some((used.saturating_sub(output), output)));
        self.next_call(id);
    }

    pub(super) fn refuse(&mut self, id: usize, told: Option<Span>) {
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

    pub(super) fn next_call(&mut self, id: usize) {
        let (index, caller) = (self.calls[id].group, self.calls[id].caller);
        self.calls[id].body = String::new();
        let Arrival::Closed { think, .. } = self.fleet.load.groups[index].arrival else { return };
        let pause = self.rng.span(think);
        self.push(self.now.after(pause), Event::Begin { group: index, caller });
    }
}
