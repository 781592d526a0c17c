//! Decisions seen from outside the delivery path: for pages.

use std::sync::Arc;

use jevmetrics_otlp::summary::Description;

use super::answers::Answers;
use super::assessments::{Assessments, Row, Seconds, State};
use super::decide::{Decision, Reason, decide};
use super::engine::Engine;

/// One identity, as it would be decided now.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Texts for people; `None` if no longer kept.
    pub description: Option<Arc<Description>>,
    /// What the decision chain says now.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Fresh answers.
    pub answers: Option<Answers>,
    /// The model that gave them.
    pub model: Option<Arc<str>>,
    /// Seconds until answers or refusal expire.
    pub expires_in: Option<Seconds>,
    /// A question is on its way.
    pub is_asking: bool,
    /// Data points seen since the identity was admitted.
    pub points: u64,
}

impl Engine {
    /// The identities with this instrument name, at most `limit`.
    pub fn explain_named(&self, name: &str, now: Seconds, limit: usize) -> Vec<Explained> {
        let rows = self.assessments().rows_named(name).take(limit);
        rows.map(|row| self.explain(row, now)).collect()
    }

    /// Every identity, in no order. Looks at each place of the table.
    pub fn explain_all(&self, now: Seconds) -> impl Iterator<Item = (Row, Decision, Reason)> + '_ {
        self.assessments().rows().map(move |row| {
            let (decision, reason) = self.outcome(&row, now);
            (row, decision, reason)
        })
    }

    /// Adds texts and answers to a row.
    pub fn explain(&self, mut row: Row, now: Seconds) -> Explained {
        if row.description.is_none() {
            row.description = self.assessments().description(row.ticket);
        }
        let (decision, reason) = self.outcome(&row, now);
        let (answers, model, expires) = match row.state {
            State::Assessed {
                answers,
                model,
                expires,
            } if now < expires => (
                Some(answers),
                self.assessments().models().get(usize::from(model)).cloned(),
                Some(expires),
            ),
            State::Refused { expires } if now < expires => (None, None, Some(expires)),
            _ => (None, None, None),
        };
        Explained {
            decision,
            reason,
            answers,
            model,
            expires_in: expires.map(|expires| expires - now),
            is_asking: row.is_asking,
            points: row.points,
            description: row.description,
        }
    }

    fn outcome(&self, row: &Row, now: Seconds) -> (Decision, Reason) {
        let Some(policy) = self.policy() else {
            return (Decision::Keep, Reason::AwaitingPolicy);
        };
        let assessments = self.assessments();
        let is_protected = assessments
            .protection(row.ticket, policy.generation())
            .unwrap_or_else(|| {
                // Not seen since the policy changed: its name tells, if we still have it.
                let description = assessments.description(row.ticket);
                description.is_some_and(|description| policy.protection().covers(description.name.as_bytes()))
            });
        decide(
            is_protected,
            Assessments::knowledge(row.state, now),
            policy.thresholds(),
        )
    }
}
