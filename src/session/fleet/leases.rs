//! What was lent to this worker by the fleet's ledgers: calls that pass on it, and its renewal.

use std::cell::RefCell;
use std::rc::Rc;

use super::posts::After;
use super::{Fleet, View};
use crate::fleet::wire::Operation;
use crate::gate::{Ask, Lease};
use crate::observe::Recorder;
use crate::session::gatekeeper::OwedCharge;
use crate::units::{Span, Timestamp};

impl Fleet {
    /// Lets a call pass on what was lent here, if that covers it; its charge is posted. No lease is drawn on while anybody
    /// waits for the pool, or the provider holds it back, as far as is known here.
    pub fn draw(
        &mut self,
        pool: usize,
        ask: &Ask,
        now: Timestamp,
        recorder: &mut dyn Recorder,
    ) -> Option<Rc<RefCell<OwedCharge>>> {
        let view = self.views.get_mut(pool).filter(|_| self.lease > Span::ZERO)?;
        view.borrower.note(&ask.cost, self.lease, now);
        let calm = view.is_calm(now);
        let ends = view.borrower.draw(&ask.cost, &view.limits, now).filter(|_| calm)?;
        let charge = OwedCharge::new(ask, now);
        self.drawn(pool, ends, &charge, recorder);
        Some(charge)
    }

    /// Gives back what is not needed, and asks for what will be.
    pub(super) fn tend(&mut self, now: Timestamp) {
        for pool in 0..self.views.len() {
            while let Some(lease) = self.surplus(pool, now) {
                self.give_back(pool, &lease);
            }
            let life = self.lease;
            let want = self.views.get_mut(pool).filter(|view| life > Span::ZERO && view.is_calm(now));
            if let Some(want) = want.and_then(|view| view.borrower.want(&view.limits, life, now)) {
                let marker = self.marker();
                self.push(pool, marker, &Operation::Lend(&want, life), After::Lent(now));
            }
        }
    }

    fn surplus(&mut self, pool: usize, now: Timestamp) -> Option<Lease> {
        let view = self.views.get_mut(pool)?;
        let calm = view.is_calm(now);
        view.borrower.surplus(calm, now)
    }

    /// When the tick has something to do for the leases; `None`: nothing.
    pub fn tends_at(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.is_well() || self.lease == Span::ZERO {
            return None;
        }
        let next = |view: &View| view.borrower.next_tick(&view.limits, self.lease, view.is_calm(now), now);
        self.views.iter().filter_map(next).min()
    }

    pub(super) fn lent(&mut self, pool: usize, lease: Lease, from: Timestamp, now: Timestamp) {
        let life = self.lease;
        let useless = self
            .views
            .get_mut(pool)
            .and_then(|view| view.borrower.lent(lease, &view.limits, (from, life), now));
        if let Some(lease) = useless {
            self.give_back(pool, &lease);
        }
    }

    fn give_back(&mut self, pool: usize, lease: &Lease) {
        let marker = self.marker();
        self.push(pool, marker, &Operation::GiveBack(lease), After::Nothing);
    }
}

impl View {
    /// True when nobody waits for the pool and its provider holds nothing back, as far as is known here.
    fn is_calm(&self, now: Timestamp) -> bool {
        let at = self.glance.now.after(now.since(self.seen));
        self.seen > Timestamp::EPOCH
            && self.glance.booked == 0
            && self.glance.paused == Span::ZERO
            && self.glance.scale_permille == 1_000
            && self.upstream.blocked_until(at).is_none()
            && self.upstream.scale_permille(at) == 1_000
    }
}
