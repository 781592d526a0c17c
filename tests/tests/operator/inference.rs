//! `InferenceHealthy` is what the pods say when they are asked, twice the same.

use std::sync::Arc;

use jevmetrics_api::member::BudgetState;
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
use crate::voices::{MODEL, Says, VERSION, Voices};

/// Pods that speak, before anybody asks them.
pub(crate) async fn stage_with(
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
    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let pods = self.pods.list(&ListParams::default()).await.unwrap();
        let mut names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// Waits until the pods of the target were heard.
    pub(crate) async fn versioned(&self) {
        self.has_version(VERSION).await;
    }

    async fn has_version(&self, wanted: &str) {
        let look = async || match self.revision("jm").await.assessment_version {
            Some(version) if version == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        };
        self.eventually(&format!("version {wanted}"), look).await;
    }

    pub(crate) async fn healthy(&self) {
        self.condition("jm", "InferenceHealthy", "True", "Healthy").await;
        let status = self.policies.get("jm").await.unwrap().status.unwrap();
        assert_eq!(status.inference.unwrap().model.as_deref(), Some(MODEL));
        let version = status.revision.unwrap().assessment_version;
        assert_eq!(version.as_deref(), Some(VERSION));
    }
}

pub(crate) async fn asked_again(voices: &Voices, pod: &str, times: u64) {
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

    let mark = stage.calm(&operator).await;
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

/// *Scenario*: one of two pods has had more instruments than its budget for 10 min; the budget is raised; the pod catches
/// up. Then it tells another version of assessments than the other pod.
/// *Guarantees*: asking is healthy all the while; the message has the budget of the spec; the status says `mixed`.
#[tokio::test]
async fn a_budget_that_is_too_small_is_said_and_pods_that_differ_are_mixed() {
    let (stage, operator, voices) = stage_with("small", |_| None).await;
    let mut spec = with_replicas(2);
    spec["inference"] = json!({"requestsPerSecondPerReplica": 20, "scoreTTLSeconds": 600});
    stage.apply("jm", &spec).await;
    stage.rolled_out("jm").await;
    stage.healthy().await;
    let pods = stage.pod_names().await;
    voices.budget(&pods[1], BudgetState::TooSmall);
    let message = stage
        .condition("jm", "InferenceHealthy", "True", "BudgetTooSmall")
        .await;
    for part in ["20 questions per second of each pod", "600 s", "enough for 12000"] {
        assert!(message.contains(part), "{message}");
    }
    stage.event("jm", "BudgetTooSmall").await;
    voices.budget(&pods[1], BudgetState::Enough);
    stage.healthy().await;

    voices.version(&pods[1], "another");
    stage.has_version("mixed").await;
    let mark = stage.calm(&operator).await;
    asked_again(&voices, &pods[1], 3).await;
    assert_eq!(stage.writes(&operator, mark), [], "the same again");
    voices.version(&pods[1], "");
    stage.versioned().await;
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
