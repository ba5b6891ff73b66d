//! Shadow mode: what would have become of a call that may not pass now. It passes all the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Verdict;
use super::refusal::SHORTEST_WAIT;
use crate::gate::{Booking, WaitReason};
use crate::observe::Decided;
use crate::reply;
use crate::session::{Env, Session};
use crate::units::Timestamp;

/// The calls that this worker would hold back, per pool: the moments at which they would have passed. At most
/// `max_parked` of each pool.
#[derive(Debug, Default)]
pub struct WouldHold {
    pools: Vec<BinaryHeap<Reverse<Timestamp>>>,
}

impl WouldHold {
    /// Nothing held for any of so many pools.
    pub fn new(pools: usize) -> Self {
        Self { pools: (0..pools).map(|_| BinaryHeap::new()).collect() }
    }

    /// Counts a call of `pool` as held from `now` until `due`; false when `most` others are.
    fn hold(&mut self, pool: usize, most: u32, now: Timestamp, due: Timestamp) -> bool {
        let Some(held) = self.pools.get_mut(pool) else { return false };
        while held.peek().is_some_and(|Reverse(first)| *first <= now) {
            held.pop();
        }
        let room = held.len() < usize::try_from(most).unwrap_or(usize::MAX);
        if room {
            held.push(Reverse(due));
        }
        room
    }
}

impl Session {
    /// Lets a call pass that enforcing would have held back until its booked turn, then charged, or else refused. The one is
    /// charged now, which makes those after it wait as if it stood before them; the other leaves nothing.
    pub(super) fn pass_in_shadow(
        &mut self,
        booking: Booking,
        reason: WaitReason,
        may_park: bool,
        env: &mut Env<'_>,
    ) -> Verdict {
        let name = reply::reason_name(reason);
        self.reason = Some(name);
        let asked = self.priced.as_ref().map(|priced| (priced.pool, priced.ask));
        let most = self.pool_config().map_or(0, |pool| pool.max_parked);
        let wait = booking.wait.max(SHORTEST_WAIT);
        if let Some((pool, ask)) = asked
            && may_park
            && wait <= ask.max_park
            && env.gate.would_hold.hold(pool, most, env.now, env.now.after(wait))
        {
            self.claim = env.gate.charge(env.store, pool, &ask, env.now, env.recorder);
            self.wait = wait;
            env.recorder.waited(self.labels(), wait.as_millis_ceil());
            return self.forward(Decided::Parked, env);
        }
        self.wait = booking.told;
        env.recorder.refused(self.labels(), name, Some(booking.told));
        self.forward(Decided::ShadowDenied, env)
    }
}
