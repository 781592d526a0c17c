//! Hollow nodes bring pods to life as a kubelet does.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jevmetrics_testkit::cluster::{ClusterError, Component, ControlPlane, HollowNodes, Process, Script};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;
use tokio::net::TcpStream;

use crate::workload::{WITHIN, Workload, deployment};

async fn stage(prefix: &str) -> (&'static ControlPlane, &'static HollowNodes, Workload) {
    let nodes = HollowNodes::shared().await.unwrap();
    let plane = ControlPlane::shared().await.unwrap();
    (plane, nodes, Workload::new(plane, prefix).await)
}

/// *Guarantees*: a Deployment becomes available, its pods are spread and have addresses of their own; what owns is
/// deleted with what it owns.
#[tokio::test]
async fn a_deployment_becomes_available_and_goes_with_its_pods() {
    let (plane, _nodes, workload) = stage("available").await;
    workload.create(&deployment(3, &json!({}))).await;
    workload.available(3).await;
    let pods = workload.list().await;
    let address = |pod: &k8s_openapi::api::core::v1::Pod| pod.status.clone().unwrap().pod_ip.unwrap();
    assert_eq!(pods.iter().map(address).collect::<HashSet<_>>().len(), 3);

    workload
        .deployments
        .delete("app", &DeleteParams::background())
        .await
        .unwrap();
    let none = async || match workload.list().await.len() {
        0 => Ok(()),
        number => Err(format!("{number} pods")),
    };
    poll::eventually("the end of the pods", WITHIN, none)
        .await
        .unwrap();
    plane.delete_namespace(&workload.namespace).await.unwrap();
}

/// *Scenario*: a pod mounts a Secret that is not there and reads a variable from a config map that is not there.
/// *Guarantees*: it waits for each as it would with kubelet, and starts when they appear.
#[tokio::test]
async fn a_pod_waits_for_what_it_requires() {
    let (_plane, _nodes, workload) = stage("required").await;
    let spec = json!({
        "containers": [{
            "name": "main",
            "image": "none.invalid/none",
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}],
        }],
        "volumes": [
            {"name": "key", "secret": {"secretName": "late"}},
            {"name": "other", "secret": {"secretName": "never", "optional": true}},
        ],
    });
    workload.create(&deployment(1, &spec)).await;
    workload.waiting("ContainerCreating").await;
    let pod = workload.list().await.remove(0).status.unwrap();
    assert_eq!((pod.phase.as_deref(), pod.pod_ip), (Some("Pending"), None));

    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "late"}})).unwrap();
    let secrets: Api<Secret> = Api::namespaced(workload.client.clone(), &workload.namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    workload.waiting("CreateContainerConfigError").await;

    let map = json!({"metadata": {"name": "late"}, "data": {"a": "b"}});
    let maps: Api<ConfigMap> = Api::namespaced(workload.client.clone(), &workload.namespace);
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
        .await
        .unwrap();
    workload.available(1).await;
}

/// *Guarantees*: pods follow their namespace's script, and what a test does to them later.
#[tokio::test]
async fn pods_follow_their_script_and_then_the_test() {
    let (_plane, nodes, workload) = stage("script").await;
    nodes.script(&workload.namespace, |pod| {
        assert!(pod.metadata.labels.is_some());
        Script::waiting("ImagePullBackOff", "no such image").stopping_after(Duration::from_millis(1))
    });
    workload.create(&deployment(1, &json!({}))).await;
    let name = workload.waiting("ImagePullBackOff").await;
    let namespace = workload.namespace.as_str();
    nodes.set_ready(namespace, &name, true).await.unwrap();
    workload.available(1).await;
    nodes.set_ready(namespace, &name, false).await.unwrap();
    workload.available(0).await;
    nodes.restart(namespace, &name).await.unwrap();
    workload.available(1).await;
    let status = workload.pods.get(&name).await.unwrap().status.unwrap();
    assert_eq!(status.container_statuses.unwrap()[0].restart_count, 1);

    // A Failed pod is replaced, by one that has a script of its own.
    nodes.script(namespace, |_| Script::ready_after(Duration::from_millis(100)));
    nodes.fail(namespace, &name).await.unwrap();
    workload.available(1).await;
    let status = workload.pods.get(&name).await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    let refused = nodes.set_ready(namespace, "nobody", true).await;
    assert!(matches!(refused, Err(ClusterError::NoPod { .. })));
}

/// *Scenario*: a kind of object that did not exist when the controllers started owns another object.
/// *Guarantees*: once it is installed, what it owns goes with it; installing it again changes nothing.
#[tokio::test]
async fn what_a_custom_resource_owns_goes_with_it() {
    let plane = ControlPlane::shared().await.unwrap();
    let workload = Workload::new(plane, "owned").await;
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.test.jevmetrics.io"},
        "spec": {
            "group": "test.jevmetrics.io",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }))
    .unwrap();
    plane.install(std::slice::from_ref(&definition)).await.unwrap();
    let controllers = plane.pid(Component::ControllerManager).unwrap();
    plane.install(&[definition]).await.unwrap();
    assert_eq!(plane.pid(Component::ControllerManager).unwrap(), controllers);

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.jevmetrics.io", "v1", "Thing"));
    let things: Api<DynamicObject> =
        Api::namespaced_with(workload.client.clone(), &workload.namespace, &kind);
    let owner = DynamicObject::new("owner", &kind);
    let owner = things.create(&PostParams::default(), &owner).await.unwrap();
    let map = json!({"metadata": {"name": "owned", "ownerReferences": [{
        "apiVersion": "test.jevmetrics.io/v1", "kind": "Thing", "name": "owner", "uid": owner.metadata.uid,
    }]}});
    let maps: Api<ConfigMap> = Api::namespaced(workload.client.clone(), &workload.namespace);
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
        .await
        .unwrap();
    let began = Instant::now();
    things.delete("owner", &DeleteParams::default()).await.unwrap();
    let gone = async || match maps.get_opt("owned").await.unwrap() {
        None => Ok(()),
        Some(_) => Err("it is there"),
    };
    poll::eventually("the end of what was owned", WITHIN, gone)
        .await
        .unwrap();
    println!("owned object gone after {:?}", began.elapsed());
}

/// Counts itself while it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// *Guarantees*: 200 pods run at the same time, each answers at its own address while it is ready, none after its end.
#[tokio::test]
async fn two_hundred_pods_answer_at_their_addresses() {
    const PODS: usize = 200;
    let (plane, nodes, workload) = stage("many").await;
    let living = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&living);
    nodes.run(&workload.namespace, move |_pod, address| -> Process {
        counted.fetch_add(1, Ordering::Relaxed);
        let listener = std::net::TcpListener::bind((address, 4319)).unwrap();
        Box::new((listener, Counted(Arc::clone(&counted))))
    });
    let began = Instant::now();
    workload.create(&deployment(PODS, &json!({}))).await;
    workload.available(i32::try_from(PODS).unwrap()).await;
    println!("{PODS} pods available after {:?}", began.elapsed());
    assert_eq!(living.load(Ordering::Relaxed), PODS);
    for pod in workload.list().await {
        let address = pod.status.unwrap().pod_ip.unwrap();
        TcpStream::connect(format!("{address}:4319")).await.unwrap();
    }
    let began = Instant::now();
    plane.delete_namespace(&workload.namespace).await.unwrap();
    println!("{PODS} pods gone after {:?}", began.elapsed());
    assert_eq!(living.load(Ordering::Relaxed), 0);
}
