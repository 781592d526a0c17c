//! Pods share over Redis: what the operator gives them for it, and what it says of it. It never asks a Redis itself:
//! what pods say is made up here.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use jevmetrics_api::live::{Budget, LivePolicy};
use jevmetrics_api::member::{CoordinationReport, CoordinationState};
use jevmetrics_api::policy::CoordinationStatus;
use jevmetrics_api::settings::DataPlaneSettings;
use jevmetrics_testkit::cluster::Operator;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::inference::{asked_again, stage_with};
use crate::interrupted::{Mortal, client, term};
use crate::stage::{Stage, changed};
use crate::trouble::put_secret;
use crate::voices::{Says, Voices};

/// Two pods that share over a Redis that nobody finds.
pub(crate) fn sharing() -> Value {
    json!({
        "replicas": 2,
        "export": {"endpoint": "http://sink.invalid:4317"},
        "coordination": {"host": "redis.invalid"},
    })
}

/// What a pod of a policy in `namespace` says.
fn report(namespace: &str, state: CoordinationState, generation: u32) -> CoordinationReport {
    CoordinationReport {
        namespace: namespace.to_owned(),
        state,
        reason: None,
        generation,
        highest_generation: generation,
        eviction_policy: Some("noeviction".to_owned()),
    }
}

fn with_reason(mut report: CoordinationReport, reason: &str) -> CoordinationReport {
    report.reason = Some(reason.to_owned());
    report
}

impl Stage {
    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn live_text(&self) -> Result<String, String> {
        let object = self.config_maps().get("jm-live").await;
        let object = object.map_err(|error| error.to_string())?;
        Ok(object.data.unwrap_or_default()["policy"].clone())
    }

    /// Waits until the live object has so many questions in a second and another or the same generation.
    async fn budget(&self, per_second: u32, generation: impl Fn(u32) -> bool) -> Budget {
        let look = async || {
            let text = self.live_text().await?;
            let budget = *LivePolicy::from_policy_yaml(&text)
                .map_err(|error| error.to_string())?
                .budget();
            let is_wanted =
                budget.requests_per_second().get() == per_second && generation(budget.generation());
            if is_wanted { Ok(budget) } else { Err(text) }
        };
        self.eventually(&format!("{per_second} questions in a second"), look)
            .await
    }

    async fn coordination_status(&self) -> Option<CoordinationStatus> {
        self.policies.get("jm").await.unwrap().status?.coordination
    }

    /// Waits until the status has this generation; gives the name under which pods share.
    async fn counted(&self, generation: Option<i64>) -> String {
        let look = async || match self.coordination_status().await {
            Some(status) if status.generation == generation => Ok(status.namespace),
            other => Err(format!("{other:?}")),
        };
        self.eventually(&format!("generation {generation:?} in the status"), look)
            .await
    }

    async fn wipe_status(&self) {
        let wipe = json!({"status": null});
        self.policies
            .patch_status("jm", &PatchParams::default(), &Patch::Merge(&wipe))
            .await
            .unwrap();
    }

    async fn delete_live(&self) {
        let params = DeleteParams::default();
        self.config_maps().delete("jm-live", &params).await.unwrap();
    }

    /// What makes a rollout if it changes.
    async fn template(&self) -> Value {
        let deployment = self.deployments.get("jm-dataplane").await.unwrap();
        json!(deployment.spec.unwrap().template)
    }

    async fn events_of(&self, reason: &str) -> usize {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_reason = all.iter().filter(|event| event.reason.as_deref() == Some(reason));
        // What is repeated is folded into one.
        of_reason
            .map(|event| {
                let again = event.series.as_ref().map_or(0, |series| series.count);
                usize::try_from(again).unwrap().max(1)
            })
            .sum()
    }
}

/// A policy `jm` that shares, with pods that have taken up its budget; and the name under which they share.
async fn settled(prefix: &str) -> (Stage, Operator, Voices, String) {
    let (stage, operator, voices) = stage_with(prefix, |_| None).await;
    stage.apply("jm", &sharing()).await;
    stage.rolled_out("jm").await;
    let namespace = stage.counted(Some(1)).await;
    voices.all_share(Some(&report(&namespace, CoordinationState::Healthy, 1)));
    stage
        .condition("jm", "CoordinationHealthy", "True", "Healthy")
        .await;
    stage.healthy().await;
    stage.calm(&operator).await;
    (stage, operator, voices, namespace)
}

/// A Redis that counts who connects.
async fn watched_redis() -> (u16, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, visitors) = (socket.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&visitors);
    tokio::spawn(async move {
        while socket.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, visitors)
}

/// *Scenario*: under pods that share, the numbers of the budget are patched one after the other; pods take the change up;
/// then the mode is patched.
/// *Guarantees*: each change is in the live object within seconds, with the next generation, in one write beside that of
/// the status; nothing rolls; what pods say of it leads to no write; another change is not counted. Nobody has connected
/// to the Redis.
#[tokio::test]
async fn a_changed_budget_acts_at_once_is_counted_and_rolls_nothing() {
    let (port, visitors) = watched_redis().await;
    let (stage, operator, voices, namespace) = settled("budget").await;
    stage
        .patch(
            "jm",
            &json!({"coordination": {"host": "127.0.0.1", "port": port}}),
        )
        .await;
    stage.rolled_out("jm").await;
    // The last thing that pods of a new template are asked for.
    stage.versioned().await;
    let template = stage.template().await;
    let pods = stage.pod_names().await;
    let budget = stage.budget(10, |generation| generation == 1).await;
    assert_eq!(
        (budget.lease(), budget.max_in_flight().get()),
        (Duration::from_secs(10), 4)
    );
    stage.calm(&operator).await;

    let changes = [
        ("requestsPerSecond", 20, 20),
        ("maxInFlight", 8, 20),
        ("leaseTTLSeconds", 30, 20),
    ];
    for (generation, (number, value, per_second)) in (2..).zip(changes) {
        let mark = stage.plane.audit_mark().unwrap();
        let patched = Instant::now();
        stage.patch("jm", &json!({"coordination": {number: value}})).await;
        stage.budget(per_second, |found| found == generation).await;
        println!("{number}: in the live object after {:?}", patched.elapsed());
        assert!(
            stage
                .live_text()
                .await
                .unwrap()
                .contains(&format!("{number}: {value}\n"))
        );
        stage.counted(Some(generation.into())).await;
        let writes = changed(&stage.settled(&operator, mark).await);
        let wanted = [
            "patch configmaps/ jm-live 200",
            "patch jevmetricspolicies/status jm 200",
        ];
        let routing = stage.policies.get("jm").await.unwrap().status.unwrap().routing;
        assert_eq!(writes, wanted, "{number}: {routing:?}");

        let mark = stage.plane.audit_mark().unwrap();
        voices.all_share(Some(&report(&namespace, CoordinationState::Healthy, generation)));
        asked_again(&voices, &pods[0], 3).await;
        assert_eq!(stage.settled(&operator, mark).await, [], "pods have taken it up");
    }
    stage.patch("jm", &json!({"mode": "Reduce"})).await;
    let reduced = async || match stage.live_text().await? {
        text if text.contains("mode: Reduce") => Ok(()),
        text => Err(text),
    };
    stage.eventually("the mode", reduced).await;
    stage.budget(20, |generation| generation == 4).await;
    assert_eq!(stage.template().await, template);
    assert_eq!(stage.pod_names().await, pods);
    assert_eq!(visitors.load(Ordering::SeqCst), 0, "the operator asks no Redis");
}

/// *Scenario*: the status is wiped, alone, and while no operator runs and the budget is changed; the live object is
/// deleted, edited, and put back to an older one.
/// *Guarantees*: the generation stays where nothing has changed, and is else above all that was there before.
#[tokio::test]
async fn what_is_lost_or_edited_is_healed_and_the_generation_never_falls() {
    let (stage, operator, voices, namespace) = settled("healed").await;
    stage
        .patch("jm", &json!({"coordination": {"requestsPerSecond": 20}}))
        .await;
    stage.counted(Some(2)).await;
    let older = stage.live_text().await.unwrap();
    stage.wipe_status().await;
    stage.counted(Some(2)).await;
    stage.budget(20, |generation| generation == 2).await;

    assert!(operator.stop().await.unwrap().success());
    stage.wipe_status().await;
    stage
        .patch("jm", &json!({"coordination": {"requestsPerSecond": 30}}))
        .await;
    let operator = stage.operator().await;
    stage.budget(30, |generation| generation == 3).await;
    stage.counted(Some(3)).await;

    stage.delete_live().await;
    stage.budget(30, |generation| generation == 4).await;
    stage.counted(Some(4)).await;
    let note = stage.event("jm", "Recreated").await;
    assert!(note.contains("jm-live"), "{note}");

    let edit = async |text: &str| {
        let patch = json!({"data": {"policy": text}});
        let params = PatchParams::default();
        let maps = stage.config_maps();
        maps.patch("jm-live", &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    };
    // A pod may have taken up either.
    edit(&older).await;
    stage.budget(30, |generation| generation == 5).await;
    edit("not: a policy").await;
    stage.budget(30, |generation| generation == 6).await;
    stage.counted(Some(6)).await;
    let note = stage.event("jm", "Repaired").await;
    assert!(note.contains("jm-live"), "{note}");

    voices.all_share(Some(&report(&namespace, CoordinationState::Healthy, 6)));
    // The status was wiped: what pods say comes into it anew.
    stage.healthy().await;
    stage
        .condition("jm", "CoordinationHealthy", "True", "Healthy")
        .await;
    let mark = stage.calm(&operator).await;
    asked_again(&voices, &stage.pod_names().await[0], 3).await;
    assert_eq!(stage.settled(&operator, mark).await, [], "all agree");
}

/// *Scenario*: while no operator runs, status and live object are lost; pods remember generation 5 and have seen 7. Pods
/// that are asked in another namespace have seen 40.
/// *Guarantees*: the next operator ends above what pods of this namespace have seen, and settles there.
#[tokio::test]
async fn what_only_pods_remember_is_not_fallen_below() {
    let (stage, operator, voices, namespace) = settled("remember").await;
    let pods = stage.pod_names().await;
    let mut seen = report(&namespace, CoordinationState::Superseded, 5);
    seen.highest_generation = 7;
    let other = report("elsewhere", CoordinationState::Healthy, 40);
    assert!(operator.stop().await.unwrap().success());
    voices.share(&pods[0], seen);
    voices.share(&pods[1], other);
    stage.wipe_status().await;
    stage.delete_live().await;

    let operator = stage.operator().await;
    stage.budget(10, |generation| generation == 8).await;
    stage.counted(Some(8)).await;
    voices.all_share(Some(&report(&namespace, CoordinationState::Pending, 8)));
    stage
        .condition("jm", "CoordinationHealthy", "True", "BudgetPending")
        .await;
    let mark = stage.calm(&operator).await;
    asked_again(&voices, &pods[0], 3).await;
    assert_eq!(stage.settled(&operator, mark).await, [], "it has settled");
}

/// *Scenario*: two policies name one namespace; the budget of one is changed; then it names none any more.
/// *Guarantees*: nothing is counted in a namespace that is named; each policy has one of its own otherwise.
#[tokio::test]
async fn in_a_namespace_that_is_named_nothing_is_counted() {
    let (stage, _operator) = Stage::with_operator("named").await;
    let mut spec = sharing();
    spec["replicas"] = json!(0);
    spec["coordination"]["namespace"] = json!("team/shop");
    for name in ["jm", "other"] {
        stage.apply(name, &spec).await;
        stage.rolled_out(name).await;
    }
    assert_eq!(stage.counted(None).await, "team/shop");
    let text = stage.live_text().await.unwrap();
    assert!(
        text.contains("requestsPerSecond: 10") && !text.contains("generation"),
        "{text}"
    );
    stage
        .patch("jm", &json!({"coordination": {"requestsPerSecond": 20}}))
        .await;
    stage.budget(20, |generation| generation == 0).await;
    assert!(!stage.live_text().await.unwrap().contains("generation"));

    for name in ["jm", "other"] {
        stage
            .patch(name, &json!({"coordination": {"namespace": null}}))
            .await;
        stage.observed(name).await;
    }
    let of = async |name: &str| {
        let policy = stage.policies.get(name).await.unwrap();
        policy.status.unwrap().coordination.unwrap()
    };
    let both = [of("jm").await, of("other").await];
    let names: BTreeSet<_> = both.iter().map(|status| status.namespace.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for (status, name) in both.iter().zip(["jm", "other"]) {
        let prefix = format!("{}/{name}/", stage.namespace);
        assert!(status.namespace.starts_with(&prefix), "{}", status.namespace);
        assert_eq!(status.generation, Some(1));
    }
    stage.budget(20, |generation| generation == 1).await;
}

/// *Scenario*: pods say each thing that they can say of sharing; one that fails words its trouble anew each time.
/// *Guarantees*: one odd poll writes nothing; the condition has the reason and names the pod with its words; an evicting
/// policy is warned of once, not at each poll.
#[tokio::test]
async fn coordination_healthy_is_what_pods_say() {
    use CoordinationState::{Failing, Healthy, Idle, Mismatch, Pending, Superseded};
    let (stage, operator, voices, namespace) = settled("shares").await;
    let pods = stage.pod_names().await;
    let says = |state| report(&namespace, state, 1);
    let turned = async |status: &str, reason: &str| {
        let message = stage.condition("jm", "CoordinationHealthy", status, reason).await;
        println!("{status} {reason}: {message}");
        message
    };
    voices.share(&pods[1], with_reason(says(Failing), "timeout"));
    let message = turned("False", "RedisUnavailable").await;
    assert!(
        message.contains(&pods[1]) && message.contains("timeout"),
        "{message}"
    );
    let mark = stage.calm(&operator).await;
    for words in ["closed", "timeout", "closed"] {
        voices.share(&pods[1], with_reason(says(Failing), words));
        asked_again(&voices, &pods[1], 1).await;
    }
    voices.share(&pods[1], with_reason(says(Failing), "timeout"));
    asked_again(&voices, &pods[1], 2).await;
    assert_eq!(stage.writes(&operator, mark), [], "other words");
    stage.healthy().await;
    stage.condition("jm", "Ready", "True", "Serving").await;

    let both = "10 s, 4, 10 here and 10 s, 4, 20 there";
    voices.share(&pods[1], with_reason(says(Mismatch), both));
    let message = turned("False", "BudgetMismatch").await;
    assert!(message.contains(&pods[1]) && message.contains(both), "{message}");
    voices.share(&pods[1], says(Pending));
    turned("True", "BudgetPending").await;
    let mark = stage.calm(&operator).await;
    voices.share(&pods[1], says(Superseded));
    asked_again(&voices, &pods[1], 3).await;
    assert_eq!(stage.writes(&operator, mark), [], "it is the same for people");
    voices.share(&pods[1], says(Idle));
    turned("True", "Healthy").await;
    let mut evicts = says(Healthy);
    evicts.eviction_policy = Some("allkeys-lru".to_owned());
    voices.share(&pods[0], evicts);
    let message = turned("True", "EvictingPolicy").await;
    assert!(message.contains("allkeys-lru"), "{message}");
    stage.event("jm", "EvictingPolicy").await;
    let mark = stage.calm(&operator).await;
    asked_again(&voices, &pods[0], 3).await;
    assert_eq!(stage.writes(&operator, mark), [], "the same again");
    assert_eq!(stage.events_of("EvictingPolicy").await, 1);

    voices.all_say(Says::Nothing);
    turned("Unknown", "NoPodAnswers").await;
    voices.all_say(Says::Healthy);
    voices.all_share(None);
    stage.healthy().await;
    turned("Unknown", "NoPodAnswers").await;
    voices.all_share(Some(&says(Healthy)));
    turned("True", "Healthy").await;
}

/// *Scenario*: `coordination` is taken out of a policy and put in again, with a password that is not there.
/// *Guarantees*: settings, live object, condition and status have nothing of it left; then they have it again; without the
/// password pods start, and the condition names it.
#[tokio::test]
async fn without_coordination_nothing_is_left_of_it_and_a_missing_password_holds_up_nothing() {
    let (stage, _operator, voices, namespace) = settled("without").await;
    let settings = async || {
        let maps = stage.config_maps().list(&ListParams::default()).await;
        let maps = maps.map_err(|error| error.to_string())?;
        let mut texts = maps
            .iter()
            .filter(|map| map.name_any().starts_with("jm-settings-"))
            .map(|map| map.data.as_ref().unwrap()["settings.yaml"].clone());
        match (texts.next(), texts.next()) {
            (Some(text), None) => Ok(text),
            other => Err(format!("{other:?}")),
        }
    };
    let only = "the settings of the target alone";
    let with = stage.eventually(only, settings).await;
    let read = DataPlaneSettings::from_yaml(&with).unwrap();
    assert_eq!(read.coordination().unwrap().namespace(), namespace);

    stage.patch("jm", &json!({"coordination": null})).await;
    stage.rolled_out("jm").await;
    let without = stage.eventually(only, settings).await;
    assert!(
        DataPlaneSettings::from_yaml(&without)
            .unwrap()
            .coordination()
            .is_none()
    );
    let text = stage.live_text().await.unwrap();
    assert!(!text.contains("coordination"), "{text}");
    let status = stage.policies.get("jm").await.unwrap().status.unwrap();
    assert_eq!(status.coordination, None);
    let types: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(
        types,
        [
            "Ready",
            "RolledOut",
            "ConfigurationValid",
            "InferenceHealthy",
            "RoutingConverged"
        ]
    );

    let mut spec = sharing();
    spec["coordination"]["user"] = json!("jevmetrics");
    spec["coordination"]["passwordSecretRef"] = json!({"name": "redis", "key": "password"});
    stage.apply("jm", &spec).await;
    let message = stage
        .condition("jm", "ConfigurationValid", "False", "SecretNotFound")
        .await;
    assert_eq!(
        message,
        "spec.coordination.passwordSecretRef: Secret redis must exist; pods serve without it and keep everything"
    );
    stage.rolled_out("jm").await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    // The pods that were there have seen generation 1, and say so until they are asked again.
    assert_eq!(stage.counted(Some(2)).await, namespace);
    voices.all_share(Some(&report(&namespace, CoordinationState::Healthy, 2)));
    stage
        .condition("jm", "CoordinationHealthy", "True", "Healthy")
        .await;
    put_secret(&stage, "redis", &json!({"password": "p"})).await;
    stage.condition("jm", "ConfigurationValid", "True", "Valid").await;
}

/// *Scenario*: two operators look after one policy, neither of which a Lease holds back, and what one of them writes
/// arrives late; meanwhile the budget changes a dozen times.
/// *Guarantees*: no two budgets ever have one generation, and it never falls; in the end all agree.
#[tokio::test]
async fn two_operators_at_a_moment_never_give_two_budgets_one_generation() {
    let stage = Stage::new("both").await;
    let mut spec = sharing();
    spec["replicas"] = json!(0);
    stage.apply("jm", &spec).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = tokio::spawn(watch_budgets(stage.config_maps(), Arc::clone(&seen)));
    let stop = CancellationToken::new();
    let mut running = Vec::new();
    for on_the_way in [0, 300] {
        let life = Mortal::slow(Duration::from_millis(on_the_way));
        let operator = term(&stage, client(&stage, &life).await);
        running.push(tokio::spawn(operator.run(stop.clone())));
    }
    stage.counted(Some(1)).await;
    for per_second in 11..=22 {
        stage
            .patch("jm", &json!({"coordination": {"requestsPerSecond": per_second}}))
            .await;
        // Some changes come before the last one was taken up, others after.
        tokio::time::sleep(Duration::from_millis(250 * (per_second % 4))).await;
    }
    let last = stage.budget(22, |_| true).await;
    stage.counted(Some(last.generation().into())).await;
    stop.cancel();
    for operator in running {
        operator.await.unwrap();
    }
    let watched = async || {
        let newest = seen.lock().unwrap().last().copied();
        if newest == Some(last) {
            Ok(())
        } else {
            Err(format!("{newest:?}"))
        }
    };
    stage.eventually("the end of the watch", watched).await;
    watching.abort();
    let seen = seen.lock().unwrap().clone();
    println!(
        "{} live objects, up to generation {}",
        seen.len(),
        last.generation()
    );
    assert!(seen.len() > 4, "{seen:#?}");
    for pair in seen.windows(2) {
        let [before, after] = pair else { unreachable!() };
        assert!(
            after.generation() > before.generation() || after == before,
            "{before:?}, then {after:?}"
        );
    }
}

/// Notes each budget that a live object `jm-live` has had.
async fn watch_budgets(maps: Api<ConfigMap>, seen: Arc<Mutex<Vec<Budget>>>) {
    let only = watcher::Config::default().fields("metadata.name=jm-live");
    let events = watcher(maps, only).applied_objects();
    events
        .for_each(async |object| {
            let data = object.unwrap().data.unwrap();
            let read = LivePolicy::from_policy_yaml(&data["policy"]).unwrap();
            seen.lock().unwrap().push(*read.budget());
        })
        .await;
}
