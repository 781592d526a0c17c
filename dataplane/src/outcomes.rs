//! Joins asking and assessments: answers go into the table.

use std::sync::Arc;
use std::time::Instant;

use crate::clock::Clock;
use crate::infer::rank::Rank;
use crate::infer::{Enquiry, Inference, Item, Outcomes, Ticket, Want};
use crate::retain::answers::Answers;
use crate::retain::assessments::Assessments;
use crate::retain::engine::Questions;

/// Stores what came of a question.
pub(crate) struct StoredOutcomes {
    assessments: Arc<Assessments>,
    clock: Clock,
}

impl StoredOutcomes {
    /// Lives are measured by `clock`.
    pub(crate) fn new(assessments: Arc<Assessments>, clock: Clock) -> Self {
        Self { assessments, clock }
    }
}

impl Outcomes for StoredOutcomes {
    fn assessed(&self, ticket: Ticket, answers: Answers, model: &str, expires: Instant) {
        self.assessments
            .store(ticket, answers, model, self.clock.seconds_of(expires));
    }

    fn refused(&self, ticket: Ticket, expires: Instant) {
        self.assessments
            .store_refusal(ticket, self.clock.seconds_of(expires));
    }

    fn missed(&self, ticket: Ticket) {
        self.assessments.rest_from_look_ups(ticket, self.clock.seconds());
        self.assessments.stop_asking(ticket);
    }

    fn asked_in_vain(&self, ticket: Ticket) {
        self.assessments.rest_from_questions(ticket, self.clock.seconds());
    }

    fn failed(&self, ticket: Ticket) {
        self.assessments.stop_asking(ticket);
    }
}

impl Questions for Inference {
    fn wants(&self, rank: Rank) -> Want {
        Self::wants(self, rank)
    }

    fn offer(&self, item: Item) -> Result<(), Item> {
        Self::offer(self, item)
    }

    fn look_up(&self, enquiry: Enquiry) -> bool {
        Self::look_up(self, enquiry)
    }

    fn count_rejected(&self, instruments: u64) {
        Self::count_rejected(self, instruments);
    }
}
