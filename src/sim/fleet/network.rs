//! The store and the way to it.

use super::{FleetLoad, State};
use crate::sim::rng::Rng;
use crate::testing::fleet_store::FleetStore;
use crate::units::{Span, Timestamp};

/// What becomes of a request that is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It reaches the store at that moment.
    Arrives(Timestamp),
    /// It fails at that moment.
    Fails(Timestamp),
    /// Nothing is heard of it.
    Lost,
}

/// See the module.
#[derive(Debug)]
pub struct Network {
    /// The store.
    pub store: FleetStore,
    /// How it is.
    pub state: State,
    /// Envoys that do not reach it.
    pub cut: Vec<bool>,
    rng: Rng,
    busy_until: Timestamp,
    round_trip: (Span, Span),
    service: Span,
    lost: f64,
    /// Bytes of commands and of answers.
    pub bytes: (u64, u64),
    /// The store's working time.
    pub worked: Span,
}

impl Network {
    /// A well network of this fleet.
    pub fn new(fleet: &FleetLoad, seed: u64) -> Self {
        Self {
            store: FleetStore::new(),
            state: State::Well,
            cut: vec![false; fleet.replicas],
            rng: Rng::new(seed, 77),
            busy_until: Timestamp::EPOCH,
            round_trip: fleet.round_trip,
            service: fleet.service,
            lost: fleet.lost,
            bytes: (0, 0),
            worked: Span::ZERO,
        }
    }

    fn half(&mut self) -> Span {
        let trip = self.rng.span(self.round_trip);
        Span::from_micros(trip.as_micros() / 2)
    }

    /// Sends a request of an Envoy.
    pub fn send(&mut self, replica: usize, now: Timestamp) -> Way {
        let half = self.half();
        if self.cut[replica] || self.state == State::Hangs || self.rng.chance(self.lost / 2.0) {
            return Way::Lost;
        }
        match self.state {
            State::Down => Way::Fails(now.after(half)),
            _ => Way::Arrives(now.after(half)),
        }
    }

    /// A request has reached the store: what it answers and when that is heard; `None`: never.
    pub fn arrive(&mut self, replica: usize, command: &str, now: Timestamp) -> Option<(Timestamp, String)> {
        let extra = match self.state {
            State::Slow(least, most) => self.rng.span((least, most)),
            State::Jittery(mean) => Span::from_micros(self.rng.exponential(mean.as_micros() as f64) as u64),
            _ => Span::ZERO,
        };
        let answer = match self.state {
            State::Down | State::Hangs => return None,
            State::Full => {
                "{\"EVALSHA\":[false,\"OOM command not allowed when used memory > 'maxmemory'.\"]}".to_owned()
            }
            State::Foreign => "{\"EVALSHA\":\"newer\"}".to_owned(),
            State::Garbage => "<html>".to_owned(),
            State::Well | State::Slow(..) | State::Jittery(_) => {
                let operations = command.matches(":c:").count().max(1) as u64;
                let work = Span::from_micros(self.service.as_micros() * operations);
                let start = self.busy_until.max(now);
                self.busy_until = start.after(work);
                self.worked = self.worked.plus(work);
                self.store.run(command, start)
            }
        };
        self.bytes.0 += command.len() as u64;
        self.bytes.1 += answer.len() as u64;
        if self.cut[replica] || self.rng.chance(self.lost / 2.0) {
            return None;
        }
        let back = self.busy_until.max(now).after(self.half()).after(extra);
        Some((back, answer))
    }
}
