#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};

use super::*;

const EXAMPLE: &str = include_str!("../../../docs/examples/policy.yaml");
const WITH_COORDINATION: &str = include_str!("../../../docs/examples/coordination.yaml");
const WITH_UPSTREAM: &str = concat!(
    include_str!("../../../docs/examples/policy.yaml"),
    "  routing:\n    affinity: Upstream\n"
);

/// An example of the docs, as it is in a cluster.
fn in_cluster(text: &str) -> ValidPolicy {
    let mut policy: JevMetricsPolicy = serde_yaml::from_str(text).unwrap();
    policy.metadata.namespace = Some("metrics".to_owned());
    policy.metadata.uid = Some("6ff6b1a6-0000-4000-8000-000000000001".to_owned());
    ValidPolicy::try_from(&policy).unwrap()
}

fn example() -> ValidPolicy {
    in_cluster(EXAMPLE)
}

fn defaults() -> Defaults {
    Defaults {
        image: "registry.example/dataplane:1".to_owned(),
    }
}

fn rendered(policy: &ValidPolicy) -> String {
    let manifests = render(policy, &defaults(), 7).manifests().unwrap();
    let documents = manifests
        .iter()
        .map(|manifest| serde_yaml::to_string(&manifest.value).unwrap());
    documents.collect::<Vec<_>>().join("---\n")
}

/// An upgrade of the operator changes no byte of what runs. Whoever changes this file rolls every data plane of every
/// user: on purpose, and said in the release notes. `make generate` writes it.
#[test]
fn what_is_rendered_is_what_was_rendered_by_every_release_before() {
    for (golden, text) in [
        ("golden.yaml", EXAMPLE),
        ("golden_coordination.yaml", WITH_COORDINATION),
        ("golden_upstream.yaml", WITH_UPSTREAM),
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/render")
            .join(golden);
        let now = rendered(&in_cluster(text));
        if std::env::var_os("JEVMETRICS_GENERATE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(now == written, "objects of {golden} have changed:\n{now}");
    }
}

#[test]
fn nothing_says_which_operator_has_rendered_it() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        !rendered(&example()).contains(version),
        "{version} is in a rendered object"
    );
}

#[test]
fn pods_keep_to_the_restricted_security_standard() {
    let manifests = render(&example(), &defaults(), 0).manifests().unwrap();
    let pod = &manifests.last().unwrap().value["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for container in pod["containers"].as_array().unwrap() {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]));
    }
}

#[test]
fn an_unset_number_of_replicas_is_not_rendered() {
    let text = "{apiVersion: jevmetrics.io/v1alpha1, kind: JevMetricsPolicy, metadata: {name: jm, namespace: ns}, \
                spec: {export: {endpoint: 'http://a:4317'}}}";
    let policy: JevMetricsPolicy = serde_yaml::from_str(text).unwrap();
    let manifests = render(&ValidPolicy::try_from(&policy).unwrap(), &defaults(), 0)
        .manifests()
        .unwrap();
    assert!(manifests.last().unwrap().value["spec"].get("replicas").is_none());
}

#[test]
fn a_budget_and_its_generation_roll_nothing_and_a_place_of_redis_does() {
    let objects = |from: &str, to: &str, generation: u32| {
        assert!(WITH_COORDINATION.contains(from), "{from}");
        let policy = in_cluster(&WITH_COORDINATION.replace(from, to));
        let manifests = render(&policy, &defaults(), generation).manifests().unwrap();
        let live = manifests.iter().find(|manifest| manifest.name == "metrics-live");
        let live = live.unwrap().value["data"]["policy"].as_str().unwrap().to_owned();
        (live, manifests.last().unwrap().value["spec"]["template"].clone())
    };
    let (live, template) = objects("", "", 7);
    assert!(live.contains("generation: 7"), "{live}");
    for number in ["leaseTTLSeconds: 10", "maxInFlight: 4", "requestsPerSecond: 10"] {
        let other = format!("{number}0");
        let (changed, same) = objects(number, &other, 8);
        assert!(
            changed.contains(&other) && changed.contains("generation: 8"),
            "{changed}"
        );
        assert_eq!(same, template, "{number}");
    }
    let (same, changed) = objects("redis.monitoring.svc", "other.monitoring.svc", 7);
    assert_eq!(same, live);
    assert_ne!(changed, template);
}

#[test]
fn membership_and_live_policy_roll_nothing() {
    let template = |mode: &str, replicas: i32| {
        let text = format!(
            "{{apiVersion: jevmetrics.io/v1alpha1, kind: JevMetricsPolicy, metadata: {{name: jm, namespace: ns}}, \
             spec: {{mode: {mode}, replicas: {replicas}, export: {{endpoint: 'http://a:4317'}}}}}}"
        );
        let policy: JevMetricsPolicy = serde_yaml::from_str(&text).unwrap();
        let manifests = render(&ValidPolicy::try_from(&policy).unwrap(), &defaults(), 0)
            .manifests()
            .unwrap();
        manifests.last().unwrap().value["spec"]["template"].clone()
    };
    assert_eq!(template("Annotate", 1), template("Reduce", 9));
}

/// *Guarantees*: pods get what [`PASSED_ON`] says, for one object by its name, and the operator holds all of it.
#[test]
fn pods_get_what_is_passed_on_for_one_object_and_the_operator_holds_it() {
    use crate::rights::{PASSED_ON, RIGHTS};
    let policy = example();
    let rules = rbac::role(&policy).rules.unwrap();
    let given: Vec<_> = rules
        .iter()
        .map(|rule| {
            assert_eq!(rule.resource_names, Some(vec![policy.live_name()]));
            let groups = rule.api_groups.clone().unwrap();
            (groups, rule.resources.clone().unwrap(), rule.verbs.clone())
        })
        .collect();
    let one = |word: &str| vec![word.to_owned()];
    let wanted: Vec<_> = PASSED_ON
        .iter()
        .map(|right| {
            let verbs: Vec<_> = right.verbs.iter().map(|&verb| verb.to_owned()).collect();
            (one(right.group), one(right.resource), verbs)
        })
        .collect();
    assert_eq!(given, wanted);
    for passed in PASSED_ON {
        let mut held = RIGHTS
            .iter()
            .filter(|right| (right.group, right.resource) == (passed.group, passed.resource));
        assert!(
            held.any(|right| passed.verbs.iter().all(|verb| right.verbs.contains(verb))),
            "{passed:?}"
        );
    }
}
