//! The chart, installed by Helm: pods of the operator are hollow, and a process beside them has their arguments and their
//! account, so that what the chart gives is what the operator has.

use std::path::PathBuf;

use jevmetrics_operator::rights::{LEASE_RIGHTS, RIGHTS};
use jevmetrics_testkit::cluster::Operator;
use jevmetrics_testkit::helm::{Helm, chart};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::policies::with_replicas;
use crate::site::leads;
use crate::stage::{Stage, changed};

/// Given, so that a new version of the chart is no new image.
const IMAGE: &str = "dataplane.invalid/dataplane";

impl Stage {
    /// Runs Helm as somebody who may do everything; waits for what it installs.
    fn helm(&self, arguments: &[&str]) -> String {
        let mut all = vec!["--namespace", self.namespace.as_str()];
        all.extend(arguments);
        let helm = Helm::shared().unwrap();
        helm.run_as(&self.plane.admin_kubeconfig(), &all, "").unwrap()
    }

    /// Installs or upgrades the release.
    fn release(&self, command: &str, scope: &str, more: &[&str]) -> String {
        let chart = chart().display().to_string();
        let (scope, image) = (
            format!("scope={scope}"),
            format!("dataplaneImage.repository={IMAGE}"),
        );
        let mut arguments = vec![command, self.namespace.as_str(), &chart, "--wait", "--timeout=2m"];
        arguments.extend(["--set", &scope, "--set", &image, "--set", "dataplaneImage.tag=v1"]);
        arguments.extend(more);
        self.helm(&arguments)
    }

    /// Name of the operator's Deployment and account.
    fn operator_name(&self) -> String {
        format!("{}-jevmetrics-operator", self.namespace)
    }

    /// Starts the process that the operator's pods stand for, and waits until it leads.
    async fn released_operator(&self) -> Operator {
        let name = self.operator_name();
        let deployment = self.deployments.get(&name).await.unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let account = pod.service_account_name.unwrap();
        let mut arguments = pod.containers[0].args.clone().unwrap();
        arguments.retain(|argument| !argument.starts_with("--listen="));
        let kubeconfig: PathBuf = self
            .plane
            .kubeconfig_for_service_account(&self.namespace, &account)
            .await
            .unwrap();
        let user = format!("system:serviceaccount:{}:{account}", self.namespace);
        let operator = self
            .plane
            .operator_with(&user, &kubeconfig, &arguments)
            .await
            .unwrap();
        leads(&operator).await;
        operator
    }

    /// Uid and generation of the Deployment of `jm`, and its pods' names.
    async fn data_plane(&self) -> (Option<String>, Option<i64>, Vec<String>) {
        let deployment = self.deployments.get("jm-dataplane").await.unwrap();
        let of_policy = ListParams::default().labels("jevmetrics.io/policy=jm");
        let pods = self.pods.list(&of_policy).await.unwrap();
        let mut names: Vec<_> = pods.iter().map(kube::ResourceExt::name_any).collect();
        names.sort();
        (deployment.uid(), deployment.metadata.generation, names)
    }

    async fn hold_to(&self, standard: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": standard}}});
        namespaces
            .patch(&self.namespace, &PatchParams::default(), &Patch::Merge(&label))
            .await
            .unwrap();
    }
}

/// *Scenario*: in a namespace that takes only restricted pods: install for this namespace; a policy; upgrade to other values;
/// uninstall; a change of the policy; install again.
/// *Guarantees*: the rights of the chart suffice; an upgrade with the same image of data planes changes none of their
/// objects; policy and data plane stay without an operator; the next one finds them, and keeps their pods.
#[tokio::test]
async fn a_release_comes_changes_goes_and_comes_back_and_data_planes_stay() {
    let stage = Stage::new("release").await;
    stage.hold_to("restricted").await;
    let notes = stage.release("install", "Namespaced", &["--skip-crds"]);
    assert!(
        notes.contains(&format!("deployment/{}", stage.operator_name())),
        "{notes}"
    );
    let operator = stage.released_operator().await;
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;
    stage.condition("jm", "ConfigurationValid", "True", "Valid").await;
    stage.calm(&operator).await;
    let before = stage.data_plane().await;
    assert_eq!(before.2.len(), 2);
    let user = operator.user().to_owned();
    assert!(operator.stop().await.unwrap().success());

    let mark = stage.plane.audit_mark().unwrap();
    let more = ["--set", "replicaCount=2", "--set", "logFilter=debug"];
    let notes = stage.release("upgrade", "Namespaced", &more);
    assert!(notes.contains(&format!("{IMAGE}:v1")), "{notes}");
    let operator = stage.released_operator().await;
    assert_eq!(
        changed(&stage.settled_objects(&operator, mark).await),
        [""; 0],
        "an upgrade"
    );
    assert_eq!(stage.data_plane().await, before);
    assert!(operator.stop().await.unwrap().success());

    stage.helm(&["uninstall", &stage.namespace, "--wait"]);
    let left = stage.deployments.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(left, ["jm-dataplane"]);
    stage.apply("jm", &with_replicas(3)).await;
    assert_eq!(stage.data_plane().await, before, "nobody takes it up");

    stage.release("install", "Namespaced", &["--skip-crds"]);
    let operator = stage.released_operator().await;
    stage.rolled_out("jm").await;
    let after = stage.data_plane().await;
    assert_eq!(after.0, before.0);
    assert_eq!(after.2.len(), 3);
    assert!(
        before.2.iter().all(|pod| after.2.contains(pod)),
        "{before:?} {after:?}"
    );

    let requests = stage.plane.requests_of(&user, stage.start).unwrap();
    let forbidden: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(requests.len() > 50 && forbidden.is_empty(), "{forbidden:#?}");
    drop(operator);
    stage.helm(&["uninstall", &stage.namespace, "--wait"]);
}

/// *Scenario*: install for all namespaces; people with the roles view, edit and admin of one namespace; uninstall.
/// *Guarantees*: the account has each right of the list in any namespace, and the Lease only at home; people may do with
/// policies what their role says; nothing cluster-scoped is left behind.
#[tokio::test]
async fn a_release_for_all_namespaces_gives_operator_and_people_their_rights() {
    let (stage, elsewhere) = (Stage::new("wide").await, Stage::new("elsewhere").await);
    stage.release("install", "Cluster", &["--skip-crds"]);
    let account = format!(
        "system:serviceaccount:{}:{}",
        stage.namespace,
        stage.operator_name()
    );
    for right in RIGHTS {
        for verb in right.verbs {
            elsewhere
                .may(&account, verb, right.resource, right.group, "")
                .await;
        }
    }
    for right in LEASE_RIGHTS {
        for verb in right.verbs {
            let name = if *verb == "create" {
                String::new()
            } else {
                stage.operator_name()
            };
            stage
                .may(&account, verb, right.resource, right.group, &name)
                .await;
            elsewhere
                .may_not(&account, verb, right.resource, right.group, &name)
                .await;
        }
    }
    stage
        .may_not(&account, "update", "leases", "coordination.k8s.io", "another")
        .await;
    elsewhere.may_not(&account, "list", "secrets", "", "").await;

    for (role, may_edit) in [("view", false), ("edit", true), ("admin", true)] {
        let person = format!("{role}-of-{}", elsewhere.namespace);
        let arguments = [
            "create",
            "rolebinding",
            role,
            "--clusterrole",
            role,
            "--user",
            &person,
        ];
        elsewhere.kubectl(&arguments).await;
        let group = "jevmetrics.io";
        for verb in ["get", "list", "watch"] {
            elsewhere
                .may(&person, verb, "jevmetricspolicies", group, "")
                .await;
        }
        for (verb, resource) in [
            ("create", "jevmetricspolicies"),
            ("patch", "jevmetricspolicies"),
            ("delete", "jevmetricspolicies"),
            ("patch", "jevmetricspolicies/scale"),
        ] {
            if may_edit {
                elsewhere.may(&person, verb, resource, group, "").await;
            } else {
                elsewhere.may_not(&person, verb, resource, group, "").await;
            }
        }
        elsewhere
            .may_not(&person, "patch", "jevmetricspolicies/status", group, "")
            .await;
    }

    stage.helm(&["uninstall", &stage.namespace, "--wait"]);
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    let ours = format!("app.kubernetes.io/instance={}", stage.namespace);
    let left = roles.list(&ListParams::default().labels(&ours)).await.unwrap();
    assert!(left.items.is_empty(), "{left:?}");
    elsewhere.may_not(&account, "list", "pods", "", "").await;
}

impl Stage {
    /// Waits until `user` may do this here: roles are taken up, and put together, within moments.
    async fn may(&self, user: &str, verb: &str, resource: &str, group: &str, name: &str) {
        self.access(user, verb, resource, group, name, true).await;
    }

    async fn may_not(&self, user: &str, verb: &str, resource: &str, group: &str, name: &str) {
        self.access(user, verb, resource, group, name, false).await;
    }

    async fn access(&self, user: &str, verb: &str, resource: &str, group: &str, name: &str, wanted: bool) {
        use k8s_openapi::api::authorization::v1::SubjectAccessReview;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "namespace": self.namespace, "verb": verb, "group": group, "resource": resource,
            "subresource": subresource, "name": name,
        });
        let review: Value = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let look = async || {
            let answer = reviews.create(&kube::api::PostParams::default(), &review).await;
            match answer.map_err(|error| error.to_string())?.status {
                Some(status) if status.allowed == wanted => Ok(()),
                other => Err(format!("{other:?}")),
            }
        };
        let what = format!("{user}: {verb} {resource}/{subresource} of {group} {name}: {wanted}");
        self.eventually(&what, look).await;
    }
}
