//! Refusals in a row: whether they still are about single instruments.

use std::sync::{Mutex, PoisonError};

use super::Ticket;

/// So many different instruments refused in a row are no longer the instruments' fault.
const IN_A_ROW: usize = 5;

/// Different tickets refused since the last answer; at most [`IN_A_ROW`] of them.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Vec<Ticket>>);

impl Refusals {
    /// Notes a refusal, and tells whether the run of them concerns all.
    pub(super) fn note(&self, ticket: Ticket) -> bool {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < IN_A_ROW && !refused.contains(&ticket) {
            refused.push(ticket);
        }
        refused.len() >= IN_A_ROW
    }

    /// There was an answer.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
