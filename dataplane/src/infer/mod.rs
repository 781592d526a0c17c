//! Asking Jev, in the background: questions, client, queue, budget, cooldown.

use jevmetrics_otlp::summary::Summary;

use crate::retain::answers::Answers;

/// Names one identity in the assessments for the time of one question. Opaque to this room:
/// a ticket whose place was given to another identity meanwhile is recognised and its answer thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Place in the assessments.
    pub slot: u32,
    /// Which holder of that place.
    pub generation: u32,
}

/// One instrument to ask about.
#[derive(Debug)]
pub struct Item {
    /// Where the answer belongs.
    pub ticket: Ticket,
    /// What the model may see.
    pub summary: Summary,
}

/// Where answers go. Implemented by `retain`; every offered item ends in exactly one of these calls.
pub trait Outcomes: Send + Sync + 'static {
    /// Jev answered.
    fn assessed(&self, ticket: Ticket, answers: Answers, model: &str);
    /// Jev refused this instrument (400, 413, 422): kept as `unassessable` for one lifetime.
    fn refused(&self, ticket: Ticket);
    /// No answer; a later batch asks again.
    fn failed(&self, ticket: Ticket);
}
