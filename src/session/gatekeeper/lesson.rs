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

/// A refusal that named no time counts as one of now for so long.
const PRESENT: Span = Span::from_secs(1);

impl Lesson {
    /// The same lesson so much later: what a refusal asked for may be over by then.
    pub(crate) fn aged(self, age: Span) -> Self {
        match self {
            Self::None => Self::None,
            Self::Success(learn, since) => Self::Success(learn, since.plus(age)),
            Self::Refusal(throttle, learn, ceiling) => {
                match throttle.retry_after.map(|asked| asked.minus(age)) {
                    None if age < PRESENT => self,
                    Some(rest) if rest > Span::ZERO => {
                        Self::Refusal(Throttle { retry_after: Some(rest), ..throttle }, learn, ceiling)
                    }
                    _ => Self::None,
                }
            }
        }
    }

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
