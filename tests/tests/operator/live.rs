//! Real data planes follow the live object that the operator writes, with the rights that it has given them.

use std::time::{Duration, Instant};

use jevmetrics_api::member::{ModeInForce, PolicyState};
use jevmetrics_testkit::cluster::Component;
use jevmetrics_testkit::poll;
use serde_json::{Value, json};

use crate::real::{Neighbours, POINTS, RealPlane, Rendered, WITHIN, put_key};
use crate::site::Site;
use crate::stage::Stage;

/// Half of the points are of instruments that the mock wants to be dropped.
const WITHOUT_DROPPED: u64 = POINTS / 2;
/// Points of one instrument.
const ONE: u64 = 2;
/// Traffic while the API server is away.
const AWAY: Duration = Duration::from_secs(3);

impl Stage {
    /// Changes the policy `jm` with `kubectl patch`; says when kubectl had its answer.
    async fn kubectl_patch(&self, spec: &Value) -> Instant {
        let patch = json!({"spec": spec}).to_string();
        let arguments = [
            "patch",
            "jmp",
            "jm",
            "--namespace",
            &self.namespace,
            "--type=merge",
            "--patch",
            &patch,
        ];
        let printed = self.plane.kubectl(&arguments).await.unwrap();
        assert!(printed.contains("patched"), "{printed}");
        Instant::now()
    }

    /// What `kubectl auth can-i` says about the pods of `jm`.
    async fn can(&self, verb: &str, what: &str) -> bool {
        let user = format!("system:serviceaccount:{}:jm-dataplane", self.namespace);
        let arguments = [
            "auth",
            "can-i",
            verb,
            what,
            "--namespace",
            &self.namespace,
            "--as",
            &user,
        ];
        self.plane.kubectl(&arguments).await.is_ok()
    }

    async fn deployment_generation(&self) -> Option<i64> {
        let deployment = self.deployments.get("jm-dataplane").await.unwrap();
        deployment.metadata.generation
    }
}

/// *Scenario*: two processes with the settings of an applied policy; `kubectl patch` changes mode, threshold, protection.
/// *Guarantees*: each change acts in both, without a restart and without a rollout.
#[tokio::test]
async fn a_patched_policy_acts_in_running_data_planes() {
    let (stage, _operator) = Stage::with_operator("live").await;
    let neighbours = Neighbours::start().await;
    let sink = &neighbours.sink;
    put_key(&stage.client, &stage.namespace).await;
    stage.apply("jm", &neighbours.spec("Annotate")).await;
    stage.rolled_out("jm").await;
    let rendered = Rendered::of(stage.plane, &stage.client, &stage.namespace, "jm").await;
    let mut planes = [
        rendered.start(&neighbours, "one").await,
        rendered.start(&neighbours, "two").await,
    ];
    let mut ids = Vec::new();
    for real in &mut planes {
        real.learns(sink).await;
        let tally = real.send(sink).await;
        assert!(
            tally.others.points == POINTS && tally.companions.points > 0,
            "{tally:?}"
        );
        ids.push((real.plane.pid(), real.plane.member().await.unwrap().id));
    }
    let generation = stage.deployment_generation().await;

    let patched = stage.kubectl_patch(&json!({"mode": "Reduce"})).await;
    acts(&mut planes, &neighbours, "mode", patched, WITHOUT_DROPPED).await;
    for real in &planes {
        assert_eq!(
            real.plane.member().await.unwrap().policy.mode,
            Some(ModeInForce::Reduce)
        );
    }
    let patched = stage
        .kubectl_patch(&json!({"retention": {"dropThresholdPercent": 0}}))
        .await;
    acts(&mut planes, &neighbours, "threshold", patched, POINTS).await;
    let patched = stage
        .kubectl_patch(&json!({"retention": {"dropThresholdPercent": null}}))
        .await;
    acts(
        &mut planes,
        &neighbours,
        "default threshold",
        patched,
        WITHOUT_DROPPED,
    )
    .await;
    let name = planes[0].droppable_names().remove(0);
    let patched = stage
        .kubectl_patch(&json!({"retention": {"protectedMetrics": [&name]}}))
        .await;
    acts(
        &mut planes,
        &neighbours,
        "protected name",
        patched,
        WITHOUT_DROPPED + ONE,
    )
    .await;

    for (real, (pid, id)) in planes.iter_mut().zip(ids) {
        assert_eq!(real.send(sink).await.points_of(&name), ONE);
        assert_eq!(
            (real.plane.pid(), real.plane.member().await.unwrap().id),
            (pid, id)
        );
    }
    assert_eq!(stage.deployment_generation().await, generation, "no rollout");
}

/// Waits until both processes let so many points through, and prints how long that took.
async fn acts(planes: &mut [RealPlane], neighbours: &Neighbours, what: &str, patched: Instant, points: u64) {
    for (index, real) in planes.iter_mut().enumerate() {
        let as_wanted = |tally: &jevmetrics_testkit::sink::Tally| tally.others.points == points;
        real.arrives(&neighbours.sink, what, as_wanted).await;
        println!("{what}: acts in process {index} after {:?}", patched.elapsed());
    }
}

/// *Scenario*: the rendered Role, asked about what pods need and about what they do not.
/// *Guarantees*: pods may get and watch their one live object, and nothing else.
#[tokio::test]
async fn pods_may_read_their_live_object_and_nothing_else() {
    let (stage, _operator) = Stage::with_operator("rights").await;
    let neighbours = Neighbours::start().await;
    put_key(&stage.client, &stage.namespace).await;
    for name in ["jm", "other"] {
        stage.apply(name, &neighbours.spec("Annotate")).await;
        stage.rolled_out(name).await;
    }
    for verb in ["get", "watch"] {
        assert!(stage.can(verb, "configmaps/jm-live").await, "{verb}");
    }
    let refused = [
        ("list", "configmaps"),
        ("list", "configmaps/jm-live"),
        ("watch", "configmaps"),
        ("get", "configmaps/other-live"),
        ("get", "configmaps/kube-root-ca.crt"),
        ("patch", "configmaps/jm-live"),
        ("update", "configmaps/jm-live"),
        ("delete", "configmaps/jm-live"),
        ("create", "configmaps"),
        ("get", "secrets/jev"),
        ("list", "secrets"),
        ("list", "pods"),
        ("get", "jevmetricspolicies.jevmetrics.io/jm"),
        ("create", "leases.coordination.k8s.io"),
        ("*", "*"),
    ];
    for (verb, what) in refused {
        assert!(!stage.can(verb, what).await, "{verb} {what}");
    }
    let rendered = Rendered::of(stage.plane, &stage.client, &stage.namespace, "jm").await;
    let get = async |what: &str| {
        let arguments = ["get", what, "--namespace", &stage.namespace];
        stage
            .plane
            .kubectl_with(rendered.kubeconfig(), &arguments, "")
            .await
    };
    assert!(get("configmap/jm-live").await.is_ok());
    for what in [
        "configmap/other-live",
        "configmaps",
        "secret/jev",
        "secrets",
        "pods",
    ] {
        let error = get(what).await.unwrap_err().to_string();
        assert!(error.contains("Forbidden"), "{what}: {error}");
    }
}

/// *Scenario*: a process starts while the API server is away; its policy says `Reduce`.
/// *Guarantees*: until it has read the live object it lets everything through, adds nothing and asks nothing; then it
/// follows.
#[tokio::test]
async fn a_data_plane_that_starts_without_an_api_server_keeps_everything_until_it_is_back() {
    let site = Site::start(1).await;
    let neighbours = Neighbours::start().await;
    let sink = &neighbours.sink;
    let (namespace, policy) = site.place(0);
    put_key(&site.client, namespace).await;
    let operator = site.operator().await;
    site.apply(0..1, &neighbours.spec("Reduce")).await;
    site.conditions(1, &[("RolledOut", "True", "Complete")]).await;
    let rendered = Rendered::of(&site.plane, &site.client, namespace, &policy).await;

    site.plane.stop(Component::ApiServer).await.unwrap();
    let mut real = rendered.start(&neighbours, "third").await;
    let began = Instant::now();
    while began.elapsed() < AWAY {
        let tally = real.send(sink).await;
        assert_eq!((tally.others.points, tally.companions.points), (POINTS, 0));
    }
    let member = real.plane.member().await.unwrap();
    assert_eq!(
        (member.policy.state, member.policy.mode),
        (PolicyState::Awaiting, None)
    );
    assert_eq!(neighbours.jev.counters().received, 0);

    site.plane.start_again(Component::ApiServer).await.unwrap();
    let again = Instant::now();
    let follows = poll::until_some("the mode of the policy", WITHIN, async || {
        let policy = real.plane.member().await.unwrap().policy;
        (policy.mode == Some(ModeInForce::Reduce)).then_some(())
    });
    if let Err(error) = follows.await {
        panic!("{error}; {}", real.plane.printed());
    }
    println!("follows {:?} after the API server is ready", again.elapsed());
    real.learns(sink).await;
    real.arrives(sink, "half of the points", |tally| {
        tally.others.points == WITHOUT_DROPPED
    })
    .await;
    operator.stop().await.unwrap();
}
