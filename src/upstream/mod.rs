//! What the provider's answers teach: limit headers, pauses, adapted limits.
//!
//! [`headers`] turns the answer's headers, and [`error`] an error body, into [`Throttle`] and limit hints; [`state`]
//! keeps what a pool learned from them. Only answers of the pool's own upstream may be shown to this module:
//! the gate's own replies, and those of other filters, say nothing about the provider.

use crate::units::Span;

pub mod error;
pub mod headers;
pub mod moment;
pub mod state;

pub use error::ErrorEvent;
pub use headers::{LimitHints, ProviderHeaders};
pub use state::UpstreamState;

/// Longest reset that is believed of a limit per minute: what is left then is whole again. A later one is that of a longer limit.
pub const LONGEST_RESET: Span = Span::from_secs(60);

/// Why the provider refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThrottleKind {
    /// The caller's own rate limit was hit (429).
    RateLimited,
    /// The provider has too little capacity for everybody (503, 529); says nothing about the caller's limit.
    Overloaded,
    /// Paid-for quota is used up: no waiting cures it, somebody must act. Usually a 429 as well.
    QuotaExhausted,
}

/// A refusal by the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// How long the provider asks to wait; `None` when it did not say anything usable.
    pub retry_after: Option<Span>,
    /// Why it refused.
    pub kind: ThrottleKind,
}
