//! The gate of an Envoy that goes on by itself, because the fleet's store is out of reach: its part of the limits.

use super::{Claim, Gatekeeper, OwedCharge};
use crate::gate::{Ask, Decision, Policy, SharedStore, Standings, TransactError, adopt_remaining};
use crate::observe::Recorder;
use crate::units::{PerResource, Resource, Span, Timestamp};
use crate::upstream::LONGEST_RESET;

/// An own ledger that was out of use for this long is left from an earlier outage of the fleet's store.
const REUNITED: Span = Span::from_secs(5);

impl Gatekeeper {
    /// What this Envoy allows by itself while the fleet's ledger is out of reach: its part of the limits.
    pub(super) fn alone(&self, policy: &Policy) -> Option<Policy> {
        let envoys = self.fleet.as_ref()?.envoys();
        let part = |limit: &Option<u64>| limit.map(|limit| limit.checked_div(envoys).unwrap_or(1).max(1));
        Some(Policy {
            limits: PerResource::from_fn(|resource| part(policy.limits.get(resource))),
            ..policy.clone()
        })
    }

    /// Decides a call of a fleet by this Envoy's own ledger. `marker`: of the decision that was asked for and not heard.
    /// `once_more`: one that would wait is asked of the store again under that marker, so nothing is left of it here.
    ///
    /// # Errors
    /// Why no decision could be made; the call then passes and its cost is owed.
    #[allow(clippy::too_many_arguments)]
    pub fn admit_alone(
        &mut self,
        store: &mut dyn SharedStore,
        pool: usize,
        ask: &Ask,
        marker: Option<String>,
        once_more: bool,
        shadow: bool,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Result<(Decision, Standings, Claim), TransactError> {
        self.start_alone(store, pool, now);
        let decided = self.admit(store, pool, ask, shadow || once_more, now);
        if once_more && let Ok((decision @ Decision::Wait(..), standings)) = decided {
            return Ok((decision, standings, Claim::None));
        }
        let taken = match &decided {
            Ok((Decision::Admit(reservation), _)) => Some(*reservation),
            _ => None,
        };
        let mut claim = Claim::None;
        if let Some(fleet) = &mut self.fleet {
            if let Some(reservation) = taken {
                let charge = OwedCharge::new(ask, now);
                fleet.charge(pool, marker, &charge, recorder);
                claim = Claim::Alone(reservation, charge);
            } else if let Some(marker) = marker {
                fleet.undo(pool, marker, ask, recorder);
            }
        }
        decided.map(|(decision, standings)| (decision, standings, claim))
    }

    /// Lets the own ledger begin with this Envoy's part of what the fleet's was last known to hold.
    pub(super) fn start_alone(&mut self, store: &mut dyn SharedStore, pool: usize, now: Timestamp) {
        let Some((standings, envoys, upstream, at)) =
            self.fleet.as_mut().and_then(|fleet| fleet.left_at_parting(pool, now))
        else {
            return;
        };
        let _ = self.with_ledger(store, pool, now, |ledger, policy| {
            // What it admitted in an earlier outage was posted since, so the fleet's figures hold it.
            ledger.leave_behind(now, REUNITED);
            ledger.upstream.inherit(&upstream, at, ledger.time(now));
            for resource in Resource::PER_MINUTE {
                if let Some(standing) = standings.get(resource) {
                    let remaining = standing.remaining.checked_div(envoys).unwrap_or(0);
                    // As what is free again within a minute: else a bucket that paces would begin in debt. And little by
                    // little: what was used leaves a trailing window as it was used, not all in the end.
                    let reset = standing.reset.min(LONGEST_RESET);
                    adopt_remaining(ledger, policy, resource, remaining, Some(reset), now);
                }
            }
        });
    }
}
