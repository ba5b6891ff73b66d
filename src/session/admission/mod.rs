//! From the body to a verdict: price it, ask the gate, and park, deny or forward.

use std::rc::Rc;

use super::fleet::Question;
use super::gatekeeper::anomaly_of;
use super::{Claim, Env, Head, Phase, Priced, Session};
use crate::config::{Mode, Pool};
use crate::cost::dialect::{Dialect, Endpoint, Operation};
use crate::cost::price;
use crate::cost::request::{self, BodySeen, RequestFacts};
use crate::cost::reserve;
use crate::cost::usage::Usage;
use crate::gate::{Ask, Booking, Decision, Standings};
use crate::hash;
use crate::observe::{Anomaly, Decided};
use crate::pool;
use crate::reply::Answer;
use crate::units::{Cost, Span, Timestamp};

mod consult;
mod refusal;
pub mod shadow;

/// Body bytes that tell two calls of one flow apart; more would cost time and tell nothing new.
const FINGERPRINT_BYTES: usize = 16 * 1_024;
/// Bytes of a long body, or of one whose length is unknown, that are waited for before it is decided: what is known
/// of the call then does not depend on how the network cut it. Well below the host's buffer (1 MiB, in some gateways
/// 32 KiB), which stops reading when it is full.
pub const BEGINNING_BYTES: usize = FINGERPRINT_BYTES;

/// Keeps fingerprints apart from other uses of the hash.
const BODY_SEED: u64 = 0x6270_2e62_6f64_7900;

/// What is to be done with a call.
#[derive(Debug)]
pub enum Verdict {
    /// Let it go on.
    Forward(Forward),
    /// Hold it until `due`, then ask again.
    Park {
        /// When to try it.
        due: Timestamp,
    },
    /// Answer it from here.
    Answer(Answer),
    /// Hold it and ask the fleet's store; then [`Session::heard`].
    Consult(Question),
}

/// How a call goes on.
#[derive(Debug, Default)]
pub struct Forward {
    /// Ask the upstream for an uncompressed answer.
    pub force_identity: bool,
    /// Send this body in place of the caller's.
    pub body: Option<Vec<u8>>,
}

/// How much of the body a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All of it.
    Whole,
    /// All of it, in pieces: what came first can no longer be changed.
    Pieces,
    /// Its beginning; more will pass later.
    Beginning,
}

impl Seen {
    const fn is_all(self) -> bool {
        matches!(self, Self::Whole | Self::Pieces)
    }
}

impl Session {
    /// Decides an undecided call from its body, of which `arrived` bytes came so far; `body` may hold fewer.
    pub fn decide(&mut self, body: &[u8], arrived: usize, seen: Seen, env: &mut Env<'_>) -> Verdict {
        let plan = Rc::clone(&self.plan);
        let Some(head) = self.head.as_ref() else {
            self.phase = Phase::Passed;
            return Verdict::Forward(Forward::default());
        };
        let arrived = arrived.max(body.len());
        let body_seen = match seen {
            Seen::Whole | Seen::Pieces if body.len() == arrived => BodySeen::Complete,
            Seen::Whole | Seen::Pieces => BodySeen::Prefix { declared_len: u64::try_from(arrived).ok() },
            Seen::Beginning => BodySeen::Prefix { declared_len: head.content_length },
        };
        let by_path = head.endpoint.clone().unwrap_or_else(|| unknown_endpoint(Dialect::OpenAi));
        let mut facts = request::read_request(&by_path, body, body_seen);
        if by_path.operation.counts_by_request() {
            facts.input_llm_tokens = 0;
        }
        let model = facts.model.clone().or_else(|| by_path.path_model.clone());
        let Some((index, pool)) = pool::pick(&plan.config, &head.candidates, model.as_deref()) else {
            env.recorder.unmatched();
            self.phase = Phase::Passed;
            return Verdict::Forward(Forward::default());
        };
        self.body_seen = u64::try_from(arrived).unwrap_or(u64::MAX);
        self.body_assumed = match seen {
            Seen::Whole | Seen::Pieces => self.body_seen,
            Seen::Beginning => head.content_length.unwrap_or(self.body_seen).max(self.body_seen),
        };
        if !facts.readable {
            env.recorder.anomaly(if seen.is_all() {
                Anomaly::BodyUnreadable
            } else {
                Anomaly::BodyTruncated
            });
        }
        let endpoint = Endpoint { dialect: pool.provider.unwrap_or(by_path.dialect), ..by_path };
        let model_hash = model.as_deref().map_or(0, reserve::key);
        facts.model = model;
        let estimated_input = facts.input_llm_tokens;
        facts.input_llm_tokens = env.suggestions.corrected_input(index, model_hash, facts.input_llm_tokens);
        let output = output_reserve(pool, index, model_hash, head, &facts, env);
        let flow = pool.flow(&head.identity);
        let fingerprint = match seen {
            Seen::Whole | Seen::Pieces => fingerprint(head, body, self.body_seen),
            // By what a second try is sure to show too.
            Seen::Beginning => {
                let beginning = body.get(..BEGINNING_BYTES).unwrap_or(body);
                fingerprint(head, beginning, head.content_length.unwrap_or(0))
            }
        };
        let (cost, too_large) = match price::reserve(pool, &facts, output) {
            Ok(cost) => (cost, None),
            Err(exceeds) => (Cost::default(), Some(exceeds)),
        };
        self.reserved = cost.llm_tokens;
        let max_park = if seen.is_all() { pool.max_wait(flow.class) } else { Span::ZERO };
        let ask =
            Ask { flow, cost, fingerprint, max_told: plan.config.max_retry_after, max_park, parked: false };
        let inject = pool.inject_stream_usage
            && endpoint.takes_stream_options()
            && seen == Seen::Whole
            && body_seen == BodySeen::Complete
            && !head.is_sealed
            && !self.headers_left;
        self.replacement = if inject { request::inject_stream_usage(body) } else { None };
        self.labels.pool = index;
        self.priced = Some(Priced {
            pool: index,
            endpoint,
            facts,
            ask,
            model_hash,
            estimated_input,
            output_reserve: output,
        });
        if let Some(exceeds) = too_large {
            return self.too_large(&exceeds, env);
        }
        self.ask_gate(seen.is_all(), env)
    }

    /// True when the call's body goes on in another form, once it may.
    pub const fn replaces_body(&self) -> bool {
        self.replacement.is_some()
    }

    /// Asks again for a parked call.
    pub fn decide_parked(&mut self, env: &mut Env<'_>) -> Verdict {
        self.ask_gate(true, env)
    }

    fn ask_gate(&mut self, may_park: bool, env: &mut Env<'_>) -> Verdict {
        if let Some(cause) = self.blind {
            return self.pass_undecided(cause, env);
        }
        if let Some(passed) = self.draw(env) {
            return passed;
        }
        if let (true, Some(asked)) = (may_park, self.consult(env)) {
            return asked;
        }
        self.ask_here(may_park, env)
    }
    fn pass(&mut self, env: &mut Env<'_>) -> Verdict {
        let decided = if self.parked_since().is_some() { Decided::Parked } else { Decided::Admitted };
        self.forward(decided, env)
    }

    /// Decides by this Envoy's own ledger.
    fn ask_here(&mut self, may_park: bool, env: &mut Env<'_>) -> Verdict {
        let Some((pool, ask)) = self.priced.as_ref().map(|priced| (priced.pool, priced.ask)) else {
            return Verdict::Forward(Forward::default());
        };
        let ask = self.as_asked(ask, env.now);
        let shadow = self.plan.config.mode == Mode::Shadow;
        let decided = if env.gate.fleet.is_some() {
            let once_more = core::mem::take(&mut self.once_more) && !shadow;
            let marker = self.marker.clone();
            let decided =
                env.gate.admit_alone(env.store, pool, &ask, marker, once_more, shadow, env.now, env.recorder);
            if once_more
                && matches!(decided, Ok((Decision::Wait(..), ..)))
                && let Some(asked) = self.question(true, env)
            {
                return Verdict::Consult(asked);
            }
            self.marker = None;
            if !core::mem::replace(&mut self.was_alone, true) {
                env.recorder.anomaly(Anomaly::FleetAlone);
            }
            decided
        } else {
            env.gate.admit(env.store, pool, &ask, shadow, env.now).map(|(decision, standings)| {
                let claim = match decision {
                    Decision::Admit(reservation) => Claim::Held(reservation),
                    Decision::Wait(..) => Claim::None,
                };
                (decision, standings, claim)
            })
        };
        match decided {
            Ok((Decision::Admit(_), standings, claim)) => {
                (self.claim, self.standings) = (claim, standings);
                self.pass(env)
            }
            Ok((Decision::Wait(booking, reason), standings, _)) => {
                self.standings = standings;
                self.refuse(booking, reason, may_park, env)
            }
            Err(error) => self.pass_undecided(anomaly_of(&error), env),
        }
    }

    /// Makes the decision to come a failed-open one, for example because the host gave no time.
    pub const fn fail_open(&mut self, cause: Anomaly) {
        self.blind = Some(cause);
    }

    /// Lets a call pass undecided; its cost is charged as soon as that works.
    fn pass_undecided(&mut self, cause: Anomaly, env: &mut Env<'_>) -> Verdict {
        env.recorder.anomaly(cause);
        if let Some((pool, ask)) = self.priced.as_ref().map(|priced| (priced.pool, priced.ask)) {
            self.claim = env.gate.owe_charge(pool, &ask, env.now, env.recorder);
        }
        self.reason = Some(cause.name());
        self.forward(Decided::FailedOpen, env)
    }

    const fn parked_since(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Parked { since, .. } => Some(since),
            Phase::Asking { since } => since,
            _ => None,
        }
    }

    /// Forgets the booking of a parked call whose turn passed by an early try; used when it leaves.
    pub(crate) const fn take_booking(&mut self) -> Option<Booking> {
        self.booking.take()
    }

    fn forward(&mut self, decided: Decided, env: &mut Env<'_>) -> Verdict {
        if let Some(since) = self.parked_since() {
            self.wait = env.now.since(since);
            env.recorder.waited(self.labels(), self.wait.as_millis_ceil());
        }
        self.booking = None;
        self.decide_as(decided, env);
        self.phase = Phase::Forwarded;
        Verdict::Forward(Forward {
            force_identity: self.plan.config.force_identity_encoding && !self.headers_left,
            body: self.replacement.take(),
        })
    }

    fn decide_as(&mut self, decided: Decided, env: &mut Env<'_>) {
        self.decided = Some(decided);
        env.recorder.decided(self.labels(), decided);
    }
    fn pool_config(&self) -> Option<&Pool> {
        self.priced.as_ref().and_then(|priced| self.plan.config.pools.get(priced.pool))
    }

    /// Counts body bytes that pass after an early decision.
    pub fn body_passed(&mut self, bytes: u64) {
        self.body_seen = self.body_seen.saturating_add(bytes);
    }

    /// Charges what came beyond the length the price rests on; call it at the end of the request body.
    pub fn charge_excess(&mut self, env: &mut Env<'_>) {
        if self.phase != Phase::Forwarded || self.body_seen <= self.body_assumed {
            return;
        }
        let Some(priced) = &self.priced else { return };
        let Some(pool) = self.plan.config.pools.get(priced.pool) else { return };
        let excess = self.body_seen.saturating_sub(self.body_assumed);
        let llm_tokens = scaled(priced.facts.input_llm_tokens, excess, self.body_assumed.max(1));
        self.body_assumed = self.body_seen;
        let usage = Usage { input: Some(llm_tokens), ..Usage::default() };
        let whole = price::within(pool, price::actual(pool, &usage), 1);
        // The call itself was counted when it was admitted.
        let cost = Cost { requests: 0, concurrency: 0, ..whole };
        let ask = Ask { cost, ..priced.ask };
        let index = priced.pool;
        self.extra = env.gate.charge(env.store, index, &ask, env.now, env.recorder);
        self.reserved = self.reserved.saturating_add(cost.llm_tokens);
        if let Some(priced) = &mut self.priced {
            priced.facts.input_llm_tokens = priced.facts.input_llm_tokens.saturating_add(llm_tokens);
        }
    }

    /// What the caller may be told of the limits.
    pub const fn standings(&self) -> &Standings {
        &self.standings
    }
}

/// `amount * part / whole`, rounded up, without overflow.
pub(super) fn scaled(amount: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(amount).saturating_mul(u128::from(part));
    u64::try_from(product.div_ceil(u128::from(whole.max(1)))).unwrap_or(u64::MAX)
}

/// Output to reserve: the declared cap, or what recent outputs suggest when that is less.
fn output_reserve(
    pool: &Pool,
    index: usize,
    model_hash: u64,
    head: &Head,
    facts: &RequestFacts,
    env: &mut Env<'_>,
) -> u64 {
    if !facts.generates_output || !facts.readable {
        return 0;
    }
    let default = pool.default_output_llm_tokens.saturating_mul(facts.answers);
    let suggested = env.suggestions.output(index, model_hash, head.identity.tenant.0);
    reserve::output_reserve(pool.output_reserve, facts.declared_output, suggested, default)
}

/// The same body of the same flow coming back is the same call.
fn fingerprint(head: &Head, body: &[u8], assumed: u64) -> u64 {
    let beginning = body.get(..FINGERPRINT_BYTES.min(body.len())).unwrap_or(body);
    let end = body.get(body.len().saturating_sub(FINGERPRINT_BYTES)..).unwrap_or_default();
    let parts = [
        u64::from(head.identity.class.0),
        u64::from(head.identity.tenant.0),
        assumed,
        hash::hash64(BODY_SEED, &head.path),
        hash::hash64(BODY_SEED, beginning),
        if body.len() > FINGERPRINT_BYTES { hash::hash64(BODY_SEED, end) } else { 0 },
    ];
    parts.into_iter().fold(BODY_SEED, hash::combine)
}

/// What is taken of a path that no dialect knows.
const fn unknown_endpoint(dialect: Dialect) -> Endpoint {
    Endpoint { dialect, shape: dialect, operation: Operation::Chat, path_model: None, path_streams: None }
}
