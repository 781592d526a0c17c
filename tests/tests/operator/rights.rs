//! The list of rights is what the operator needs: it does with each what the list says, and nothing beside it.

use std::collections::BTreeSet;

use jevmetrics_api::peer::SERVER_NAME;
use jevmetrics_api::policy::JevMetricsPolicy;
use jevmetrics_operator::kinds::Kind;
use jevmetrics_operator::rights::{LEASE_RIGHTS, PASSED_ON, RIGHTS, Right};
use jevmetrics_testkit::certificates::Authority;
use jevmetrics_testkit::cluster::{ControlPlane, HollowNodes, Operator, OperatorOptions, Options, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use crate::inference::{put_pair, with_tls};
use crate::stage::Stage;
use crate::trouble::lax_definition;
use crate::voices::Voices;

/// A verb on a resource, which has its subresource behind a slash.
type Use = (String, String, String);

fn granted(rights: &[&[Right]]) -> BTreeSet<Use> {
    let rights = rights.iter().copied().flatten();
    rights
        .flat_map(|right| {
            let verbs = right.verbs.iter();
            verbs.map(|verb| {
                (
                    right.group.to_owned(),
                    right.resource.to_owned(),
                    (*verb).to_owned(),
                )
            })
        })
        .collect()
}

/// What a request needs. An apply that makes an object needs the right to create it beside that to patch.
fn needs(request: &Request) -> Vec<Use> {
    let resource = match request.subresource.as_str() {
        "" => request.resource.clone(),
        subresource => format!("{}/{subresource}", request.resource),
    };
    let verbs: &[&str] = match (request.verb.as_str(), request.code) {
        ("patch", 201) => &["patch", "create"],
        (verb, _) => &[verb],
    };
    let with = |verb: &&str| (request.group.clone(), resource.clone(), (*verb).to_owned());
    verbs.iter().map(with).collect()
}

/// *Scenario*: all that an operator ever does: a policy with TLS between pods comes, is changed, gets another revision;
/// its objects are changed and deleted by somebody, and what another version of the operator has left is there; one
/// policy cannot be decoded; policies go, and the operator too.
/// *Guarantees*: nothing is forbidden to it; every right of the list is made use of, so none is there only to be passed on
/// to data planes; nothing else is asked for.
#[tokio::test]
async fn every_right_is_used_and_no_other_is_needed() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    // It lets in what cannot be decoded.
    plane.install(&[lax_definition()]).await.unwrap();
    let nodes = HollowNodes::start(&plane, 1).await.unwrap();
    // The plane is this test's: it lives as long as the stage that borrows it.
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    let stage = Stage::on(plane, "rights").await;
    let authority = Authority::new().unwrap();
    let voices = Voices::default();
    let server = authority.mutual_server(SERVER_NAME).unwrap();
    voices.give(&nodes, &stage.namespace, Some(server));
    let options = OperatorOptions::for_namespace(&stage.namespace);
    let operator = plane.operator(&options).await.unwrap();

    put_pair(&stage, &authority).await;
    stage.apply("jm", &with_tls()).await;
    stage.rolled_out("jm").await;
    stage.healthy().await;
    change(&stage).await;
    disturb(&stage).await;
    leave_behind(&stage).await;
    break_one(&stage).await;
    go(&stage, operator).await;

    let requests = plane.requests_of(&options.user, stage.start).unwrap();
    let forbidden: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    // Requests for no resource, such as for the server's version, need no right of the list.
    let of_resources = requests.iter().filter(|request| !request.resource.is_empty());
    let used: BTreeSet<Use> = of_resources.flat_map(needs).collect();
    let granted = granted(&[RIGHTS, LEASE_RIGHTS]);
    let none: Vec<&Use> = Vec::new();
    assert_eq!(
        used.difference(&granted).collect::<Vec<_>>(),
        none,
        "used and not in the list"
    );
    assert_eq!(
        granted.difference(&used).collect::<Vec<_>>(),
        none,
        "in the list and not used"
    );
    println!("{} requests, {} rights, all used", requests.len(), used.len());
}

/// Mode, settings: the live object changes, and settings that nobody wants any more are deleted.
async fn change(stage: &Stage) {
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let settings = async || -> Vec<String> {
        let all = maps.list(&ListParams::default()).await.unwrap();
        let names = all.iter().map(kube::ResourceExt::name_any);
        names.filter(|name| name.starts_with("jm-settings-")).collect()
    };
    let before = settings().await;
    stage
        .patch("jm", &json!({"mode": "Reduce", "revision": "2"}))
        .await;
    stage.rolled_out("jm").await;
    let only_new = async || match settings().await {
        now if now.len() == 1 && now != before => Ok(()),
        now => Err(format!("{now:?}")),
    };
    stage.eventually("the end of the former settings", only_new).await;
}

/// Somebody changes and deletes objects, so often that events about it are folded.
async fn disturb(stage: &Stage) {
    let params = PatchParams::default();
    let roles = Kind::Role.api(&stage.client, &stage.namespace);
    for count in 1..=2 {
        let edit = Patch::Merge(json!({"rules": []}));
        roles.patch("jm-dataplane", &params, &edit).await.unwrap();
        let repaired = async || {
            let role = roles
                .get("jm-dataplane")
                .await
                .map_err(|error| error.to_string())?;
            match role.data["rules"].as_array().map(Vec::len) {
                Some(1) => Ok(()),
                other => Err(format!("{other:?} rules")),
            }
        };
        stage.eventually("the repair of a role", repaired).await;
        told(stage, "Repaired", count).await;
    }
    let services = Kind::Service.api(&stage.client, &stage.namespace);
    services
        .delete("jm-otlp", &DeleteParams::default())
        .await
        .unwrap();
    stage.event("jm", "Recreated").await;
}

/// Waits until an event with this reason says that it happened so often.
async fn told(stage: &Stage, reason: &str, count: i32) {
    let events: Api<Event> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let look = async || {
        let events = events
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let mut about = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        let times = about
            .next()
            .map(|event| event.series.as_ref().map_or(1, |series| series.count));
        match times {
            Some(times) if times >= count => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    stage.eventually(&format!("{reason}, {count} times"), look).await;
}

/// Objects of every kind under names that this version gives to none, as another version may have left them.
async fn leave_behind(stage: &Stage) {
    let owner = json!([{
        "apiVersion": "jevmetrics.io/v1alpha1", "kind": "JevMetricsPolicy", "controller": true,
        "name": "jm", "uid": stage.uid("jm").await,
    }]);
    for kind in Kind::ALL {
        let api = kind.api(&stage.client, &stage.namespace);
        let mut object = left_behind(kind);
        object["apiVersion"] = json!(kind.resource().api_version);
        object["kind"] = json!(kind.name());
        object["metadata"] = json!({
            "name": "jm-former",
            "labels": {"app.kubernetes.io/managed-by": "jevmetrics-operator"},
            "ownerReferences": owner,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        let gone = async || match api
            .get_opt("jm-former")
            .await
            .map_err(|error| error.to_string())?
        {
            None => Ok(()),
            Some(found) => Err(format!("{:?}", found.metadata)),
        };
        stage
            .eventually(&format!("the end of a former {}", kind.name()), gone)
            .await;
    }
}

/// The least that the API server takes.
fn left_behind(kind: Kind) -> Value {
    match kind {
        Kind::Service => json!({"spec": {"ports": [{"port": 1}]}}),
        Kind::RoleBinding => {
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}})
        }
        Kind::Deployment => json!({"spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "none.invalid/none"}]},
            },
        }}),
        _ => json!({}),
    }
}

/// A policy that cannot be decoded is fetched once more, to find the field.
async fn break_one(stage: &Stage) {
    let policies: Api<DynamicObject> = Api::namespaced_with(
        stage.client.clone(),
        &stage.namespace,
        &ApiResource::erase::<JevMetricsPolicy>(&()),
    );
    let odd = json!({
        "apiVersion": "jevmetrics.io/v1alpha1", "kind": "JevMetricsPolicy", "metadata": {"name": "odd"},
        "spec": {"replicas": "three", "export": {"endpoint": "http://sink.invalid:4317"}},
    });
    let odd: DynamicObject = serde_json::from_value(odd).unwrap();
    policies.create(&PostParams::default(), &odd).await.unwrap();
    stage.event("odd", "Undecodable").await;
    policies.delete("odd", &DeleteParams::default()).await.unwrap();
}

/// The policy goes with all that it owns; then the operator gives its Lease back.
async fn go(stage: &Stage, operator: Operator) {
    let uid = stage.uid("jm").await;
    stage.delete("jm").await;
    let gone = async || match stage.owned(&uid).await.len() {
        0 => Ok(()),
        left => Err(format!("{left} objects are left")),
    };
    stage.eventually("the end of the policy", gone).await;
    assert!(operator.stop().await.unwrap().success());
}

/// *Guarantees*: what the test above rests on: an apply that makes an object needs `create`; a role cannot hold what its
/// author does not hold, and the rights that are passed on suffice to write it.
#[tokio::test]
async fn an_apply_needs_the_right_to_create_and_a_role_what_it_gives() {
    let stage = Stage::new("apply").await;
    let user = format!("applier-of-{}", stage.namespace);
    let client = stage.plane.client_for(&user, None).await.unwrap();
    let params = PatchParams::apply("test").force();
    let [map, role] = [Kind::ConfigMap, Kind::Role].map(|kind| kind.api(&client, &stage.namespace));
    let a_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let passed: Vec<_> = PASSED_ON.iter().map(rule).collect();
    let a_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": passed,
    });
    let on = |resource: &str, group: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let roles = on("roles", "rbac.authorization.k8s.io", &["patch", "create"]);

    grant(&stage, &user, &json!([on("configmaps", "", &["patch"]), roles])).await;
    let only_patch = map.patch("a", &params, &Patch::Apply(&a_map)).await;
    assert_eq!(refused_with(only_patch), 403);
    let nothing_held = role.patch("a", &params, &Patch::Apply(&a_role)).await;
    assert_eq!(refused_with(nothing_held), 403);

    grant(
        &stage,
        &user,
        &json!([on("configmaps", "", &["patch", "create", "get", "watch"]), roles]),
    )
    .await;
    map.patch("a", &params, &Patch::Apply(&a_map)).await.unwrap();
    role.patch("a", &params, &Patch::Apply(&a_role)).await.unwrap();
}

fn rule(right: &Right) -> Value {
    json!({"apiGroups": [right.group], "resources": [right.resource], "verbs": right.verbs})
}

fn refused_with(answer: kube::Result<DynamicObject>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

/// Gives `user` these rules in the stage's namespace, and waits until the API server goes by them.
async fn grant(stage: &Stage, user: &str, rules: &Value) {
    let params = PatchParams::apply("user").force();
    let meta = json!({"name": "applier"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "applier"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    for (kind, object) in [(Kind::Role, role), (Kind::RoleBinding, binding)] {
        let api = kind.api(&stage.client, &stage.namespace);
        api.patch("applier", &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }
    let wanted: usize = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["verbs"].as_array().unwrap().len())
        .sum();
    let look = async || {
        let mut allowed = 0;
        for rule in rules.as_array().unwrap() {
            for verb in rule["verbs"].as_array().unwrap() {
                let arguments = [
                    "auth",
                    "can-i",
                    verb.as_str().unwrap(),
                    rule["resources"][0].as_str().unwrap(),
                    "--as",
                    user,
                ];
                allowed += usize::from(stage.try_kubectl(&arguments).await.is_ok());
            }
        }
        if allowed == wanted {
            Ok(())
        } else {
            Err(format!("{allowed} of {wanted} are allowed"))
        }
    };
    stage.eventually("the API server to go by a role", look).await;
}
