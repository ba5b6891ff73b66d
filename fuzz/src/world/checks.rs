//! What must hold after each step, and at the end.

use envoy_backpressure::gate::Ledger;
use envoy_backpressure::units::{Resource, Span, Timestamp};

use super::super::bytes::Choices;
use super::calls::field;
use super::{KEY, LLM_TOKENS, REQUESTS, SLOTS, TTL, World};

impl World {
    pub(super) fn check(&mut self) {
        if let Some(stored) = self.store.value(KEY) {
            assert!(stored.len() <= 65_536, "{} bytes", stored.len());
            assert!(self.disturbed || Ledger::decode(stored).is_ok(), "the ledger cannot be read");
        }
        // Looking must not be disturbed by a failing store.
        let standings = self.step(0, |env| env.gate.standings(env.store, 0, env.now));
        for resource in Resource::ALL {
            if let Some(standing) = standings.get(resource) {
                assert!(standing.remaining <= standing.limit, "{resource:?}: {standing:?}");
            }
        }
        let now = self.millis;
        while self.past.front().is_some_and(|past| past.at + 120_000 < now) {
            self.past.pop_front();
        }
        if self.disturbed || !self.strict {
            return;
        }
        let recent = |at: u64| now.saturating_sub(at) < 60_000;
        let open = || self.calls.iter().filter_map(|call| call.admitted).filter(|(at, _)| recent(*at));
        let past = || self.past.iter().filter(|past| recent(past.at));
        // Those that are open and were answered already may be given back by now, and are not: an upper bound.
        let requests = open().count() + past().map(|past| past.requests).sum::<usize>();
        assert!(requests <= REQUESTS, "{requests} requests in a minute of {REQUESTS}");
        let llm_tokens = open().map(|(_, reserved)| reserved.min(LLM_TOKENS)).sum::<u64>()
            + past().map(|past| past.llm_tokens).sum::<u64>();
        assert!(
            self.extra() || llm_tokens <= LLM_TOKENS,
            "{llm_tokens} LLM tokens in a minute of {LLM_TOKENS}"
        );
        let slots =
            self.calls.iter().filter(|call| call.admitted.is_some_and(|(at, _)| now < at + TTL)).count();
        assert!(slots <= SLOTS, "{slots} calls at once of {SLOTS}");
    }

    /// True when the reserve of a call was raised by bytes that came late; those are charged whatever is left.
    fn extra(&self) -> bool {
        self.calls.iter().any(|call| {
            call.admitted.is_some_and(|(_, reserved)| {
                field(&call.session).is_some_and(|field| field["reserved"].as_u64() > Some(reserved))
            })
        })
    }

    /// Ends every call, and sees that nothing is left of them.
    pub(super) fn finish(mut self) {
        self.store.clear_hook();
        while !self.calls.is_empty() {
            self.end(self.calls.len() - 1);
        }
        for _ in 0..64 {
            self.millis += 100;
            self.tick();
        }
        for worker in 0..self.workers.len() {
            assert_eq!(self.workers[worker].gate.owed(), 0, "writes wait for ever");
        }
        // What a dead worker held comes back by itself. A ledger takes note of a clock that was set back when it is next
        // written, so somebody calls now and then.
        for _ in 0..2 {
            self.millis += TTL + 10_000;
            self.open(&mut Choices(&[]));
            self.end(0);
        }
        self.millis += TTL + 10_000;
        let now = Timestamp::from_millis(self.millis);
        let glance = self.step(0, |env| env.gate.summary(env.store, 0, 0, now));
        if let Some((summary, _)) = glance {
            assert_eq!(summary.in_flight, 0, "calls are in flight for ever");
            assert_eq!(summary.booked, 0, "bookings stay for ever");
            assert!(summary.paused.is_none_or(|pause| pause <= Span::from_secs(60)), "{:?}", summary.paused);
        }
        assert!(self.store.keys().count() <= 2, "keys grow");
    }
}
