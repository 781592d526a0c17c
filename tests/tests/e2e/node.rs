//! The node itself: what scenarios build on holds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jevmetrics_testkit::node::{Daemon, NODE, PROBE_IMAGE, restricted};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::pods::{Space, is_ready, name};

const PORT: u16 = 8080;

/// A Deployment of servers and their Service, both named `name`.
fn servers(name: &str, replicas: u32) -> [Value; 2] {
    let labels = json!({"app": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": pod(&["serve", &format!(":{PORT}")])},
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": PORT}]},
    });
    [deployment, service]
}

/// One container that runs the probe, as restricted as pods can be.
fn pod(arguments: &[&str]) -> Value {
    json!({
        "containers": [{
            "name": "probe",
            "image": PROBE_IMAGE,
            "args": arguments,
            "readinessProbe": {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1},
            "securityContext": restricted(),
        }],
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 5,
    })
}

fn health(status: u16) -> Vec<String> {
    ["-method", "POST"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("http://127.0.0.1:{PORT}/health?status={status}")])
        .collect()
}

/// *Guarantees*: a node of the version asked for is there; how long that took and what its daemons hold is told.
#[tokio::test]
async fn it_comes_up() {
    let space = Space::new("node").await;
    let reached = space.node.milestones();
    println!("control plane and images after {:?}", reached.control_plane);
    println!("node Ready after {:?}", reached.node);
    println!("names resolve in a pod after {:?}", reached.names);
    for daemon in Daemon::ALL {
        println!(
            "{daemon}: {} MiB",
            space.node.resident_bytes(daemon).unwrap() >> 20
        );
    }
    let arguments = [
        "get",
        "node",
        NODE,
        "-o",
        "jsonpath={.status.nodeInfo.kubeletVersion}",
    ];
    assert_eq!(space.node.plane().kubectl(&arguments).await.unwrap(), "v1.36.3");
    space.end().await;
}

/// *Guarantees*: a pod reaches others by the short and by the full name of their Service, which balances over all of
/// them; itself included. Logs can be read.
#[tokio::test]
async fn pods_reach_each_other_by_the_name_of_a_service() {
    let space = Space::new("names").await;
    space.apply(&servers("echo", 2)).await;
    space.rolled_out("echo").await;
    let pods: BTreeSet<String> = space.pods_of("echo").await.iter().map(name).collect();
    let client = pods.first().unwrap();
    for host in [
        "echo".to_owned(),
        format!("echo.{}.svc.cluster.local", space.namespace),
    ] {
        let url = format!("http://{host}/");
        let mut seen = BTreeSet::new();
        let all = async || {
            seen.insert(space.probe(client, &["get", "-within", "10s", &url]).await?);
            if seen == pods {
                Ok(())
            } else {
                Err(format!("answers of {seen:?}, not of all {pods:?}"))
            }
        };
        space
            .eventually(&format!("an answer of each pod at {url}"), all)
            .await;
    }
    for pod in &pods {
        let logs = space.node.logs(&space.namespace, pod).await.unwrap();
        assert!(logs.contains(&format!("{pod} serves at :{PORT}")), "{logs}");
    }
    let unknown = space
        .probe(client, &["resolve", "nothing.example"])
        .await
        .unwrap_err();
    assert!(unknown.contains("no such host"), "{unknown}");
    space.end().await;
}

/// *Scenario*: a container is killed on the node, behind Kubernetes' back.
/// *Guarantees*: it is started again in the same pod, becomes ready, and what it printed before can be read.
#[tokio::test]
async fn a_killed_container_is_started_again() {
    let space = Space::new("kill").await;
    space.apply(&servers("victim", 1)).await;
    space.rolled_out("victim").await;
    let pod = name(&space.pods_of("victim").await[0]);
    assert_eq!(space.node.restarts(&space.namespace, &pod).await.unwrap(), 0);

    let began = Instant::now();
    space.node.kill(&space.namespace, &pod, "probe").await.unwrap();
    let restarted = async || {
        let restarts = space.node.restarts(&space.namespace, &pod).await;
        let restarts = restarts.map_err(|error| error.to_string())?;
        let pod = space.pods.get(&pod).await.map_err(|error| error.to_string())?;
        if restarts == 1 && is_ready(&pod) {
            Ok(())
        } else {
            Err(format!("{restarts} restarts, {:?}", pod.status))
        }
    };
    space.eventually("the restart", restarted).await;
    println!("ready again after {:?}", began.elapsed());
    let logs = space
        .node
        .previous_logs(&space.namespace, &pod, "probe")
        .await
        .unwrap();
    // It had no chance to say goodbye.
    assert!(logs.contains("serves at") && !logs.contains("ending"), "{logs}");
    let error = space.node.kill(&space.namespace, &pod, "none").await.unwrap_err();
    assert!(error.to_string().contains("container none of pod"), "{error}");
    space.end().await;
}

/// *Guarantees*: a pod that says it is not ready gets no more connections and is not restarted; one whose liveness fails
/// is restarted.
#[tokio::test]
async fn probes_act() {
    let space = Space::new("probes").await;
    let [mut deployment, service] = servers("patient", 2);
    space.apply(&[deployment.clone(), service]).await;
    space.rolled_out("patient").await;
    let pods: Vec<String> = space.pods_of("patient").await.iter().map(name).collect();
    let [ill, well] = &pods[..] else {
        panic!("{pods:?}")
    };

    let set = |status| [vec!["get".to_owned()], health(status)].concat();
    let run = async |pod: &str, arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        space.probe(pod, &arguments).await.unwrap();
    };
    run(ill, set(503)).await;
    let out = async || {
        let pod = space.pods.get(ill).await.map_err(|error| error.to_string())?;
        if is_ready(&pod) {
            Err("it is ready".to_owned())
        } else {
            Ok(())
        }
    };
    space.eventually("unreadiness", out).await;
    // Once the rules have followed, one pod answers all.
    let mut in_a_row = 0;
    let alone = async || {
        let answer = space.probe(well, &["get", "http://patient/"]).await?;
        in_a_row = if answer == *well { in_a_row + 1 } else { 0 };
        if in_a_row == 10 { Ok(()) } else { Err(answer) }
    };
    space
        .eventually("connections to the other pod alone", alone)
        .await;
    assert_eq!(space.node.restarts(&space.namespace, ill).await.unwrap(), 0);
    run(ill, set(200)).await;
    space.rolled_out("patient").await;

    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["livenessProbe"] = container["readinessProbe"].clone();
    container["livenessProbe"]["failureThreshold"] = json!(3);
    deployment["spec"]["replicas"] = json!(1);
    space.apply(&[deployment]).await;
    space.rolled_out("patient").await;
    let pod = name(&space.pods_of("patient").await[0]);
    run(&pod, set(500)).await;
    let restarted = async || match space.node.restarts(&space.namespace, &pod).await {
        Ok(0) => Err("no restart".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    space.eventually("a restart", restarted).await;
    space.end().await;
}

/// *Scenario*: a Deployment is changed while its Service is asked all the time.
/// *Guarantees*: every pod is replaced, the old ones are asked to end, and no request fails.
#[tokio::test]
async fn a_deployment_rolls_without_a_failed_request() {
    let space = Space::new("roll").await;
    let [mut deployment, service] = servers("rolling", 2);
    let spec = &mut deployment["spec"]["template"]["spec"];
    // Connections come until the rules have followed, which takes seconds where the controllers have little of a core.
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 15}}});
    spec["terminationGracePeriodSeconds"] = json!(30);
    space.apply(&[deployment.clone(), service]).await;
    space.rolled_out("rolling").await;
    let before: BTreeSet<String> = space.pods_of("rolling").await.iter().map(name).collect();

    let services: Api<Service> = Api::namespaced(space.node.plane().admin().await.unwrap(), &space.namespace);
    let address = services
        .get("rolling")
        .await
        .unwrap()
        .spec
        .unwrap()
        .cluster_ip
        .unwrap();
    let url = format!("http://{address}/");
    // A Service that is new has no rules yet.
    let first = async || ask(&url).await;
    space.eventually("an answer of the Service", first).await;
    let stop = CancellationToken::new();
    let asking = tokio::spawn(keep_asking(url, stop.clone()));

    deployment["spec"]["template"]["metadata"]["annotations"] = json!({"revision": "2"});
    let began = Instant::now();
    space.apply(&[deployment]).await;
    space.rolled_out("rolling").await;
    println!("rolled out after {:?}", began.elapsed());
    let after: BTreeSet<String> = space.pods_of("rolling").await.iter().map(name).collect();
    assert!(before.is_disjoint(&after), "{before:?} {after:?}");
    let gone = async || {
        let all = space.pods.list(&kube::api::ListParams::default()).await;
        let left: Vec<String> = all.map_err(|error| error.to_string())?.iter().map(name).collect();
        if left.len() == 2 {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    };
    space.eventually("the end of the old pods", gone).await;
    stop.cancel();
    let (answers, failures) = asking.await.unwrap();
    println!("{} answers", answers.len());
    assert!(failures.is_empty(), "{failures:?}");
    let answered: BTreeSet<String> = answers.into_iter().collect();
    assert!(answered.iter().any(|pod| before.contains(pod)), "{answered:?}");
    assert!(answered.iter().any(|pod| after.contains(pod)), "{answered:?}");
    space.end().await;
}

/// Asks over and over, each time by a connection of its own.
async fn keep_asking(url: String, stop: CancellationToken) -> (Vec<String>, Vec<String>) {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while !stop.is_cancelled() {
        match ask(&url).await {
            Ok(text) => answers.push(text),
            Err(error) => failures.push(format!("after {:?}: {error}", began.elapsed())),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (answers, failures)
}

async fn ask(url: &str) -> Result<String, String> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10));
    let client = client.build().map_err(|error| error.to_string())?;
    let answer = async { client.get(url).send().await?.error_for_status()?.text().await };
    let text = answer.await.map_err(|error| format!("{error:?}"))?;
    Ok(text.trim().to_owned())
}
