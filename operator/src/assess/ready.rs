//! `Ready`: the data plane serves. A good rollout does not touch it.

use super::pods::PodView;
use super::workload::Workload;
use crate::conditions::Verdict;

pub(super) fn verdict(workload: &Workload, pods: &[PodView]) -> Verdict {
    let Workload { wanted, ready, .. } = *workload;
    if !workload.exists {
        return Verdict::no("NoDeployment", "there is no Deployment");
    }
    if wanted == 0 {
        return Verdict::no("ScaledToZero", "no pods are wanted");
    }
    if ready >= wanted {
        return Verdict::yes("Serving", "all wanted pods are ready");
    }
    let trouble = trouble(pods);
    if ready > 0 {
        return Verdict::yes(
            "SomePodsNotReady",
            format!("{ready} of {wanted} pods are ready{trouble}"),
        );
    }
    Verdict::no("NoPodReady", format!("0 of {wanted} pods are ready{trouble}"))
}

/// The first pod that says why it is not ready.
pub(super) fn trouble(pods: &[PodView]) -> String {
    let stuck = pods.iter().filter(|pod| !pod.is_ready);
    let told = stuck.filter_map(|pod| Some(format!("; pod {}: {}", pod.name, pod.trouble.as_ref()?)));
    told.take(1).collect()
}
