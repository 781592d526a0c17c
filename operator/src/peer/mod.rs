//! Asks the pods of every policy about themselves, every 10 s.
//!
//! Invariants: a pod that does not answer holds up no rollout, and others only for the deadline of a question;
//! the key of the peer port's Secret is read when it is needed and not kept.

mod ask;
mod identity;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use jevmetrics_api::member::Member;
use jevmetrics_api::policy::JevMetricsPolicy;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::transport::ClientTlsConfig;

use crate::context::Context;
use crate::controller::reference_of;
use crate::health::Health;
use crate::observed::{Guarded, is_of_a_replica_set};

pub use self::ask::AskError;

/// Between two polls.
const INTERVAL: Duration = Duration::from_secs(10);
/// Policies whose pods are asked at a time.
const POLICIES_AT_A_TIME: usize = 8;
/// Pods of a policy that are asked at a time.
const PODS_AT_A_TIME: usize = 64;

/// A pod that may answer.
#[derive(Debug, Clone)]
struct Asked {
    pod: String,
    uid: String,
    address: String,
}

/// Pods, by namespace and name of their policy.
type Addresses = HashMap<(String, String), Vec<Asked>>;

/// Asks pods, and tells whose health has changed.
#[derive(Debug)]
pub struct Poller {
    context: Arc<Context>,
    turned: mpsc::Sender<ObjectRef<Guarded>>,
}

impl Poller {
    /// Asks for `context`; names policies whose health has changed to `turned`.
    pub fn new(context: Arc<Context>, turned: mpsc::Sender<ObjectRef<Guarded>>) -> Self {
        Self { context, turned }
    }

    /// Asks until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let polls = async {
            // Pods that are not seen yet would count as silent.
            if self.context.observed.complete().await.is_err() {
                return;
            }
            loop {
                interval.tick().await;
                self.poll().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = polls => {}
        }
    }

    async fn poll(&self) {
        let pods = &self.running_pods();
        let policies = self.context.observed.policies.state();
        let uids: HashSet<_> = policies.iter().filter_map(|policy| policy.uid()).collect();
        if !uids.is_empty() {
            self.context.forget_all_but(&uids);
        }
        stream::iter(policies)
            .for_each_concurrent(POLICIES_AT_A_TIME, async |object| {
                if let Ok(policy) = &object.0 {
                    self.poll_policy(policy, pods).await;
                }
            })
            .await;
    }

    async fn poll_policy(&self, policy: &JevMetricsPolicy, pods: &Addresses) {
        let key = (policy.namespace().unwrap_or_default(), policy.name_any());
        let members = self
            .ask_all(policy, pods.get(&key).cloned().unwrap_or_default())
            .await;
        let uid = policy.uid().unwrap_or_default();
        let health_changed = self.context.health.take_in(&uid, Health::of(&members));
        let voices_changed = self.context.voices.take_in(&uid, &members, Instant::now());
        let changed = health_changed || voices_changed;
        // A full channel means that the controller is far behind; the next look at the policy finds it.
        if changed && self.turned.try_send(reference_of(policy)).is_err() {
            tracing::debug!(policy = key.1, "more policies have turned than can be told");
        }
    }

    /// Every pod that may answer, by namespace and policy.
    fn running_pods(&self) -> Addresses {
        let mut pods = Addresses::new();
        for pod in self.context.observed.pods.state_filter(is_of_a_replica_set) {
            let policy = pod.labels().get(crate::render::POLICY).cloned();
            if let (Some(policy), Some(address)) = (policy, address(&pod)) {
                let key = (pod.namespace().unwrap_or_default(), policy);
                pods.entry(key).or_default().push(Asked {
                    pod: pod.name_any(),
                    uid: pod.uid().unwrap_or_default(),
                    address,
                });
            }
        }
        pods
    }

    async fn ask_all(&self, policy: &JevMetricsPolicy, pods: Vec<Asked>) -> Vec<(String, Member)> {
        if pods.is_empty() {
            return Vec::new();
        }
        let tls = match identity::client_tls(&self.context.client, policy).await {
            Ok(tls) => tls,
            Err(error) => {
                tracing::debug!(%error, policy = policy.name_any(), "pods cannot be asked");
                return Vec::new();
            }
        };
        let answers = stream::iter(pods).map(|asked| {
            let tls = tls.clone();
            async move { self.ask(asked, tls).await }
        });
        let mut members: Vec<_> = answers
            .buffer_unordered(PODS_AT_A_TIME)
            .filter_map(std::future::ready)
            .collect()
            .await;
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members
    }

    async fn ask(&self, asked: Asked, tls: Option<ClientTlsConfig>) -> Option<(String, Member)> {
        let Asked { pod, uid, address } = asked;
        let answer = ask::ask(&address, tls).await;
        let answer = answer.map(|member| Some(member).filter(|member| is_said_by(&uid, member)));
        self.context.metrics.polled(matches!(answer, Ok(Some(_))));
        match answer {
            Ok(Some(member)) => Some((pod, member)),
            Ok(None) => {
                tracing::debug!(pod, "another pod has its address");
                None
            }
            Err(error) => {
                tracing::debug!(%error, pod, "a pod does not say how it is");
                None
            }
        }
    }
}

/// Addresses are given to other pods, and those may be of another policy: who answers must be the one that was asked. One
/// that was not told its uid cannot say it.
fn is_said_by(uid: &str, member: &Member) -> bool {
    member.uid.as_deref().is_none_or(|said| said == uid)
}

/// None while a pod has no address, or will not have one much longer.
fn address(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let is_running = status.phase.as_deref() == Some("Running") && pod.metadata.deletion_timestamp.is_none();
    status.pod_ip.clone().filter(|_| is_running)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn who_has_the_address_of_a_pod_by_now_does_not_speak_for_it() {
        let said = |uid| serde_json::from_value(json!({"id": "a", "epoch": 90, "uid": uid})).unwrap();
        assert!(is_said_by("u", &said(Some("u"))));
        assert!(!is_said_by("u", &said(Some("another"))));
        assert!(is_said_by("u", &said(None)));
    }
}
