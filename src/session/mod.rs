//! One call as a state machine: what the host reports goes in, what is to be done comes out. No host calls.
//!
//! `head` looks at the request headers, `admission` prices the body and asks the gate, `response` reads what the
//! upstream answers, `ending` settles. `gatekeeper` is the worker's access to the shared ledgers.

use std::rc::Rc;

use crate::cost::dialect::Endpoint;
use crate::cost::request::RequestFacts;
use crate::cost::usage::ResponseMeter;
use crate::gate::{Ask, Booking, SharedStore, Standings, WaitReason};
use crate::identity::Identity;
use crate::observe::{Anomaly, Decided, Labels, LogField, Recorder, TenantLabel};
use crate::units::{Span, Timestamp};

pub mod admission;
pub mod ending;
pub mod fleet;
pub mod gatekeeper;
pub mod head;
pub mod plan;
pub mod response;
pub mod suggestions;

pub use admission::Verdict;
pub use gatekeeper::{Claim, Gatekeeper};
pub use plan::Plan;

/// What a step may use besides the call itself: time, storage and counters are arguments.
pub struct Env<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// Shared data.
    pub store: &'a mut dyn SharedStore,
    /// The worker's gate.
    pub gate: &'a mut Gatekeeper,
    /// The worker's view of learned output sizes.
    pub suggestions: &'a mut suggestions::Suggestions,
    /// Counters.
    pub recorder: &'a mut dyn Recorder,
}

/// Where a call is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not metered; nothing to do any more.
    Passed,
    /// The body is awaited.
    Undecided,
    /// Held inside Envoy until its turn.
    Parked {
        /// When it began to wait.
        since: Timestamp,
        /// When to try it.
        due: Timestamp,
    },
    /// Held inside Envoy until the fleet's store has answered.
    Asking {
        /// When it began to wait for its turn, if it did.
        since: Option<Timestamp>,
    },
    /// On its way to the upstream, or back.
    Forwarded,
    /// Answered by the gate itself; its response callbacks teach nothing.
    Answered,
    /// Settled.
    Settled,
}

/// What is known of a request before its body.
#[derive(Clone, Debug)]
pub struct Head {
    /// `:path`, raw bytes.
    pub path: Vec<u8>,
    /// Pools that host and path leave possible, in order.
    pub candidates: Vec<usize>,
    /// Which API; `None` for a path that only a pool's own `paths` make metered.
    pub endpoint: Option<Endpoint>,
    /// Who calls.
    pub identity: Identity,
    /// Declared body length, bytes.
    pub content_length: Option<u64>,
    /// The body must stay as it is: it is compressed, or under a checksum or a signature.
    pub is_sealed: bool,
}

/// A call that was priced for a pool.
#[derive(Debug)]
pub struct Priced {
    /// Index of the pool.
    pub pool: usize,
    /// The endpoint in the pool's dialect.
    pub endpoint: Endpoint,
    /// What the body said.
    pub facts: RequestFacts,
    /// What is asked of the gate.
    pub ask: Ask,
    /// Hash of the model's name.
    pub model_hash: u64,
    /// Input estimate before its learned correction, LLM tokens.
    pub estimated_input: u64,
    /// Output part of the reserve, LLM tokens.
    pub output_reserve: u64,
}

/// One call.
#[derive(Debug)]
pub struct Session {
    plan: Rc<Plan>,
    phase: Phase,
    head: Option<Head>,
    /// The request headers went on before the decision, and can no longer be changed.
    headers_left: bool,
    labels: Labels,
    priced: Option<Priced>,
    claim: Claim,
    /// Charged for body bytes that came after an early decision.
    extra: Claim,
    booking: Option<Booking>,
    /// The body with usage asked for, while the call waits.
    replacement: Option<Vec<u8>>,
    waits_for: Option<WaitReason>,
    /// Marker of the decision that is asked for.
    marker: Option<String>,
    /// When it was asked for first under that marker.
    asked_at: Timestamp,
    /// It is to be asked for once more before the call is refused; and it was.
    once_more: bool,
    asked_twice: bool,
    /// It was counted as decided alone.
    was_alone: bool,
    /// Why it cannot be decided, when that is known beforehand.
    blind: Option<Anomaly>,
    decided: Option<Decided>,
    reason: Option<&'static str>,
    standings: Standings,
    /// Waited inside Envoy, or told to the caller.
    wait: Span,
    /// Request body bytes that the price rests on, and bytes that came.
    body_assumed: u64,
    body_seen: u64,
    response: response::ResponseState,
    /// Weighted LLM tokens reserved.
    reserved: u64,
    used_llm_tokens: Option<u64>,
}

impl Session {
    fn new(plan: Rc<Plan>, phase: Phase, head: Option<Head>) -> Self {
        let identity = head.as_ref().map(|head| &head.identity);
        let labels = Labels {
            pool: usize::MAX,
            class: identity.map_or(usize::MAX, |identity| usize::from(identity.class.0)),
            tenant: identity.map_or(TenantLabel::Other, TenantLabel::of),
        };
        Self {
            plan,
            phase,
            head,
            headers_left: false,
            labels,
            priced: None,
            claim: Claim::None,
            extra: Claim::None,
            booking: None,
            replacement: None,
            waits_for: None,
            marker: None,
            asked_at: Timestamp::EPOCH,
            once_more: false,
            asked_twice: false,
            was_alone: false,
            blind: None,
            decided: None,
            reason: None,
            standings: Standings::default(),
            wait: Span::ZERO,
            body_assumed: 0,
            body_seen: 0,
            response: response::ResponseState::default(),
            reserved: 0,
            used_llm_tokens: None,
        }
    }

    /// A call that is not metered.
    pub fn passed(plan: Rc<Plan>) -> Self {
        Self::new(plan, Phase::Passed, None)
    }

    /// Where the call is.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Index of the call's pool, once it was priced.
    pub fn pool(&self) -> Option<usize> {
        self.priced.as_ref().map(|priced| priced.pool)
    }

    /// True when the shadow header belongs on the response.
    pub fn shadow_denied(&self) -> bool {
        self.decided == Some(Decided::ShadowDenied)
    }

    const fn labels(&self) -> Labels {
        self.labels
    }

    /// The access-log field; `None` for calls that are not metered.
    pub fn log_field(&self) -> Option<String> {
        let config = &self.plan.config;
        let priced = self.priced.as_ref()?;
        let labels = self.labels();
        let field = LogField {
            decision: self.decided?.name(),
            reason: self.reason,
            pool: config.pools.get(priced.pool).map_or("", |pool| pool.name.as_str()),
            class: config.classes.get(labels.class).map_or("", |class| class.name.as_str()),
            tenant: labels.tenant.name(config),
            reserved: self.reserved,
            used: self.used_llm_tokens,
            wait_ms: self.wait.as_millis_ceil(),
        };
        Some(field.to_json())
    }
}

/// A reader of the response, boxed because most of a call's life does not need it.
pub(crate) type Meter = Option<Box<ResponseMeter>>;
