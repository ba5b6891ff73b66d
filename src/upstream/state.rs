//! What one pool has learned about its provider: a pause, and an adapted limit.
//!
//! The block is part of the pool's ledger, so one compare-and-swap changes both and every worker obeys at once.
//!
//! 1. A refusal opens an *incident*. It lasts as long as the provider asks, or for a back-off that doubles from
//!    incident to incident. Refusals within it are answers to calls that had already left: they may lengthen it (up to
//!    the ceiling, counted from its start), but they neither lower the limit again nor grow the back-off.
//! 2. With `pause_on_429` the pool is blocked during the incident and then re-opens gradually: the effective limit
//!    grows from a tenth to all of it over half the pause, at most 20 s. Letting everybody go at the deadline would
//!    trip the provider at once.
//! 3. One success during a pause halves what is left of it: the provider is evidently serving.
//! 4. With `adapt` an incident of the pool's own rate limit multiplies the effective limit by 0.7, never below a tenth.
//!    It comes back as a function of time alone, in three parts (see [`recovered`]), so that successes need no write:
//!    quickly to just below the level that was refused, held there, then all the way. It is whole again 285 s after the
//!    last incident.
//! 5. Exhausted quota is a state of its own: probed at 30 s, then ever more rarely up to the ceiling; it never lowers the
//!    limit, and one success clears it.
//!
//! 6. With `headers`, a limit whose header says "nothing left, whole again in more than a minute" blocks the pool until
//!    then, because a limit per minute cannot explain it. Amounts that a minute explains are the ledger's business.
//!
//! A clock that stepped back to before an incident makes the pool forget it rather than wait for the clock.

use crate::config::Learn;
use crate::units::{Resource, Span, Timestamp};

use super::{LONGEST_RESET, LimitHints, Throttle, ThrottleKind};

/// The whole limit, in thousandths.
const WHOLE: u32 = 1_000;
/// Least effective limit: low enough to be out of the way of a provider in trouble, high enough to notice its end.
const FLOOR: u32 = 100;
/// Multiplicative decrease per incident, in thousandths.
const DECREASE: u32 = 700;
/// Where the limit is held after an incident, in thousandths of the level that was refused.
const HOLD: u32 = 900;
/// Time from the end of the incident's start until the held level is reached.
const CLIMB: Span = Span::from_secs(40);
/// Time until the held level is left. Long, because each probe above a level that is really full costs refusals.
const HOLD_UNTIL: Span = Span::from_secs(200);
/// Time until the limit is whole again; the contract allows five minutes.
const WHOLE_AT: Span = Span::from_secs(285);

/// First back-off when the provider names no time.
const BACKOFF: Span = Span::from_secs(1);
/// First probe interval when the quota is exhausted.
const QUOTA_PROBE: Span = Span::from_secs(30);
/// Doublings after which the back-off stops growing (the ceiling is usually reached earlier).
const MAX_DOUBLINGS: u8 = 12;
/// Refusals closer together than this are one incident, however short the wait asked for.
const LEAST_INCIDENT: Span = Span::from_secs(1);
/// Successes this soon after an incident's start had been decided before it, and shorten nothing.
const SUCCESS_GRACE: Span = Span::from_secs(1);
/// Quiet time after an incident that forgets the back-off.
const QUIET: Span = Span::from_secs(60);
/// Shortest and longest gradual re-opening.
const REOPEN: (Span, Span) = (Span::from_secs(1), Span::from_secs(20));
/// A moment may lie this far before a recorded one without the clock having been set back (workers race).
const SKEW: Span = Span::from_secs(5);

/// Highest ceiling that a configuration can set.
const LONGEST_PAUSE: Span = Span::from_secs(3_600);
/// A told moment that moved by less than this is the same moment.
const SAME_MOMENT: Span = Span::from_secs(2);

const QUOTA: u8 = 1;
const PAUSED: u8 = 2;
const SHORTENED: u8 = 4;

/// What a pool learned about its provider. The default has learned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// Start of the last incident; the epoch when there was none.
    started: Timestamp,
    /// End of the last incident.
    until: Timestamp,
    /// Length of the gradual re-opening after `until`.
    reopen_millis: u32,
    /// Last decrease of the effective limit.
    decreased_at: Timestamp,
    /// Effective limit at which the provider refused, thousandths.
    refused_level: u16,
    /// Effective limit right after the decrease, thousandths.
    lowered_level: u16,
    /// When a limit longer than a minute is whole again that the headers call exhausted; the epoch when none is.
    exhausted_until: Timestamp,
    /// Incidents in a row for which the provider named no time.
    doublings: u8,
    /// `QUOTA`, `PAUSED`, `SHORTENED`.
    flags: u8,
}

impl Default for UpstreamState {
    fn default() -> Self {
        Self {
            started: Timestamp::EPOCH,
            until: Timestamp::EPOCH,
            reopen_millis: 0,
            decreased_at: Timestamp::EPOCH,
            refused_level: 1_000,
            lowered_level: 1_000,
            exhausted_until: Timestamp::EPOCH,
            doublings: 0,
            flags: 0,
        }
    }
}

impl UpstreamState {
    /// Bytes of the encoded block.
    pub const LEN: usize = 42;

    /// Appends exactly [`Self::LEN`] bytes, little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.started.as_micros().to_le_bytes());
        out.extend_from_slice(&self.until.as_micros().to_le_bytes());
        out.extend_from_slice(&self.decreased_at.as_micros().to_le_bytes());
        out.extend_from_slice(&self.reopen_millis.to_le_bytes());
        out.extend_from_slice(&self.refused_level.to_le_bytes());
        out.extend_from_slice(&self.lowered_level.to_le_bytes());
        out.extend_from_slice(&self.exhausted_until.as_micros().to_le_bytes());
        out.push(self.doublings);
        out.push(self.flags);
    }

    /// Reads what [`Self::encode`] wrote. `None` when the length differs or a value is out of its range.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (started, rest) = bytes.split_first_chunk()?;
        let (until, rest) = rest.split_first_chunk()?;
        let (decreased_at, rest) = rest.split_first_chunk()?;
        let (reopen, rest) = rest.split_first_chunk()?;
        let (refused, rest) = rest.split_first_chunk()?;
        let (lowered, rest) = rest.split_first_chunk()?;
        let (exhausted, rest) = rest.split_first_chunk()?;
        let [doublings, flags] = *rest else { return None };
        let state = Self {
            started: Timestamp::from_micros(u64::from_le_bytes(*started)),
            until: Timestamp::from_micros(u64::from_le_bytes(*until)),
            decreased_at: Timestamp::from_micros(u64::from_le_bytes(*decreased_at)),
            reopen_millis: u32::from_le_bytes(*reopen),
            refused_level: u16::from_le_bytes(*refused),
            lowered_level: u16::from_le_bytes(*lowered),
            exhausted_until: Timestamp::from_micros(u64::from_le_bytes(*exhausted)),
            doublings,
            flags,
        };
        let levels = u32::from(state.refused_level).max(u32::from(state.lowered_level)) <= WHOLE;
        let known = flags & !(QUOTA | PAUSED | SHORTENED) == 0;
        (levels && known && state.started <= state.until).then_some(state)
    }

    /// Takes over what another ledger knows whose clock shows `theirs` when ours shows `ours`, where that holds more back.
    pub fn inherit(&mut self, other: &Self, theirs: Timestamp, ours: Timestamp) {
        let moved = |moment: Timestamp| {
            if moment == Timestamp::EPOCH {
                moment
            } else {
                ours.after(moment.since(theirs)).before(theirs.since(moment))
            }
        };
        let other = Self {
            started: moved(other.started),
            until: moved(other.until),
            decreased_at: moved(other.decreased_at),
            exhausted_until: moved(other.exhausted_until),
            ..*other
        };
        if other.blocked_until(ours) > self.blocked_until(ours)
            || other.scale_permille(ours) < self.scale_permille(ours)
        {
            *self = other;
        }
    }

    /// End of the pause in force; `None` when calls may leave.
    pub fn blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        let paused = (self.has(PAUSED) && self.in_incident(now)).then_some(self.until);
        // No pause is longer than an hour; a moment farther ahead was set by another clock.
        let ahead = self.exhausted_until.since(now);
        let exhausted = (ahead > Span::ZERO && ahead <= LONGEST_PAUSE).then_some(self.exhausted_until);
        paused.max(exhausted)
    }

    /// Share of the configured limits that may be used now, 1 to 1000 thousandths.
    ///
    /// The smaller of the adapted limit and the gradual re-opening. While a pause is in force
    /// [`Self::blocked_until`] decides, not this.
    pub fn scale_permille(&self, now: Timestamp) -> u32 {
        self.adapted(now).min(self.reopened(now)).clamp(1, WHOLE)
    }

    /// True while the last word of the provider is that paid-for quota is used up.
    pub const fn quota_exhausted(&self) -> bool {
        self.has(QUOTA)
    }

    /// Takes note of a refusal. Returns true when it opened a new incident.
    ///
    /// `max_wait` is the ceiling of every pause. Does nothing when `learn` has both `pause_on_429` and `adapt` off,
    /// except that exhausted quota is remembered.
    pub fn on_throttle(
        &mut self,
        throttle: &Throttle,
        learn: &Learn,
        max_wait: Span,
        now: Timestamp,
    ) -> bool {
        let newly_quota = throttle.kind == ThrottleKind::QuotaExhausted && !self.has(QUOTA);
        if self.in_incident(now) && !newly_quota {
            self.lengthen(throttle, max_wait, now);
            return false;
        }
        if newly_quota || now.since(self.until) > QUIET || now < self.started {
            self.doublings = 0;
        }
        let wait = self.wait(throttle).min(max_wait);
        if throttle.kind == ThrottleKind::QuotaExhausted {
            self.flags |= QUOTA;
        }
        if throttle.retry_after.is_none() {
            self.doublings = self.doublings.saturating_add(1).min(MAX_DOUBLINGS);
        }
        self.flags &= QUOTA;
        if learn.pause_on_429 {
            self.flags |= PAUSED;
        }
        self.started = now;
        self.until = now.after(wait.max(LEAST_INCIDENT.min(max_wait)));
        self.set_reopening();
        if learn.adapt && throttle.kind == ThrottleKind::RateLimited {
            self.refused_level = permille(self.refused_at(now));
            self.decreased_at = now;
            self.lowered_level =
                permille((u32::from(self.refused_level).saturating_mul(DECREASE) / WHOLE).max(FLOOR));
        }
        true
    }

    /// Takes note of a success whose answer began at `answered`. Returns true when the state changed and must be written
    /// back. An answer that began before a pause, or right after its start, says nothing about it.
    ///
    /// Cheap, and without a change, unless an incident or its aftermath is on.
    pub fn on_success(&mut self, learn: &Learn, answered: Timestamp, now: Timestamp) -> bool {
        if self.has(QUOTA) && answered >= self.started {
            self.flags = 0;
            self.doublings = 0;
            self.reopen_millis = 0;
            self.until = self.started.max(self.until.min(now));
            return true;
        }
        if self.in_incident(now) {
            return learn.pause_on_429 && self.shorten(answered, now);
        }
        let reopened = self.until.after(Span::from_millis(u64::from(self.reopen_millis)));
        if self.doublings > 0 && now >= reopened {
            self.doublings = 0;
            return true;
        }
        false
    }

    /// Takes note of what the headers say is left. Returns true when the state changed and must be written back.
    ///
    /// `max_wait` is the ceiling of every pause.
    pub fn on_hints(&mut self, hints: &LimitHints, learn: &Learn, max_wait: Span, now: Timestamp) -> bool {
        if !learn.headers || hints.is_empty() {
            return false;
        }
        let exhausted = |resource: &Resource| {
            let reset = (*hints.reset.get(*resource)).filter(|reset| *reset > LONGEST_RESET)?;
            (*hints.remaining.get(*resource) == Some(0)).then_some(reset)
        };
        let wait = Resource::ALL.iter().filter_map(exhausted).max();
        let until = wait.map_or(Timestamp::EPOCH, |wait| now.after(wait.min(max_wait)));
        let known = if self.exhausted_until > now { self.exhausted_until } else { Timestamp::EPOCH };
        let moved = until.since(known).max(known.since(until));
        if moved < SAME_MOMENT {
            return false;
        }
        self.exhausted_until = until;
        true
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn in_incident(&self, now: Timestamp) -> bool {
        self.started <= now && now < self.until
    }

    /// How long this refusal asks to stay away.
    fn wait(&self, throttle: &Throttle) -> Span {
        match throttle.retry_after {
            // The provider's second is not ours: a margin keeps the first caller from coming a moment too early.
            Some(asked) => asked
                .plus(Span::from_micros(asked.as_micros() / 32).min(Span::from_secs(1)))
                .max(LEAST_INCIDENT),
            None => {
                let first = if throttle.kind == ThrottleKind::QuotaExhausted { QUOTA_PROBE } else { BACKOFF };
                let factor = 1u64.checked_shl(u32::from(self.doublings.min(MAX_DOUBLINGS))).unwrap_or(1);
                Span::from_micros(first.as_micros().saturating_mul(factor))
            }
        }
    }

    /// A refusal within the incident: only a later deadline named by the provider counts.
    fn lengthen(&mut self, throttle: &Throttle, max_wait: Span, now: Timestamp) {
        if throttle.retry_after.is_none() || self.has(SHORTENED) {
            return;
        }
        let ceiling = self.started.after(max_wait);
        let until = now.after(self.wait(throttle)).min(ceiling);
        if until > self.until {
            self.until = until;
            self.set_reopening();
        }
    }

    fn shorten(&mut self, answered: Timestamp, now: Timestamp) -> bool {
        if self.has(SHORTENED) || answered.since(self.started) < SUCCESS_GRACE {
            return false;
        }
        let left = self.until.since(now);
        self.until = now.after(Span::from_micros(left.as_micros() / 2));
        self.flags |= SHORTENED;
        true
    }

    fn set_reopening(&mut self) {
        let half = Span::from_micros(self.until.since(self.started).as_micros() / 2);
        let span = half.clamp(REOPEN.0, REOPEN.1);
        self.reopen_millis = u32::try_from(span.as_millis_ceil()).unwrap_or(u32::MAX);
    }

    fn adapted(&self, now: Timestamp) -> u32 {
        if now < self.decreased_at.before(SKEW) {
            return WHOLE;
        }
        recovered(u32::from(self.refused_level), u32::from(self.lowered_level), now.since(self.decreased_at))
    }

    /// The level that a refusal at `now` shows to be too high.
    ///
    /// A provider that counts over a minute refuses late: a pool that was climbing has by then gone past what is
    /// sustainable, which lies between the held level and the present one, nearer to the former.
    fn refused_at(&self, now: Timestamp) -> u32 {
        let (level, age) = (self.adapted(now), now.since(self.decreased_at));
        let held = (u32::from(self.refused_level).saturating_mul(HOLD) / WHOLE).min(level);
        let climbing = u32::from(self.refused_level) < WHOLE && age > HOLD_UNTIL && age < WHOLE_AT;
        if climbing { held.saturating_add(level.saturating_sub(held) / 4) } else { level }
    }

    fn reopened(&self, now: Timestamp) -> u32 {
        if !self.has(PAUSED) || now < self.started {
            return WHOLE;
        }
        let whole = Span::from_millis(u64::from(self.reopen_millis));
        if self.has(QUOTA) { FLOOR } else { between(FLOOR, WHOLE, now.since(self.until), whole) }
    }
}

/// Effective limit `age` after it was lowered from `refused` to `lowered`, all in thousandths.
///
/// Linear up to `HOLD` of the refused level, held, then quadratic up to the whole: the first steps above a level that was
/// refused are small, because somebody else may still be using the rest.
fn recovered(refused: u32, lowered: u32, age: Span) -> u32 {
    let hold = (refused.saturating_mul(HOLD) / WHOLE).max(lowered);
    if age < HOLD_UNTIL {
        return between(lowered, hold, age, CLIMB);
    }
    let progress = between(0, WHOLE, age.minus(HOLD_UNTIL), WHOLE_AT.minus(HOLD_UNTIL));
    let rest = WHOLE.saturating_sub(hold);
    let squared = progress.saturating_mul(progress) / WHOLE;
    hold.saturating_add(rest.saturating_mul(squared) / WHOLE)
}

/// Linear interpolation from `from` at age zero to `to` at `whole` and later.
fn between(from: u32, to: u32, age: Span, whole: Span) -> u32 {
    if age >= whole {
        return to;
    }
    let range = u64::from(to.saturating_sub(from));
    let part = range.saturating_mul(age.as_micros()).checked_div(whole.as_micros()).unwrap_or(range);
    from.saturating_add(u32::try_from(part).unwrap_or(u32::MAX))
}

fn permille(level: u32) -> u16 {
    u16::try_from(level.min(WHOLE)).unwrap_or(1_000)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
