//! Deletes what a policy does not want any more.
//!
//! Only objects that name the policy's uid as their owner; settings stay as long as a ReplicaSet that may still
//! start pods wants them.

use std::collections::BTreeSet;

use jevmetrics_api::policy::ValidPolicy;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};

use crate::context::Context;
use crate::kinds::Kind;
use crate::memory::Memory;
use crate::render::{Manifest, pod_selector};

pub(super) async fn prune(
    policy: &ValidPolicy,
    wanted: &[Manifest],
    context: &Context,
    memory: &mut Memory,
) -> Result<(), kube::Error> {
    let owned = context.observed.owned_by(policy.uid());
    let mut unwanted: Vec<_> = owned
        .into_iter()
        .filter(|(kind, object)| {
            object.metadata.deletion_timestamp.is_none()
                && object.namespace().as_deref() == Some(policy.namespace())
                && !wanted
                    .iter()
                    .any(|one| one.kind == *kind && one.name == object.name_any())
        })
        .collect();
    if unwanted.is_empty() {
        return Ok(());
    }
    let in_use = settings_in_use(policy, context).await?;
    unwanted.retain(|(kind, object)| *kind != Kind::ConfigMap || !in_use.contains(&object.name_any()));
    for (kind, object) in unwanted {
        let name = object.name_any();
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: object.uid(),
            resource_version: None,
        });
        match kind
            .api(&context.client, policy.namespace())
            .delete(&name, &params)
            .await
        {
            Ok(_) => tracing::info!(kind = kind.name(), name, "deleted: not wanted any more"),
            // Gone, or another object by now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        memory.forget(kind, &name);
    }
    Ok(())
}

/// Names of the ConfigMaps that pods of the policy mount or may mount.
async fn settings_in_use(policy: &ValidPolicy, context: &Context) -> Result<BTreeSet<String>, kube::Error> {
    let api: Api<ReplicaSet> = Api::namespaced(context.client.clone(), policy.namespace());
    let sets = api
        .list(&ListParams::default().labels(&pod_selector(policy.name())))
        .await?;
    Ok(sets
        .iter()
        .filter(|set| has_pods(set))
        .flat_map(config_maps)
        .collect())
}

fn has_pods(set: &ReplicaSet) -> bool {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    wanted > 0 || set.status.as_ref().is_some_and(|status| status.replicas > 0)
}

fn config_maps(set: &ReplicaSet) -> Vec<String> {
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let volumes = template.and_then(|template| template.spec.as_ref()?.volumes.as_ref());
    let names = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.config_map.as_ref());
    names.map(|source| source.name.clone()).collect()
}
