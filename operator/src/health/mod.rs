//! What the pods of a policy say of themselves, calmed. Pure.
//!
//! ```text
//! answers of one poll ─▶ Health::of ─▶ Polls::take_in ─▶ Polls::health: what counts
//! ```
//! Each fact changes when two polls in a row say the same new thing of it: one lost reply turns no condition, and trouble
//! that is told in other words each time does not hold up the other facts.

mod coordination;
mod inference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jevmetrics_api::member::{BudgetState, Member};

pub use self::coordination::Coordination;
pub use self::inference::Inference;

/// What a status says where pods differ.
const MIXED: &str = "mixed";

/// What the pods of a policy say; each fact is none as long as it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// How their questions fare.
    pub inference: Option<Inference>,
    /// The model that answered; `mixed` if pods differ, none if no pod had an answer.
    pub model: Option<Option<String>>,
    /// Whether a pod has more to ask about than its budget lets it.
    pub is_budget_too_small: Option<bool>,
    /// The version of assessments, by the digest of the settings that pods run with; `mixed` if pods differ.
    pub versions: Option<BTreeMap<String, String>>,
    /// How sharing fares.
    pub coordination: Option<Coordination>,
    /// The highest generation that pods have seen, by the name under which they share.
    pub generations: Option<BTreeMap<String, u32>>,
}

impl Health {
    /// What one poll says; `members` are the pods that answered, with their names.
    pub fn of(members: &[(String, Member)]) -> Self {
        let models = members
            .iter()
            .filter_map(|(_, member)| member.inference.model.as_ref());
        let too_small = |(_, member): &(String, Member)| member.inference.budget == BudgetState::TooSmall;
        Self {
            inference: Some(Inference::of(members)),
            model: Some(models.fold(None, |so_far, model| Some(agreed(so_far, model)))),
            is_budget_too_small: Some(members.iter().any(too_small)),
            versions: Some(versions(members)),
            coordination: Some(Coordination::of(members)),
            generations: Some(generations(members)),
        }
    }
}

/// What all have said that were looked at, with one more.
fn agreed(so_far: Option<String>, said: &str) -> String {
    match so_far {
        Some(other) if other != said => MIXED.to_owned(),
        _ => said.to_owned(),
    }
}

fn versions(members: &[(String, Member)]) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for (_, member) in members {
        let said = &member.inference.assessment_version;
        if !said.is_empty() {
            let so_far = versions.remove(&member.settings_digest);
            versions.insert(member.settings_digest.clone(), agreed(so_far, said));
        }
    }
    versions
}

fn generations(members: &[(String, Member)]) -> BTreeMap<String, u32> {
    let mut generations = BTreeMap::new();
    for report in members
        .iter()
        .filter_map(|(_, member)| member.coordination.as_ref())
    {
        let seen = report.generation.max(report.highest_generation);
        let highest = generations.entry(report.namespace.clone()).or_insert(0);
        *highest = seen.max(*highest);
    }
    generations
}

/// The polls of one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polls {
    said: Health,
    last: Health,
}

impl Polls {
    /// What counts now; nothing before two polls in a row have said the same.
    pub fn health(&self) -> &Health {
        &self.said
    }

    /// Takes in one poll; says whether what counts has changed.
    pub fn take_in(&mut self, polled: Health) -> bool {
        let last = std::mem::replace(&mut self.last, polled);
        let (said, polled) = (&mut self.said, &self.last);
        // By name, so that a new fact cannot be forgotten here.
        let Health {
            inference,
            model,
            is_budget_too_small,
            versions,
            coordination,
            generations,
        } = polled;
        [
            calm(
                &mut said.inference,
                last.inference.as_ref(),
                inference.as_ref(),
                Inference::is_like,
            ),
            calm(&mut said.model, last.model.as_ref(), model.as_ref(), Option::eq),
            calm(
                &mut said.is_budget_too_small,
                last.is_budget_too_small.as_ref(),
                is_budget_too_small.as_ref(),
                bool::eq,
            ),
            calm(
                &mut said.versions,
                last.versions.as_ref(),
                versions.as_ref(),
                BTreeMap::eq,
            ),
            calm(
                &mut said.coordination,
                last.coordination.as_ref(),
                coordination.as_ref(),
                Coordination::is_like,
            ),
            calm(
                &mut said.generations,
                last.generations.as_ref(),
                generations.as_ref(),
                BTreeMap::eq,
            ),
        ]
        .contains(&true)
    }
}

/// Lets a fact count that two polls have told: in the same words, or of the same kind if what was said before is of
/// another one. So words that change with each poll turn it once and are not followed.
fn calm<T: Clone + PartialEq>(
    said: &mut Option<T>,
    last: Option<&T>,
    polled: Option<&T>,
    is_like: impl Fn(&T, &T) -> bool,
) -> bool {
    let (Some(last), Some(polled)) = (last, polled) else {
        return false;
    };
    let is_news = said.as_ref() != Some(polled);
    let is_other = !said.as_ref().is_some_and(|said| is_like(said, polled));
    let counts = is_news && (last == polled || is_other && is_like(last, polled));
    if counts {
        *said = Some(polled.clone());
    }
    counts
}
