//! The chart as a user of helm meets it.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Instant;

use futures_util::FutureExt as _;
use jevmetrics_testkit::cluster::Request;
use jevmetrics_testkit::helm::{self, HelmError};
use jevmetrics_testkit::node::Node;
use jevmetrics_testkit::poll;
use kube::ResourceExt as _;
use serde_json::json;

use crate::site::{self, Place, WITHIN};
use crate::traffic::Load;

/// Where the operator for all namespaces is.
pub(crate) const SYSTEM: &str = "jevmetrics-system";
const RELEASE: &str = "jevmetrics";
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/jevmetrics");

/// `helm upgrade --install`, waiting until the operator is available.
pub(crate) async fn install(node: &Node, namespace: &str, more: &[&str]) -> Result<String, HelmError> {
    helm::on(node.plane(), &install_arguments(namespace, more)).await
}

fn install_arguments<'a>(namespace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec![
        "upgrade",
        "--install",
        RELEASE,
        CHART,
        "--namespace",
        namespace,
        "--create-namespace",
        "--wait",
        "--timeout=3m",
    ];
    arguments.extend(more);
    arguments
}

/// Runs a scenario while no other has an operator; they have one afterwards, however it ended.
async fn without_others(node: &'static Node, scenario: impl Future<Output = ()>) {
    let _alone = site::OPERATOR.write().await;
    let ended = AssertUnwindSafe(scenario).catch_unwind().await;
    install(node, SYSTEM, &[]).await.unwrap();
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

/// *Scenario*: install, upgrade to two replicas and other settings, uninstall, install again, under a policy that
/// serves.
/// *Guarantees*: neither of them restarts or replaces a data plane or loses a point; the policy stays, is served without an
/// operator, and found by the next one; nothing that an operator asked until then was forbidden.
#[tokio::test]
async fn policies_and_data_planes_outlive_the_operator() {
    let node = site::node().await;
    let scenario = async {
        let place = Place::alone("outlive").await;
        place.apply(&place.spec(1)).await;
        place.rolled_out().await;
        let mark = node.plane().audit_mark().unwrap();
        let load = Load::start(&place).await;
        let before = place.members().await.remove(0);

        let began = Instant::now();
        let told = install(
            node,
            SYSTEM,
            &["--set", "replicaCount=2", "--set", "logFilter=debug"],
        )
        .await
        .unwrap();
        println!("chart upgraded: {:.0} s", began.elapsed().as_secs_f64());
        assert!(told.contains("kubectl"), "what to do next: {told}");
        place.patch(&json!({"mode": "Reduce"})).await;
        place.condition("Ready", "True").await;

        let operator = format!("system:serviceaccount:{SYSTEM}:jevmetrics-operator");
        let requests = node.plane().requests_of(&operator, mark).unwrap();
        assert!(!requests.is_empty(), "{operator} is the operator");
        // Of this namespace or none: those of other scenarios, which are being deleted, take nothing new.
        let is_ours =
            |request: &&Request| ["", SYSTEM, &place.namespace].contains(&request.namespace.as_str());
        let forbidden: Vec<_> = requests
            .iter()
            .filter(|request| request.code == 403)
            .filter(is_ours)
            .collect();
        assert!(forbidden.is_empty(), "{forbidden:?}");

        helm::on(
            node.plane(),
            &["uninstall", RELEASE, "--namespace", SYSTEM, "--wait"],
        )
        .await
        .unwrap();
        let nothing = async || {
            let all = ["get", "all", "--namespace", SYSTEM, "-o", "name"];
            match node.plane().kubectl(&all).await {
                Ok(left) if left.trim().is_empty() => Ok(()),
                Ok(left) => Err(left),
                Err(error) => Err(error.to_string()),
            }
        };
        poll::eventually("the end of all that the chart made", WITHIN, nothing)
            .await
            .unwrap();
        assert_eq!(place.members().await.remove(0).uid(), before.uid());
        // Nobody looks at it now.
        place.patch(&json!({"mode": "Annotate", "replicas": 2})).await;

        install(node, SYSTEM, &[]).await.unwrap();
        place.rolled_out().await;
        let after = place.members().await;
        assert_eq!(after.len(), 2, "what was changed meanwhile was taken up");
        assert_eq!(
            (after[0].uid(), place.restarts(&after[0]).await),
            (before.uid(), 0)
        );
        load.delivered("an upgrade, an uninstall and an install").await;
    };
    Box::pin(without_others(node, scenario)).await;
}

/// *Scenario*: an operator for one namespace, installed by somebody who may do nothing outside of it.
/// *Guarantees*: the chart makes nothing outside; a policy is served.
#[tokio::test]
async fn a_namespaced_install_needs_no_right_outside() {
    let node = site::node().await;
    let scenario = async {
        let plane = node.plane();
        helm::on(plane, &["uninstall", RELEASE, "--namespace", SYSTEM, "--wait"])
            .await
            .unwrap();
        let place = Place::alone("namespaced").await;
        let owner = format!("owner-of-{}", place.namespace);
        let binding = [
            "create",
            "rolebinding",
            "owner",
            "--clusterrole=cluster-admin",
            "--user",
            &owner,
        ];
        place.kubectl(&binding).await;
        let kubeconfig = plane.kubeconfig_for(&owner, None).unwrap();
        let arguments = install_arguments(&place.namespace, &["--set", "scope=Namespaced", "--skip-crds"]);
        // The namespace is there already, and its owner may not make one.
        let arguments: Vec<&str> = arguments
            .into_iter()
            .filter(|&argument| argument != "--create-namespace")
            .collect();
        helm::as_user(&kubeconfig, &arguments).await.unwrap();

        place.apply(&place.spec(1)).await;
        place.rolled_out().await;
        let load = Load::start(&place).await;
        load.delivered("a namespaced install").await;
    };
    Box::pin(without_others(node, scenario)).await;
}
