//! `RolledOut` and `status.revision`: how far the pods are with the target.

use jevmetrics_api::policy::RevisionStatus;

use super::pods::PodView;
use super::workload::Workload;
use crate::conditions::Verdict;
use crate::reconcile::Outcome;

/// How far the pods are.
#[derive(Debug)]
pub(super) struct Rollout<'s> {
    workload: &'s Workload,
    updated: i32,
    ready: i32,
    stuck: Option<&'s PodView>,
}

impl<'s> Rollout<'s> {
    /// `settings` names those of the target; none if the policy does not hold.
    pub(super) fn of(workload: &'s Workload, pods: &'s [PodView], settings: Option<&str>) -> Self {
        let updated = if workload.is_current { workload.updated } else { 0 };
        let on_target: Vec<_> = pods
            .iter()
            .filter(|pod| settings.is_some() && pod.settings.as_deref() == settings)
            .collect();
        let ready = on_target.iter().filter(|pod| pod.is_ready).count();
        Self {
            workload,
            updated,
            // A change of the template alone leaves old pods with the same settings.
            ready: i32::try_from(ready)
                .unwrap_or(i32::MAX)
                .min(updated)
                .min(workload.ready),
            stuck: on_target.into_iter().find(|pod| pod.trouble.is_some()),
        }
    }

    fn is_complete(&self) -> bool {
        let Workload { wanted, replicas, .. } = *self.workload;
        self.workload.is_current && self.updated == wanted && replicas == wanted && self.ready == wanted
    }

    pub(super) fn verdict(&self, outcome: &Outcome) -> Verdict {
        if outcome.invalid.is_some() {
            return Verdict::no(
                "ConfigurationInvalid",
                "the policy does not hold; what ran goes on",
            );
        }
        if let Some(failure) = &outcome.failure {
            return Verdict::no("NotApplied", failure.to_string());
        }
        let Workload { wanted, .. } = *self.workload;
        if !self.workload.exists || !self.workload.is_current {
            return Verdict::no("Progressing", "the Deployment has not taken up the change yet");
        }
        if self.is_complete() {
            return Verdict::yes("Complete", "all pods run the target revision and settings");
        }
        if self.workload.is_paused {
            return Verdict::no(
                "Paused",
                "the Deployment is paused: kubectl rollout resume goes on with it",
            );
        }
        if let Some(message) = &self.workload.failure {
            return Verdict::no("PodsRefused", message.clone());
        }
        if let Some((pod, trouble)) = self.stuck.and_then(|pod| Some((pod, pod.trouble.as_ref()?))) {
            return Verdict::no("PodNotStarting", format!("pod {}: {trouble}", pod.name));
        }
        let counts = format!(
            "{} of {wanted} pods are on the target, {} of them ready",
            self.updated, self.ready
        );
        if self.workload.is_late {
            return Verdict::no("ProgressDeadlineExceeded", counts);
        }
        Verdict::no("Progressing", counts)
    }

    pub(super) fn revision(&self, target: String, pods: &[PodView]) -> RevisionStatus {
        let oldest = pods.iter().find(|pod| pod.is_ready);
        RevisionStatus {
            current: oldest.and_then(|pod| pod.revision.clone()),
            target,
            updated: self.updated,
            ready: self.ready,
            ..RevisionStatus::default()
        }
    }
}
