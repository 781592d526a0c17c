//! It starts, knows its users, and survives what is done to it.

use std::time::Instant;

use jevmetrics_testkit::cluster::{Component, ControlPlane, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

/// *Guarantees*: it comes up, tells how long that took and what it holds, and leaves neither processes nor files.
#[tokio::test]
async fn it_comes_up_and_goes_without_a_trace() {
    let began = Instant::now();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    println!("control plane ready after {:?}", began.elapsed());
    let mut pids = Vec::new();
    for component in Component::ALL {
        let bytes = plane.resident_bytes(component).unwrap();
        println!("{component}: {} MiB", bytes >> 20);
        pids.push(plane.pid(component).unwrap());
    }
    let directory = plane.directory().to_owned();
    assert!(directory.is_dir());
    let began = Instant::now();
    drop(plane);
    println!("gone after {:?}", began.elapsed());
    assert!(!directory.exists());
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// *Guarantees*: a user may do what roles allow and no more; a service account is who it is; kubectl's errors are told.
#[tokio::test]
async fn users_have_the_rights_of_their_roles() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("users").await.unwrap();
    let secrets = plane.client_for("somebody", None).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(secrets, &namespace);
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(
        refused.to_string().contains("\"somebody\" cannot list resource"),
        "{refused}"
    );

    let viewer = format!("--clusterrole=view --user=somebody -n {namespace}");
    let mut arguments = vec!["create", "rolebinding", "viewer"];
    arguments.extend(viewer.split(' '));
    plane.kubectl(&arguments).await.unwrap();
    assert!(!maps.list(&ListParams::default()).await.unwrap().items.is_empty());

    let account = plane
        .client_for_service_account(&namespace, "default")
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(account);
    let refused = namespaces
        .list(&ListParams::default())
        .await
        .unwrap_err()
        .to_string();
    let name = format!("system:serviceaccount:{namespace}:default");
    assert!(refused.contains(&name), "{refused}");

    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "piped"}}).to_string();
    let apply = ["apply", "-n", &namespace, "-f", "-"];
    let somebody = plane.kubeconfig_for("somebody", Some("system:masters")).unwrap();
    plane.kubectl_with(&somebody, &apply, &object).await.unwrap();
    let error = plane.kubectl(&["get", "nothing"]).await.unwrap_err().to_string();
    assert!(
        error.contains("the server doesn't have a resource type"),
        "{error}"
    );
    plane.delete_namespace(&namespace).await.unwrap();
}
