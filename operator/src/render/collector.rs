//! For a tier of OpenTelemetry Collectors in front of the pods, which routes: the exporter's part of its configuration,
//! and the Service by which it finds the pods. Only with the affinity `Upstream`.
//!
//! ```text
//! senders ─▶ Collectors, load_balancing ──one resource, one pod──▶ pods ─▶ backend
//!                     └──which pods are ready?──▶ DNS of <policy>-members
//! ```
//! Written for contrib's `loadbalancingexporter`, which is called `load_balancing` there, at version 0.161. What of our
//! affinity it keeps is in `docs/topologies.md`.
//!
//! Two decisions of the exporter's make its defaults lose data, so they are not left to it:
//! - What waits in the queue of one pod is lost when that pod goes. So nothing waits there: the one queue is in front of
//!   the ring, and what leaves it is routed anew at each attempt.
//! - An attempt that failed at one pod is repeated as a whole, at all pods. So each share is tried for a while at its own
//!   pod first: that a pod which goes is forgotten takes as long.

use std::time::Duration;

use jevmetrics_api::policy::ValidPolicy;
use jevmetrics_api::routing::{Affinity, KeySource};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceSpec};
use serde_json::{Value, json};

use super::metadata::{metadata, selector};
use super::service::{OTLP_GRPC_PORT, otlp_grpc, service_name};

/// The one key of the `ConfigMap`: a file for `--config` of a Collector.
pub const COLLECTOR_FILE: &str = "collector.yaml";

/// A pod has so long, beyond what it waits itself, to say what became of a share.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);
/// Shares of a request are sent one after the other: so many slow ones fit in one attempt.
const SLOW_PODS: u32 = 6;
/// How often addresses are looked up.
const LOOK_UP: &str = "2s";
/// Longer than a pod that goes is found in DNS: 5 s in the cache of the server, 5 s in one on the node, and a look-up.
const TRY_ONE_POD_FOR: &str = "15s";
/// As long as the archive's Collector in the documents.
const TRY_FOR: &str = "30m";
/// Requests in the queue.
const QUEUE: u32 = 5000;

/// What is there for a tier in front.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    /// Resolves to the pods that are ready.
    pub(super) members: Service,
    /// What the tier is told.
    pub(super) routing: ConfigMap,
}

/// Name of the Service that resolves to the pods of a policy.
pub fn members_name(policy: &str) -> String {
    format!("{policy}-members")
}

/// Name of the `ConfigMap` with the exporter of a policy.
pub fn collector_routing_name(policy: &str) -> String {
    format!("{policy}-collector-routing")
}

/// What a pipeline calls the exporter of a policy.
pub fn exporter_name(policy: &str) -> String {
    format!("load_balancing/{policy}")
}

/// None unless a tier in front routes.
pub(super) fn upstream(policy: &ValidPolicy) -> Option<Upstream> {
    (policy.membership().affinity() == Affinity::Upstream).then(|| Upstream {
        members: members(policy),
        routing: ConfigMap {
            metadata: metadata(policy, collector_routing_name(policy.name())),
            data: Some([(COLLECTOR_FILE.to_owned(), configuration(policy))].into()),
            ..ConfigMap::default()
        },
    })
}

/// Without an address of its own: its name resolves to those of its pods. Only ready ones, so one that is to go is not
/// looked up any more while it still serves, and one that starts is not before it does.
fn members(policy: &ValidPolicy) -> Service {
    Service {
        metadata: metadata(policy, members_name(policy.name())),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: selector(policy).match_labels,
            ports: Some(vec![otlp_grpc()]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn configuration(policy: &ValidPolicy) -> String {
    let name = exporter_name(policy.name());
    let exporters = json!({"exporters": {name.as_str(): exporter(policy)}});
    // YAML has no document that this is not; JSON is YAML too.
    let exporters = serde_yaml::to_string(&exporters).unwrap_or_else(|_| exporters.to_string());
    format!(
        "# Written by the operator: a further --config of OpenTelemetry Collectors (contrib 0.161) in front of the pods.\n\
         # Their pipeline for metrics has to name {name}.\n{exporters}"
    )
}

fn exporter(policy: &ValidPolicy) -> Value {
    let one_pod = policy.export_timeout() + ANSWER_MARGIN;
    let members = format!("{}.{}.svc", members_name(policy.name()), policy.namespace());
    let mut exporter = json!({
        "protocol": {"otlp": {
            "timeout": seconds(one_pod),
            "tls": tls(policy),
            "sending_queue": {"enabled": false},
            "retry_on_failure": {
                "initial_interval": "1s",
                "max_interval": "5s",
                "max_elapsed_time": TRY_ONE_POD_FOR,
            },
        }},
        "resolver": {"dns": {
            "hostname": members,
            "port": OTLP_GRPC_PORT.to_string(),
            "interval": LOOK_UP,
        }},
        // 5 s if it is not said.
        "timeout": seconds(one_pod * SLOW_PODS),
        "sending_queue": {"queue_size": QUEUE},
        // None of these has a default here.
        "retry_on_failure": {
            "enabled": true,
            "initial_interval": "1s",
            "randomization_factor": 0.5,
            "multiplier": 1.5,
            "max_interval": "30s",
            "max_elapsed_time": TRY_FOR,
        },
    });
    match policy.membership().key() {
        // By "service" those without service.name would be lost, and by attributes those that lack one are taken to pieces.
        KeySource::Source => exporter["routing_key"] = json!("resource"),
        KeySource::Context(names) | KeySource::Listed(names) => {
            exporter["routing_key"] = json!("attributes");
            exporter["routing_attributes"] = json!(names);
        }
    }
    exporter
}

/// Pods are connected to by address; certificates name the Service.
fn tls(policy: &ValidPolicy) -> Value {
    if policy.serves_tls() {
        let name = format!("{}.{}.svc", service_name(policy.name()), policy.namespace());
        json!({"insecure": false, "server_name_override": name})
    } else {
        json!({"insecure": true})
    }
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_millis().div_ceil(1000))
}

#[cfg(test)]
mod tests;
