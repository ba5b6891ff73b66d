//! Watches over calls whose headers are held for a body that the host may never show.
//!
//! Without `allow_on_headers_stop_iteration` a host takes a pause at the headers as a pause of everything: the body stays with
//! it until the call is resumed, which nobody would do. The first held calls of a worker tell which host this is.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::session::{Phase, Session};
use crate::units::{Span, Timestamp};

/// How long headers wait for the first of their body while it is not known whether the host shows bodies. Callers send both at
/// once as a rule.
const PATIENCE: Span = Span::from_millis(1_000);
/// A host that kept a body shows it within this time of the resumption.
const AT_ONCE: Span = Span::from_millis(20);
/// Most calls watched at a time in a worker; further ones are not held.
const MOST: usize = 4_096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Host {
    #[default]
    Unknown,
    /// Shows the body while the headers are held.
    Shows,
    /// Shows it only after the headers went on.
    Hides,
}

#[derive(Debug)]
struct Waiting {
    context: u32,
    session: Weak<RefCell<Session>>,
    /// When a tick first saw it: a call has no need of a clock at its headers.
    since: Option<Timestamp>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Watch {
    host: Cell<Host>,
    waiting: RefCell<Vec<Waiting>>,
    resumed: Cell<Timestamp>,
}

impl Watch {
    /// True when the headers of this call are to be held back; it is watched where that is not known to go well.
    pub(super) fn hold(&self, context: u32, session: &Rc<RefCell<Session>>) -> bool {
        match self.host.get() {
            Host::Shows => true,
            Host::Hides => false,
            Host::Unknown => self.waiting.try_borrow_mut().is_ok_and(|mut waiting| {
                let room = waiting.len() < MOST;
                if room {
                    waiting.push(Waiting { context, session: Rc::downgrade(session), since: None });
                }
                room
            }),
        }
    }

    /// True while a body can tell what kind of host this is.
    pub(super) fn is_open(&self) -> bool {
        self.host.get() == Host::Unknown
    }

    /// Learns from a body that is shown at `now`; `resumed`: its headers went on before.
    pub(super) fn learn(&self, resumed: bool, now: Timestamp) {
        if !resumed {
            self.host.set(Host::Shows);
        } else if now.since(self.resumed.get()) <= AT_ONCE {
            self.host.set(Host::Hides);
        }
    }

    /// Takes at most `most` of the calls whose headers waited too long, to be resumed now.
    pub(super) fn overdue(&self, now: Timestamp, most: usize) -> Vec<(u32, Rc<RefCell<Session>>)> {
        let Ok(mut waiting) = self.waiting.try_borrow_mut() else { return Vec::new() };
        let mut overdue = Vec::new();
        if self.host.get() == Host::Shows {
            waiting.clear();
        }
        waiting.retain_mut(|call| {
            let Some(session) = call.session.upgrade() else { return false };
            if session.try_borrow().is_ok_and(|session| session.phase() != Phase::Undecided) {
                return false;
            }
            // A clock that stepped back begins anew.
            let since = call.since.filter(|since| *since <= now).unwrap_or(now);
            call.since = Some(since);
            let late = self.host.get() == Host::Hides || now.since(since) >= PATIENCE;
            let taken = late && overdue.len() < most;
            if taken {
                overdue.push((call.context, session));
            }
            !taken
        });
        if !overdue.is_empty() {
            self.resumed.set(now);
        }
        overdue
    }
}
