//! Units shared by all modules: moments, spans, resources and amounts.
//!
//! The bare word "token" names five different things in this field, so it never stands alone in a name here:
//! what a model reads and writes is `LlmTokens`.

/// A moment in microseconds since the Unix epoch, from the host's wall clock.
///
/// The host clock may step back; every difference therefore saturates at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// A moment `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A moment `millis` milliseconds after the Unix epoch (saturating).
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `self` moved forward by `span` (saturating).
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// `self` moved back by `span` (saturating at the epoch).
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any time that occurs.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds (saturating).
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of `seconds` seconds (saturating).
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Length in microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Length in whole milliseconds, rounded up: a wait told to a caller is never too short.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Length in whole seconds, rounded up.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Sum of two spans (saturating).
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference of two spans, zero when `other` is longer.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// One dimension of a provider's cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Calls per minute.
    Requests,
    /// Weighted input plus output per minute.
    LlmTokens,
    /// Weighted input per minute.
    InputLlmTokens,
    /// Output per minute.
    OutputLlmTokens,
    /// Calls in flight at once; nothing refills it, a slot comes back when a call ends.
    Concurrency,
}

impl Resource {
    /// Every resource, in the order of the ledger's layout.
    pub const ALL: [Self; 5] =
        [Self::Requests, Self::LlmTokens, Self::InputLlmTokens, Self::OutputLlmTokens, Self::Concurrency];

    /// The resources that are limited per minute.
    pub const PER_MINUTE: [Self; 4] =
        [Self::Requests, Self::LlmTokens, Self::InputLlmTokens, Self::OutputLlmTokens];

    /// Name in metrics, on the status page and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::LlmTokens => "tokens",
            Self::InputLlmTokens => "input_tokens",
            Self::OutputLlmTokens => "output_tokens",
            Self::Concurrency => "concurrency",
        }
    }
}

/// One value for each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerResource<T> {
    /// For [`Resource::Requests`].
    pub requests: T,
    /// For [`Resource::LlmTokens`].
    pub llm_tokens: T,
    /// For [`Resource::InputLlmTokens`].
    pub input: T,
    /// For [`Resource::OutputLlmTokens`].
    pub output: T,
    /// For [`Resource::Concurrency`].
    pub concurrency: T,
}

impl<T> PerResource<T> {
    /// The value of one resource.
    pub const fn get(&self, resource: Resource) -> &T {
        match resource {
            Resource::Requests => &self.requests,
            Resource::LlmTokens => &self.llm_tokens,
            Resource::InputLlmTokens => &self.input,
            Resource::OutputLlmTokens => &self.output,
            Resource::Concurrency => &self.concurrency,
        }
    }

    /// The value of one resource, to change it.
    pub const fn get_mut(&mut self, resource: Resource) -> &mut T {
        match resource {
            Resource::Requests => &mut self.requests,
            Resource::LlmTokens => &mut self.llm_tokens,
            Resource::InputLlmTokens => &mut self.input,
            Resource::OutputLlmTokens => &mut self.output,
            Resource::Concurrency => &mut self.concurrency,
        }
    }

    /// Builds a value for each resource.
    pub fn from_fn(mut value: impl FnMut(Resource) -> T) -> Self {
        Self {
            requests: value(Resource::Requests),
            llm_tokens: value(Resource::LlmTokens),
            input: value(Resource::InputLlmTokens),
            output: value(Resource::OutputLlmTokens),
            concurrency: value(Resource::Concurrency),
        }
    }
}

/// What a call takes from each resource: whole requests, weighted LLM tokens, slots.
pub type Cost = PerResource<u64>;

/// A pool's caps: per minute, or slots for [`Resource::Concurrency`]. `None` = not limited. Never zero.
pub type Limits = PerResource<Option<u64>>;
