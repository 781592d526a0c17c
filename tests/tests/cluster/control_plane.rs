//! It starts, knows its users, and survives what is done to it.

use std::time::{Duration, Instant};

use jevmetrics_testkit::cluster::{ClusterError, Component, ControlPlane, HollowNodes, Options, Request};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::workload::{Workload, deployment};

/// Longer than it takes on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

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
    // The API server looks at roles through a watch of its own.
    let allowed = async || maps.list(&ListParams::default()).await;
    let listed = poll::eventually("the right to list", WITHIN, allowed)
        .await
        .unwrap();
    assert!(!listed.items.is_empty());

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

/// *Guarantees*: what is stored outlives the API server, which comes back at the same address, after an orderly end,
/// after a sudden one, and after one of its store; while it hangs, requests do. Hollow nodes go on afterwards.
#[tokio::test]
async fn data_and_pods_outlive_the_api_server() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let nodes = HollowNodes::start(&plane, 1).await.unwrap();
    let workload = Workload::new(&plane, "outage").await;
    workload.create(&deployment(1, &json!({}))).await;
    workload.available(1).await;
    let pod = workload.list().await.remove(0).metadata.name.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.admin().await.unwrap(), "default");
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"a": "b"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();

    let mark = plane.audit_mark().unwrap();
    let began = Instant::now();
    plane.stop(Component::ApiServer).await.unwrap();
    println!("API server stopped after {:?}", began.elapsed());
    assert!(maps.get("kept").await.is_err());
    assert!(matches!(
        plane.pause(Component::ApiServer).await,
        Err(ClusterError::NotRunning(Component::ApiServer))
    ));
    let began = Instant::now();
    plane.start_again(Component::ApiServer).await.unwrap();
    println!("API server back after {:?}", began.elapsed());
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["a"], "b");

    plane.kill(Component::ApiServer).unwrap();
    plane.kill(Component::Etcd).unwrap();
    plane.start_again(Component::Etcd).await.unwrap();
    // What happens to a pod meanwhile is written afterwards.
    let (written, started) = tokio::join!(
        nodes.set_ready(&workload.namespace, &pod, false),
        plane.start_again(Component::ApiServer)
    );
    written.unwrap();
    started.unwrap();
    workload.available(0).await;
    let scale = json!({"spec": {"replicas": 3}});
    let params = PatchParams::default();
    workload
        .deployments
        .patch("app", &params, &Patch::Merge(scale))
        .await
        .unwrap();
    workload.available(2).await;
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["a"], "b");

    let read = |request: &&Request| request.resource == "configmaps" && request.name == "kept";
    assert_eq!(
        plane
            .requests_of("admin", mark)
            .unwrap()
            .iter()
            .filter(read)
            .count(),
        2
    );

    plane.pause(Component::ApiServer).await.unwrap();
    let hanging = tokio::time::timeout(Duration::from_millis(300), maps.get("kept"));
    assert!(hanging.await.is_err());
    plane.resume(Component::ApiServer).await.unwrap();
    maps.get("kept").await.unwrap();
}

/// *Guarantees*: a start that fails says which process printed what, and leaves nothing.
#[tokio::test]
async fn a_failed_start_says_why() {
    let options = Options {
        arguments: vec![(Component::ApiServer, "--no-such-flag".to_owned())],
        ..Options::default()
    };
    match ControlPlane::start(options).await {
        Err(ClusterError::Ended {
            component, printed, ..
        }) => {
            assert_eq!(component, Component::ApiServer);
            assert!(printed.contains("unknown flag: --no-such-flag"), "{printed}");
        }
        other => panic!("{other:?}"),
    }
}
