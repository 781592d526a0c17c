//! `InferenceHealthy` is what the pods say when they are asked, twice the same.

use std::sync::Arc;

use jevmetrics_api::peer::SERVER_NAME;
use jevmetrics_testkit::certificates::Authority;
use jevmetrics_testkit::cluster::{HollowNodes, Operator};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use rustls::ServerConfig;
use serde_json::{Value, json};

use crate::policies::with_replicas;
use crate::stage::{Stage, WITHIN};
use crate::voices::{MODEL, Says, Voices};

/// A policy `jm` whose pods speak, before anybody asks them.
async fn stage_with(
    prefix: &str,
    tls: impl FnOnce(&Stage) -> Option<Arc<ServerConfig>>,
) -> (Stage, Operator, Voices) {
    let stage = Stage::new(prefix).await;
    let voices = Voices::default();
    voices.give(
        HollowNodes::shared().await.unwrap(),
        &stage.namespace,
        tls(&stage),
    );
    let operator = stage.operator().await;
    (stage, operator, voices)
}

impl Stage {
    async fn pod_names(&self) -> Vec<String> {
        let pods = self.pods.list(&ListParams::default()).await.unwrap();
        let mut names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    pub(crate) async fn healthy(&self) {
        self.condition("jm", "InferenceHealthy", "True", "Healthy").await;
        let status = self.policies.get("jm").await.unwrap().status.unwrap();
        assert_eq!(status.inference.unwrap().model.as_deref(), Some(MODEL));
    }
}

async fn asked_again(voices: &Voices, pod: &str, times: u64) {
    let before = voices.asked(pod);
    poll::until("polls", WITHIN, || voices.asked(pod) >= before + times)
        .await
        .unwrap();
}

/// *Scenario*: one of two pods fails, once; then for good; recovers; then no pod answers.
/// *Guarantees*: a single odd poll writes nothing; two equal ones turn the condition, which names the pod and the cause.
#[tokio::test]
async fn inference_healthy_follows_two_equal_polls() {
    let (stage, operator, voices) = stage_with("healthy", |_| None).await;
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;
    stage.healthy().await;
    let pods = stage.pod_names().await;
    let first = stage.plane.audit_mark().unwrap();
    stage.settled(&operator, first).await;

    let mark = stage.plane.audit_mark().unwrap();
    for odd in [Says::Failing, Says::Nothing] {
        voices.say_once(&pods[0], odd);
        voices.say_once(&pods[1], odd);
        asked_again(&voices, &pods[1], 3).await;
    }
    assert_eq!(stage.writes(&operator, mark), [], "one odd poll");

    voices.say(&pods[1], Says::Failing);
    let message = stage
        .condition("jm", "InferenceHealthy", "False", "NoAnswers")
        .await;
    assert!(
        message.contains(&pods[1]) && message.contains("timeout"),
        "{message}"
    );
    voices.say(&pods[1], Says::Healthy);
    stage.healthy().await;
    voices.all_say(Says::Nothing);
    stage
        .condition("jm", "InferenceHealthy", "Unknown", "NoPodAnswers")
        .await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    voices.all_say(Says::Healthy);
    stage.healthy().await;
}

/// Two pods that are asked over mutual TLS.
pub(crate) fn with_tls() -> Value {
    json!({
        "replicas": 2,
        "export": {"endpoint": "http://sink.invalid:4317"},
        "routing": {"tls": {"secretName": "peer-tls"}},
    })
}

/// The Secret that [`with_tls`] names.
pub(crate) async fn put_pair(stage: &Stage, authority: &Authority) {
    let (certificate, key) = authority.pair("tls", SERVER_NAME);
    let text = |path| std::fs::read_to_string(path).unwrap();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "peer-tls"},
        "stringData": {"tls.crt": text(certificate), "tls.key": text(key), "ca.crt": text(authority.ca_file())},
    });
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let params = PatchParams::apply("user").force();
    secrets
        .patch("peer-tls", &params, &Patch::Apply(&secret))
        .await
        .unwrap();
}

/// *Scenario*: pods that answer only over mutual TLS; the Secret gets the pair of an authority that they do not know,
/// and then one that they know again.
/// *Guarantees*: they are asked with the pair that the Secret has at that time.
#[tokio::test]
async fn pods_with_mutual_tls_are_asked_with_the_pair_of_the_secret() {
    let (authority, stranger) = (Authority::new().unwrap(), Authority::new().unwrap());
    let server = authority.mutual_server(SERVER_NAME).unwrap();
    let (stage, operator, voices) = stage_with("mutual", |_| Some(server)).await;
    put_pair(&stage, &authority).await;
    stage.apply("jm", &with_tls()).await;
    stage.rolled_out("jm").await;
    stage.healthy().await;
    put_pair(&stage, &stranger).await;
    stage
        .condition("jm", "InferenceHealthy", "Unknown", "NoPodAnswers")
        .await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    let asked = voices.asked(&stage.pod_names().await[0]);
    put_pair(&stage, &authority).await;
    stage.healthy().await;
    assert!(voices.asked(&stage.pod_names().await[0]) > asked);
    drop(operator);
}
