//! All of it on Kubernetes: a cluster with one real node, the chart, stand-ins as pods, a policy, load, other numbers of
//! pods, a new revision.

mod members;
mod person;
mod standins;
mod watch;

use std::path::Path;
use std::time::{Duration, Instant};

use jevmetrics_testkit::node::{Forward, Node, NodeOptions, images_folder};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::steady::Counts;
use serde_json::Value;

use self::person::Person;
use self::standins::StandIns;
use crate::{Failure, report};

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(5);
const NAMESPACE: &str = "monitoring";
const SYSTEM: &str = "jevmetrics-system";
/// What the example leaves at its default, for there is no Jev in the cluster but ours.
const MOCK: &str = r#"{"spec":{"inference":{"baseURL":"http://jev.monitoring.svc:8080"}}}"#;
/// The port of the pages that explain, on loopback in the pod.
const ADMIN: u16 = 9465;
const REVISION: &str = r#"{"spec":{"revision":"2"}}"#;

/// Plays it, and prints the last line: that of the other part, which is in `result`, and what the cluster says.
pub(crate) async fn play(result: Option<&Path>) -> Result<bool, Failure> {
    println!("\n5. A Kubernetes cluster in a sandbox: network, mounts and processes of its own");
    let began = Instant::now();
    let node = Node::start(NodeOptions {
        images: images_folder()?,
        ..NodeOptions::default()
    })
    .await?;
    println!(
        "   control plane, node and DNS are ready after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    let person = Person { node: &node };

    println!("\n6. The operator by its chart; a mock of Jev and a counting backend as pods");
    person
        .helm(&format!(
            "install jevmetrics charts/jevmetrics -n {SYSTEM} --create-namespace --wait"
        ))
        .await?;
    person
        .apply(
            "kubectl apply --server-side -f stand-ins.yaml",
            &standins::around(),
        )
        .await?;

    println!("\n7. A policy: docs/examples/policy.yaml, led to the mock");
    let began = Instant::now();
    let led = format!("patch --local -f docs/examples/policy.yaml --type=merge -p '{MOCK}' -o yaml");
    let policy = person.quietly(&led).await?;
    person
        .apply(
            &format!("kubectl {led} | kubectl apply --server-side -n {NAMESPACE} -f -"),
            &policy,
        )
        .await?;
    person
        .kubectl(&format!(
            "wait jmp/metrics -n {NAMESPACE} --for=condition=Ready --timeout=5m"
        ))
        .await?;
    println!("   Ready after {:.0} s", began.elapsed().as_secs_f64());
    person
        .quietly(&format!(
            "wait jmp/metrics -n {NAMESPACE} --for=condition=RolledOut --timeout=5m"
        ))
        .await?;
    person.kubectl(&format!("get jmp -n {NAMESPACE} -o wide")).await?;

    println!("\n8. Applications send to the Service; each pod asks about what it sees, and decides");
    person
        .apply("kubectl apply --server-side -f sender.yaml", &standins::sender())
        .await?;
    let standins = StandIns::find(&person).await?;
    let names = instruments(&standins.delivered(1_000).await?);
    show_decisions(&person, &names).await?;

    println!("\n9. Members: each resource has one pod that owns it; more pods and fewer, under load");
    members::show(&person).await?;
    members::scale(&person, 5).await?;
    members::scale(&person, 3).await?;

    println!("\n10. A new revision, under load");
    let began = Instant::now();
    person
        .kubectl(&format!(
            "patch jmp metrics -n {NAMESPACE} --type=merge -p '{REVISION}'"
        ))
        .await?;
    let summary = watch::rollout(&person, "2").await?;
    println!(
        "   every pod is replaced after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    person.kubectl(&format!("get jmp -n {NAMESPACE}")).await?;

    let (counts, comparison) = standins.finish().await?;
    println!(
        "   sender:  {} exports, {} sent again, {} given up",
        counts.requests, counts.retries, counts.failed_exports
    );
    println!("   backend: {comparison}");
    let holds = comparison.is_complete() && counts.failed_exports == 0 && summary.is("2", 3);
    let before = match result {
        Some(file) => std::fs::read_to_string(file)?,
        None => "demo:".to_owned(),
    };
    println!("\n{} {summary}", before.trim());
    Ok(holds)
}

fn instruments(counts: &Counts) -> Vec<String> {
    let names = counts
        .kept_instruments
        .iter()
        .chain(&counts.droppable_instruments);
    names.cloned().collect()
}

/// What one pod has decided, once it has an answer for all that it has seen.
async fn show_decisions(person: &Person<'_>, names: &[String]) -> Result<(), Failure> {
    let pods = person
        .quietly(&format!(
            "get pods -n {NAMESPACE} -l jevmetrics.io/policy=metrics -o name"
        ))
        .await?;
    // A Service divides connections at random: one pod may have none yet.
    for pod in pods.lines() {
        println!("   $ kubectl port-forward -n {NAMESPACE} {pod} {ADMIN}");
        let forward = person.node.forward(NAMESPACE, pod, ADMIN).await?;
        let judged = async || match summary(&forward).await? {
            Summary { instruments: 0, .. } => Ok(false),
            Summary { awaiting: 0, .. } => Ok(true),
            Summary { awaiting, .. } => Err(format!("{awaiting} instruments await an answer").into()),
        };
        if poll::eventually::<_, Failure>("answers", PATIENCE, judged).await? {
            return report::decisions(async |path| page(&forward, &path).await, names).await;
        }
    }
    Err("no pod has seen a metric".into())
}

struct Summary {
    instruments: u64,
    awaiting: u64,
}

async fn page(forward: &Forward, path: &str) -> Result<Value, Failure> {
    Ok(serde_json::from_str(&forward.get(path).await?)?)
}

async fn summary(forward: &Forward) -> Result<Summary, Failure> {
    let page = page(forward, "/api/summary").await?;
    let rows = page["identities"]["now"].as_array().cloned().unwrap_or_default();
    let sum = |wanted: &dyn Fn(&Value) -> bool| {
        let rows = rows.iter().filter(|row| wanted(row));
        rows.filter_map(|row| row["instruments"].as_u64()).sum()
    };
    Ok(Summary {
        instruments: sum(&|_| true),
        awaiting: sum(&|row| {
            row["reason"]
                .as_str()
                .is_some_and(|reason| reason.starts_with("awaiting_"))
        }),
    })
}
