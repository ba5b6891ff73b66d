//! The latest refusals of one worker.

use std::collections::VecDeque;

use super::{DenialView, MOST_DENIALS};
use crate::config::Config;
use crate::observe::Labels;
use crate::units::{Span, Timestamp};

#[derive(Clone, Copy, Debug)]
struct Denial {
    at: Timestamp,
    labels: Labels,
    reason: &'static str,
    told: Option<Span>,
}

/// Remembers at most [`MOST_DENIALS`] refusals.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    latest: VecDeque<Denial>,
}

impl Denials {
    /// Remembers one, and forgets the oldest when there are too many.
    pub fn push(&mut self, labels: Labels, reason: &'static str, told: Option<Span>, at: Timestamp) {
        if self.latest.len() >= MOST_DENIALS {
            self.latest.pop_back();
        }
        self.latest.push_front(Denial { at, labels, reason, told });
    }

    /// What the page shows, newest first.
    pub fn views(&self, config: &Config, now: Timestamp) -> Vec<DenialView> {
        self.latest
            .iter()
            .map(|denial| DenialView {
                ago_ms: now.since(denial.at).as_millis_ceil(),
                pool: config.pools.get(denial.labels.pool).map_or("?", |pool| pool.name.as_str()).to_owned(),
                class: config
                    .classes
                    .get(denial.labels.class)
                    .map_or("?", |class| class.name.as_str())
                    .to_owned(),
                tenant: denial.labels.tenant.name(config).to_owned(),
                reason: denial.reason,
                told_ms: denial.told.map(Span::as_millis_ceil),
            })
            .collect()
    }
}
