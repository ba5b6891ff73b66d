//! What the end of a call teaches about the provider.

use crate::config::Learn;
use crate::gate::Ledger;
use crate::units::{Span, Timestamp};
use crate::upstream::{Throttle, UpstreamState};

/// What the end of a call teaches about the provider.
#[derive(Clone, Copy, Debug)]
pub enum Lesson {
    /// Nothing.
    None,
    /// It answered, and the answer began so long ago.
    Success(Learn, Span),
    /// It refused for load; no pause may be longer than the span.
    Refusal(Throttle, Learn, Span),
}

impl Lesson {
    /// Teaches what is known of a provider, at ledger time `at`. True when there is something new.
    pub(crate) fn teach(&self, upstream: &mut UpstreamState, at: Timestamp) -> bool {
        let before = *upstream;
        match self {
            Self::None => {}
            Self::Success(learn, age) => {
                upstream.on_success(learn, at.before(*age), at);
            }
            Self::Refusal(throttle, learn, ceiling) => {
                upstream.on_throttle(throttle, learn, *ceiling, at);
            }
        }
        *upstream != before
    }
}

pub(super) fn teach(lesson: &Lesson, ledger: &mut Ledger, now: Timestamp) {
    let at = ledger.time(now);
    lesson.teach(&mut ledger.upstream, at);
}
