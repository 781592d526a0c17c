//! The pods of a data plane.

use jevmetrics_api::policy::ValidPolicy;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, Lifecycle, LifecycleHandler,
    LocalObjectReference, ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceFieldSelector, ResourceRequirements, SeccompProfile, SecurityContext, SleepAction,
    TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::config_maps::SETTINGS_FILE;
use super::metadata::{REVISION, labels, metadata, selector, workload_name};
use super::{Defaults, probes, volumes};

/// A pod counts as available so long after it has settled as a member: others that settle meanwhile join with it.
const AVAILABLE_AFTER_SETTLING_SECONDS: u64 = 5;
/// Old ReplicaSets that are kept for people to look at.
const REVISION_HISTORY: i32 = 3;
/// Draining takes up to 40 s; what is beyond is for slow machines.
const GRACE_SECONDS: i64 = 60;
/// Time for everybody to hear that the pod goes, before it stops to accept.
const SLEEP_BEFORE_STOP_SECONDS: i64 = 5;

pub(super) fn deployment(policy: &ValidPolicy, defaults: &Defaults) -> Deployment {
    Deployment {
        metadata: metadata(policy, workload_name(policy.name())),
        spec: Some(DeploymentSpec {
            replicas: policy.replicas(),
            selector: selector(policy),
            min_ready_seconds: Some(min_ready_seconds(policy)),
            progress_deadline_seconds: Some(600),
            revision_history_limit: Some(REVISION_HISTORY),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::String("10%".to_owned())),
                    max_unavailable: Some(IntOrString::Int(0)),
                }),
            }),
            template: PodTemplateSpec {
                metadata: Some(pod_metadata(policy)),
                spec: Some(pod(policy, defaults)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn min_ready_seconds(policy: &ValidPolicy) -> i32 {
    let seconds = policy.membership().settle().as_secs() + AVAILABLE_AFTER_SETTLING_SECONDS;
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn pod_metadata(policy: &ValidPolicy) -> ObjectMeta {
    let mut all = policy.template().labels.clone().unwrap_or_default();
    all.extend(labels(policy));
    all.insert(REVISION.to_owned(), policy.revision().to_owned());
    ObjectMeta {
        labels: Some(all),
        annotations: policy.template().annotations.clone(),
        ..ObjectMeta::default()
    }
}

fn pod(policy: &ValidPolicy, defaults: &Defaults) -> PodSpec {
    let template = policy.template();
    let pull_secrets = template.image_pull_secrets.iter();
    PodSpec {
        service_account_name: Some(workload_name(policy.name())),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(65_532),
            run_as_group: Some(65_532),
            fs_group: Some(65_532),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(policy, defaults)],
        volumes: Some(volumes::volumes(policy)),
        image_pull_secrets: Some(
            pull_secrets
                .map(|secret| LocalObjectReference {
                    name: secret.name.clone(),
                })
                .collect(),
        )
        .filter(|secrets: &Vec<_>| !secrets.is_empty()),
        node_selector: template.node_selector.clone(),
        tolerations: template.tolerations.clone(),
        affinity: template.affinity.clone(),
        topology_spread_constraints: template.topology_spread_constraints.as_ref().map(|constraints| {
            let of_policy = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
                label_selector: constraint
                    .label_selector
                    .clone()
                    .or_else(|| Some(selector(policy))),
                ..constraint.clone()
            };
            constraints.iter().map(of_policy).collect()
        }),
        priority_class_name: template.priority_class_name.clone(),
        ..PodSpec::default()
    }
}

fn container(policy: &ValidPolicy, defaults: &Defaults) -> Container {
    let template = policy.template();
    Container {
        name: "dataplane".to_owned(),
        image: Some(template.image.clone().unwrap_or_else(|| defaults.image.clone())),
        args: Some(vec![
            "--settings".to_owned(),
            format!("{}/{SETTINGS_FILE}", volumes::SETTINGS_DIRECTORY),
        ]),
        env: Some(vec![
            field("JEVMETRICS_POD_NAME", "metadata.name"),
            field("JEVMETRICS_POD_UID", "metadata.uid"),
            field("JEVMETRICS_NODE_NAME", "spec.nodeName"),
            memory_limit(),
            // Whose routing table is theirs: a name can be given again, a uid cannot.
            EnvVar {
                name: "JEVMETRICS_POLICY_UID".to_owned(),
                value: Some(policy.uid().to_owned()),
                value_from: None,
            },
        ]),
        ports: Some(vec![
            port("otlp-grpc", 4317),
            port("otlp-http", 4318),
            port("peer", 4319),
            port(probes::PORT, 9464),
        ]),
        resources: Some(template.resources.clone().unwrap_or_else(resources)),
        readiness_probe: Some(probes::readiness()),
        liveness_probe: Some(probes::liveness()),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction {
                    seconds: SLEEP_BEFORE_STOP_SECONDS,
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            ..SecurityContext::default()
        }),
        // What a pod says at its end is seen in its status.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(volumes::mounts(policy)),
        ..Container::default()
    }
}

fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                // Written, for Kubernetes fills it in: an apply must not differ from what is stored.
                api_version: Some("v1".to_owned()),
                field_path: path.to_owned(),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// So much memory the process reckons with: the container's limit, without one that of the node.
fn memory_limit() -> EnvVar {
    EnvVar {
        name: "JEVMETRICS_MEMORY_LIMIT".to_owned(),
        value_from: Some(EnvVarSource {
            resource_field_ref: Some(ResourceFieldSelector {
                resource: "limits.memory".to_owned(),
                // Written, as above.
                divisor: Some(Quantity("1".to_owned())),
                ..ResourceFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn port(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// No limit on CPU: a throttled pod holds up its senders.
fn resources() -> ResourceRequirements {
    let quantities = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        Some(
            pairs
                .map(|(name, quantity)| ((*name).to_owned(), Quantity((*quantity).to_owned())))
                .collect(),
        )
    };
    ResourceRequirements {
        requests: quantities(&[("cpu", "100m"), ("memory", "128Mi")]),
        limits: quantities(&[("memory", "512Mi")]),
        ..ResourceRequirements::default()
    }
}
