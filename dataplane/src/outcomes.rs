//! Joins asking and assessments: answers go into the table.

use std::sync::Arc;

use crate::clock::Clock;
use crate::infer::{Inference, Item, Outcomes, Ticket};
use crate::retain::answers::Answers;
use crate::retain::assessments::Assessments;
use crate::retain::engine::Questions;

/// Stores what came of a question.
pub(crate) struct StoredOutcomes {
    assessments: Arc<Assessments>,
    clock: Clock,
}

impl StoredOutcomes {
    /// Answers live from the moment at which they are stored.
    pub(crate) fn new(assessments: Arc<Assessments>, clock: Clock) -> Self {
        Self { assessments, clock }
    }
}

impl Outcomes for StoredOutcomes {
    fn assessed(&self, ticket: Ticket, answers: Answers, model: &str) {
        self.assessments
            .store(ticket, answers, model, self.clock.seconds());
    }

    fn refused(&self, ticket: Ticket) {
        self.assessments.store_refusal(ticket, self.clock.seconds());
    }

    fn failed(&self, ticket: Ticket) {
        self.assessments.stop_asking(ticket);
    }
}

impl Questions for Inference {
    fn wants(&self) -> bool {
        Self::wants(self)
    }

    fn offer(&self, item: Item) -> Result<(), Item> {
        Self::offer(self, item)
    }

    fn count_rejected(&self, instruments: u64) {
        Self::count_rejected(self, instruments);
    }
}
