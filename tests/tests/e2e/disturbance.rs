//! Pods that go against their will, under steady load.

use std::time::Instant;

use jevmetrics_testkit::poll;
use kube::ResourceExt;
use kube::api::{EvictParams, ListParams};

use crate::site::{Place, WITHIN};
use crate::traffic::Load;

/// *Scenario*: the process of one of three pods is killed on its node, under steady load.
/// *Guarantees*: it is started again; every point sent arrives, and no sender has to give one up.
#[tokio::test]
async fn a_process_killed_on_its_node_loses_nothing() {
    let place = Place::new("killed").await;
    place.apply(&place.spec(3)).await;
    place.rolled_out().await;
    let load = Load::start(&place).await;

    let name = place.members().await.remove(0).name_any();
    place
        .node
        .kill(&place.namespace, &name, "dataplane")
        .await
        .unwrap();
    poll::eventually("its restart", WITHIN, async || {
        match place.node.restarts(&place.namespace, &name).await {
            Ok(1) => Ok(()),
            Ok(restarts) => Err(format!("{restarts} restarts")),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
    .unwrap();
    place.rolled_out().await;
    load.delivered("a killed process").await;
}

/// *Scenario*: the only pod is evicted, as a drain does it, under steady load.
/// *Guarantees*: the budget lets it go; every point arrives once there is a pod again.
#[tokio::test]
async fn a_drain_goes_on_at_one_replica() {
    drain(1).await;
}

/// *Scenario*: three pods are evicted, each as soon as the budget allows it, under steady load.
/// *Guarantees*: as above.
#[tokio::test]
async fn a_drain_goes_on_at_three_replicas() {
    drain(3).await;
}

async fn drain(replicas: i32) {
    let place = Place::new("drain").await;
    place.apply(&place.spec(replicas)).await;
    place.rolled_out().await;
    let load = Load::start(&place).await;

    let before: Vec<String> = place.members().await.iter().map(ResourceExt::name_any).collect();
    let began = Instant::now();
    for name in &before {
        // Waits as long as the budget says `later`.
        let evicted = async || match place.pods.evict(name, &EvictParams::default()).await {
            // It has gone since: the answer to an eviction was lost.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            told => told.map(drop),
        };
        poll::eventually(&format!("the eviction of {name}"), WITHIN, evicted)
            .await
            .unwrap();
    }
    let told = began.elapsed().as_secs_f64();
    poll::eventually("the end of all evicted pods", WITHIN, async || {
        let pods = place
            .pods
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let left = pods
            .into_iter()
            .map(|pod| pod.name_any())
            .find(|name| before.contains(name));
        left.map_or(Ok(()), |name| Err(format!("{name} is there")))
    })
    .await
    .unwrap();
    println!(
        "drain of {replicas}: all told to go after {told:.0} s, gone after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    place.rolled_out().await;
    assert_eq!(place.members().await.len(), before.len());
    load.delivered(&format!("a drain of {replicas}")).await;
}
