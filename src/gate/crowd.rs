//! More flows than the table holds: then flows of a class that the configuration does not name stand together, in one of
//! a few crowds by their hash, so that there is always room for named tenants and for every class.
//!
//! A crowd counts as as many flows as it has calls waiting, up to a bound. Where the calls of a flow stand is said by the
//! calls: one that was booked in a crowd is looked for there, whatever entries came and went since.

use crate::config::ClassId;

use super::calls::Call;
use super::flow_state::{FlowState, MOST};
use super::queue::{DECAY_MS, MAX_FLOWS, MOST_OF_A_FLOW, Queue};
use super::{Flow, TenantKey};

/// Keys from here on are of tenants that the configuration does not name.
const UNNAMED: u32 = 0x8000_0000;
/// Crowds of a class: even with the most classes they leave half of the table.
const CROWDS: u32 = 8;
/// Keys from here on are those of the crowds.
pub(crate) const FIRST_CROWD: u32 = u32::MAX - (CROWDS - 1);
/// Flows as which a crowd counts at most: all crowds of a class together double the table.
pub(crate) const MOST_OF_A_CROWD: u16 = 128;

fn crowd_of(flow: &Flow) -> Flow {
    Flow { tenant: TenantKey(FIRST_CROWD | flow.tenant.0 & (CROWDS - 1)), ..*flow }
}

impl Queue {
    /// Index of the entry in which a call of `flow` with `print` stands or would stand, if there is one.
    pub(crate) fn home(&self, flow: &Flow, print: u32) -> Option<usize> {
        let crowd = self.find(&crowd_of(flow)).ok();
        let booked = crowd.filter(|&at| self.calls.range(self.range(at)).any(|call| call.print == print));
        booked.or_else(|| self.find(flow).ok())
    }

    /// Index of the entry to which what `flow` received is accounted, if there is one.
    pub(crate) fn account(&self, flow: &Flow) -> Option<usize> {
        self.find(flow).or_else(|_| self.find(&crowd_of(flow))).ok()
    }

    /// Index of the entry for a call of `flow` with `print`, made when there is none. `now` in milliseconds.
    pub(crate) fn entry(&mut self, flow: &Flow, print: u32, now: u64) -> Option<usize> {
        if self.flows.is_empty() {
            self.decays = now / DECAY_MS;
        }
        let at = match self.home(flow, print) {
            Some(at) => at,
            None => self.enter(flow, now)?,
        };
        let state = self.flows.get_mut(at)?;
        state.reweigh(flow);
        if state.waiting == 0 {
            state.finish = state.finish.max(self.virtual_time);
        }
        Some(at)
    }

    fn enter(&mut self, flow: &Flow, now: u64) -> Option<usize> {
        let named = flow.tenant.0 < UNNAMED;
        let own = self.flows.len() < MAX_FLOWS || self.forget_idle() || named && self.fold(UNNAMED, now);
        let key = if own { *flow } else { crowd_of(flow) };
        if !own && self.find(&key).is_err() && !self.fold(UNNAMED, now) && !self.fold(0, now) {
            return None;
        }
        Some(self.find(&key).unwrap_or_else(|at| {
            self.flows.insert(at, FlowState::new(&key, self.virtual_time, self.strangers));
            at
        }))
    }

    fn forget_idle(&mut self) -> bool {
        // One that was served ahead of the others stays: forgotten, it would come as a newcomer and be served again.
        let owes_nothing = |state: &FlowState| state.waiting == 0 && state.finish <= self.virtual_time;
        let idle =
            |least: u32| self.flows.iter().position(|state| state.tenant >= least && owes_nothing(state));
        let found = idle(UNNAMED).or_else(|| idle(0));
        if let Some(idle) = found {
            self.flows.remove(idle);
        }
        found.is_some()
    }

    /// Puts flows with keys from `least` on into the crowds of the class that has most of them, until there is room.
    fn fold(&mut self, least: u32, now: u64) -> bool {
        while self.flows.len() >= MAX_FLOWS {
            let alone = |state: &FlowState| state.tenant >= least && state.tenant < FIRST_CROWD;
            let mut counts = [0_u16; 256];
            for state in self.flows.iter().filter(|state| alone(state)) {
                if let Some(count) = counts.get_mut(usize::from(state.class)) {
                    *count = count.saturating_add(1);
                }
            }
            let fullest = counts.iter().zip(0_u8..=u8::MAX).max_by_key(|(count, _)| **count);
            let class = fullest.map_or(0, |(_, class)| class);
            let Some(at) = self.flows.iter().rposition(|state| state.class == class && alone(state)) else {
                return false;
            };
            self.fold_one(at, now);
        }
        true
    }

    fn fold_one(&mut self, at: usize, now: u64) {
        let range = self.range(at);
        let calls: Vec<Call> = self.calls.range(range.clone()).collect();
        for _ in &calls {
            self.calls.remove(range.start);
        }
        let state = self.flows.remove(at);
        let key = crowd_of(&Flow { class: ClassId(state.class), ..state.flow() });
        let to = match self.find(&key) {
            Ok(to) => {
                if let Some(crowd) = self.flows.get_mut(to) {
                    crowd.asked = crowd.asked.saturating_add(state.asked).min(MOST);
                    crowd.received = crowd.received.saturating_add(state.received).min(MOST);
                }
                to
            }
            Err(to) => {
                let finish = self.virtual_time;
                self.flows.insert(to, FlowState { tenant: key.tenant.0, waiting: 0, finish, ..state });
                to
            }
        };
        let mut end = self.range(to).end;
        let Some(crowd) = self.flows.get_mut(to) else { return };
        for call in calls.iter().take(usize::from(MOST_OF_A_FLOW.saturating_sub(crowd.waiting))) {
            self.calls.insert(end, call, now);
            end = end.saturating_add(1);
            crowd.waiting = crowd.waiting.saturating_add(1);
        }
        crowd.reweigh(&key);
    }
}
