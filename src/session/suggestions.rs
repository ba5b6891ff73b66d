//! One worker's view of what the pools' calls have produced lately.
//!
//! Samples gather here and are exchanged with the other workers at the tick, so that no call pays a host call for
//! learning. Pools with `output_reserve: max_tokens` learn nothing: their reserves follow from the request alone.

use std::rc::Rc;

use super::plan::Plan;
use crate::config::OutputReserve;
use crate::cost::reserve::{History, Observation};
use crate::gate::{Expected, PutError, SharedStore};
use crate::observe::{Anomaly, Recorder};

/// Samples that wait for the next exchange; more calls than this between two ticks teach nothing new.
const MAX_PENDING: usize = 256;

#[derive(Debug)]
struct Book {
    learns: bool,
    key: String,
    history: Box<History>,
    pending: Vec<Observation>,
}

/// See the module.
#[derive(Debug)]
pub struct Suggestions {
    books: Vec<Book>,
    scratch: Vec<u8>,
}

impl Suggestions {
    /// Nothing learned yet.
    pub fn new(plan: &Rc<Plan>) -> Self {
        let book = |(pool, plan): (&crate::config::Pool, &super::plan::PoolPlan)| Book {
            learns: pool.output_reserve == OutputReserve::Learned,
            key: plan.suggestion_key.clone(),
            history: Box::default(),
            pending: Vec::new(),
        };
        Self { books: plan.config.pools.iter().zip(&plan.pools).map(book).collect(), scratch: Vec::new() }
    }

    fn learning(&self, pool: usize) -> Option<&Book> {
        self.books.get(pool).filter(|book| book.learns)
    }

    /// The input estimate, corrected by how such estimates of this model have turned out.
    pub fn corrected_input(&self, pool: usize, model: u64, estimate: u64) -> u64 {
        self.learning(pool).map_or(estimate, |book| book.history.corrected_input(model, estimate))
    }

    /// Output that a call will hardly exceed; `None` while too little is known.
    pub fn output(&self, pool: usize, model: u64, tenant: u32) -> Option<u64> {
        self.learning(pool)?.history.suggest(model, tenant)
    }

    /// Takes note of a call whose usage was stated.
    pub fn record(&mut self, pool: usize, call: Observation) {
        let Some(book) = self.books.get_mut(pool).filter(|book| book.learns) else { return };
        // At once for this worker, with the next exchange for the others.
        book.history.record(&call);
        if book.pending.len() < MAX_PENDING {
            book.pending.push(call);
        }
    }

    /// Adds what was seen here to what the others saw, and takes theirs over.
    pub fn exchange(&mut self, store: &mut dyn SharedStore, recorder: &mut dyn Recorder) {
        for book in self.books.iter_mut().filter(|book| book.learns) {
            let expected = match store.get(&book.key, &mut self.scratch) {
                Ok(None) if book.pending.is_empty() => continue,
                Ok(None) => Expected::Absent,
                Ok(Some(cas)) => Expected::Is(cas),
                Err(_) => continue,
            };
            let mut history = if expected == Expected::Absent {
                Box::default()
            } else if let Some(known) = History::decode(&self.scratch) {
                Box::new(known)
            } else {
                recorder.anomaly(Anomaly::SuggestionUnreadable);
                Box::<History>::default()
            };
            for call in &book.pending {
                history.record(call);
            }
            let written = if book.pending.is_empty() {
                Ok(())
            } else {
                store.put(&book.key, &history.encode(), expected)
            };
            match written {
                Ok(()) => {
                    book.history = history;
                    book.pending.clear();
                }
                // Another worker was faster; the samples stay for the next tick.
                Err(PutError::Mismatch | PutError::Failed) => {}
            }
        }
    }
}
