//! The API server goes away and comes back.

use std::time::{Duration, Instant};

use jevmetrics_testkit::cluster::{Component, Effect};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use crate::policies::with_replicas;
use crate::site::{Site, WITHIN, leads};
use crate::stage::{changed, unchanged};
use crate::voices::Voices;

const POLICIES: usize = 5;
/// Longer than a leader leads without a renewal, and than others would wait for it.
const AWAY: Duration = Duration::from_secs(25);
/// What comes back at once comes now.
const BURST: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(12);
/// Objects of a policy.
const OWNED: usize = 8;

const SETTLED: [(&str, &str, &str); 3] = [
    ("Ready", "True", "Serving"),
    ("RolledOut", "True", "Complete"),
    ("InferenceHealthy", "True", "Healthy"),
];

/// *Scenario*: the API server is stopped for 25 s and started again.
/// *Guarantees*: the operator's process stays, alive all the time; it leads again, serves a new policy, and writes nothing
/// needless: no change, at most one apply without effect for each object.
#[tokio::test]
async fn an_api_server_that_was_away_finds_the_same_operator() {
    let site = Site::start(1).await;
    let voices = Voices::default();
    voices.give(&site.nodes, &site.namespaces[0], None);
    let operator = site.operator().await;
    let first = site.plane.audit_mark().unwrap();
    site.apply(0..POLICIES, &with_replicas(1)).await;
    site.conditions(POLICIES, &SETTLED).await;
    site.settled(first, QUIET).await;

    let pid = operator.pid();
    site.plane.stop(Component::ApiServer).await.unwrap();
    let mark = site.plane.audit_mark().unwrap();
    let stopped = Instant::now();
    while stopped.elapsed() < AWAY {
        let (status, text) = operator.page("/livez").await.unwrap();
        assert_eq!(status, 200, "{text} after {:?}", stopped.elapsed());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let follows = async || (!operator.leads().await).then_some(());
    poll::until_some("following", WITHIN, follows).await.unwrap();

    site.plane.start_again(Component::ApiServer).await.unwrap();
    let again = Instant::now();
    leads(&operator).await;
    println!("leads again {:?} after the API server is ready", again.elapsed());
    tokio::time::sleep(BURST.saturating_sub(again.elapsed())).await;
    let requests = site.requests(mark);
    println!("{} requests in the first {BURST:?}", requests.len());
    site.apply(POLICIES..POLICIES + 1, &with_replicas(1)).await;
    let new = site.place(POLICIES).1;
    let objects = || {
        let prefix = format!("{new}-");
        let mut writes = site.writes(mark);
        writes.retain(|write| {
            write.name.starts_with(&prefix) && write.effect == Effect::Changed && write.resource != "events"
        });
        writes.len()
    };
    let applied = Instant::now();
    poll::until("the objects of a new policy", WITHIN, || objects() == OWNED)
        .await
        .unwrap();
    println!("a new policy has its objects after {:?}", applied.elapsed());
    let pods: Api<Pod> = Api::namespaced(site.client.clone(), &site.namespaces[0]);
    poll::eventually("its pod", WITHIN, async || {
        match pods.list(&ListParams::default()).await {
            Ok(pods) if pods.items.len() == POLICIES + 1 => Ok(()),
            other => Err(format!("{:?}", other.map(|pods| pods.items.len()))),
        }
    })
    .await
    .unwrap();
    println!("the controllers have made its pod after {:?}", applied.elapsed());
    site.conditions(POLICIES + 1, &SETTLED[..2]).await;
    println!("it is ready after {:?}", applied.elapsed());
    site.conditions(POLICIES + 1, &SETTLED).await;
    println!("it has settled after {:?}", applied.elapsed());

    let mut writes = site.settled(mark, QUIET).await;
    let prefix = format!("{new}-");
    writes
        .retain(|write| write.name != new && !write.name.starts_with(&prefix) && write.resource != "events");
    assert_eq!(changed(&writes), [""; 0]);
    assert!(
        unchanged(&writes).len() <= OWNED * POLICIES,
        "{:#?}",
        unchanged(&writes)
    );
    println!(
        "0 needless writes, {} applies that changed nothing",
        unchanged(&writes).len()
    );
    assert_eq!(operator.pid(), pid);
    assert!(operator.stop().await.unwrap().success());
}
