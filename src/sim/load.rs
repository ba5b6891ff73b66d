//! The description of a run: limits, callers, and what changes on the way.

use crate::config::ClassId;
use crate::gate::{Flow, Policy, TenantKey};
use crate::sim::client::Client;
use crate::sim::provider::Measure;
use crate::sim::rng::Rng;
use crate::units::{Cost, Limits, Span};

/// Seconds, for readable loads.
pub fn secs(value: f64) -> Span {
    Span::from_micros((value * 1e6) as u64)
}

/// How the LLM tokens of a call are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Always the same.
    Fixed(u64),
    /// `exp` of a normal variable, at least 50.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Deviation of the logarithm.
        sigma: f64,
    },
    /// Uniform from the first to the second.
    Uniform(u64, u64),
}

impl Size {
    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(amount) => amount,
            Self::LogNormal { mu, sigma } => (rng.log_normal(mu, sigma) as u64).max(50),
            Self::Uniform(low, high) => rng.uniform(low as f64, high as f64) as u64,
        }
    }
}

/// When calls begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// This many callers, each with one call at a time and a pause between its calls.
    Closed {
        /// Number of callers.
        callers: usize,
        /// Shortest and longest pause after a call is over.
        think: (Span, Span),
    },
    /// A Poisson stream of calls, whatever happens to the earlier ones.
    Open {
        /// Mean calls per second.
        per_second: f64,
    },
}

/// Callers of one flow that behave alike.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Priority class.
    pub class: u8,
    /// Weight of the class.
    pub class_weight: u32,
    /// Tenant.
    pub tenant: u32,
    /// Weight of the tenant in its class.
    pub tenant_weight: u32,
    /// When its calls begin.
    pub arrival: Arrival,
    /// What they cost.
    pub size: Size,
    /// Part of the LLM tokens that is input; the rest is output.
    pub input_part: f64,
    /// How long an admitted call lasts.
    pub duration: (Span, Span),
    /// When the group appears.
    pub start: Span,
    /// When it starts no more calls.
    pub stop: Span,
    /// What its callers do when refused.
    pub client: Client,
    /// Probability that a refused call never comes back.
    pub never_return: f64,
    /// All calls of the group have the same body (and the same cost).
    pub same_body: bool,
    /// Longest time a call is parked.
    pub max_wait: Span,
}

impl Group {
    /// `callers` obedient callers of one class with log-normal calls (mean about 800 LLM tokens) of 0.3 to 1 s.
    pub fn closed(class: u8, class_weight: u32, callers: usize) -> Self {
        Self {
            class,
            class_weight,
            tenant: u32::from(class),
            tenant_weight: 1,
            arrival: Arrival::Closed { callers, think: (Span::ZERO, secs(0.05)) },
            size: Size::LogNormal { mu: 6.5, sigma: 0.6 },
            input_part: 0.6,
            duration: (secs(0.3), secs(1.0)),
            start: Span::ZERO,
            stop: Span::MAX,
            client: Client::Obeys,
            never_return: 0.0,
            same_body: false,
            max_wait: Span::ZERO,
        }
    }

    /// The flow its calls belong to.
    pub fn flow(&self) -> Flow {
        Flow {
            class: ClassId(self.class),
            tenant: TenantKey(self.tenant),
            class_weight: self.class_weight,
            tenant_weight: self.tenant_weight,
        }
    }

    /// Draws the true cost of one call.
    pub fn draw(&self, rng: &mut Rng, limits: &Limits) -> Cost {
        let most = limits.llm_tokens.unwrap_or(u64::MAX);
        let llm_tokens = self.size.draw(rng).clamp(1, most);
        let input = ((llm_tokens as f64 * self.input_part) as u64).clamp(1, limits.input.unwrap_or(u64::MAX));
        let output = llm_tokens.saturating_sub(input).min(limits.output.unwrap_or(u64::MAX));
        Cost { requests: 1, llm_tokens, input, output, concurrency: 1 }
    }
}

/// Something that happens in mid-run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The weight of a class is changed by a reload.
    ClassWeight(u8, u32),
    /// The gate's wall clock jumps by this many microseconds; the world's time goes on.
    ClockStep(i64),
    /// The limits are changed by a reload, at the gate and at the provider.
    Limits(Limits),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Load {
    /// Name in tables.
    pub name: &'static str,
    /// The caps.
    pub limits: Limits,
    /// See [`Policy::burst`].
    pub burst: Span,
    /// See [`Policy::strict_window`].
    pub strict_window: bool,
    /// How the provider measures; `None`: a window when `strict_window`, else a bucket of the same burst.
    pub provider: Option<Measure>,
    /// Longest wait told to a caller.
    pub max_told: Span,
    /// Parked calls per worker; above it calls are denied.
    pub max_parked: usize,
    /// Who calls.
    pub groups: Vec<Group>,
    /// The reserved LLM tokens are the true ones times this.
    pub estimate_factor: f64,
    /// Workers of the proxy.
    pub workers: usize,
    /// What happens on the way, by virtual time.
    pub script: Vec<(Span, Change)>,
    /// From when the figures are counted.
    pub measure_from: Span,
    /// From when kept bookings are counted: the steady state.
    pub steady_from: Span,
    /// End of the run.
    pub until: Span,
}

impl Load {
    /// 600 requests and 120 000 LLM tokens per minute, burst 10 s, 15 virtual minutes of which the first two are not
    /// counted.
    pub fn new(name: &'static str, groups: Vec<Group>) -> Self {
        Self {
            name,
            limits: Limits { requests: Some(600), llm_tokens: Some(120_000), ..Limits::default() },
            burst: Span::from_secs(10),
            strict_window: false,
            provider: None,
            max_told: Span::from_secs(3600),
            max_parked: 1000,
            groups,
            estimate_factor: 1.0,
            workers: 2,
            script: Vec::new(),
            measure_from: Span::from_secs(120),
            steady_from: Span::from_secs(120),
            until: Span::from_secs(900),
        }
    }

    /// The gate's policy for this run.
    pub fn policy(&self) -> Policy {
        Policy {
            limits: self.limits,
            burst: self.burst,
            strict_window: self.strict_window,
            reservation_ttl: Span::from_secs(600),
        }
    }

    /// How the provider behind the gate measures.
    pub fn provider_measure(&self) -> Measure {
        self.provider.unwrap_or(if self.strict_window {
            Measure::Window
        } else {
            Measure::Bucket(self.burst)
        })
    }

    /// The same load with a strict trailing window at gate and provider.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict_window = true;
        self
    }

    /// The same load with every group changed by `change`.
    #[must_use]
    pub fn each(mut self, change: impl Fn(&mut Group)) -> Self {
        self.groups.iter_mut().for_each(change);
        self
    }

    /// The same load changed by `change`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
