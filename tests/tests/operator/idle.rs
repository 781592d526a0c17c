//! What has settled stays untouched, whatever pods count and say meanwhile.

use std::time::{Duration, Instant};

use jevmetrics_api::member::{CoordinationReport, CoordinationState};
use jevmetrics_testkit::poll;
use serde_json::json;

use crate::coordination;
use crate::policies::with_replicas;
use crate::site::{Site, WITHIN, count};
use crate::stage::{changed, unchanged};
use crate::voices::{MODEL, Voices};

const POLICIES: usize = 50;
/// Those of them whose pods share.
const SHARING: usize = 25;
/// A dozen polls of every pod.
const IDLE: Duration = Duration::from_mins(2);
/// Longer than two polls: what they turn has turned.
const QUIET: Duration = Duration::from_secs(12);
/// Objects of a policy.
const OWNED: usize = 8;

const SETTLED: [(&str, &str, &str); 4] = [
    ("Ready", "True", "Serving"),
    ("RolledOut", "True", "Complete"),
    ("ConfigurationValid", "True", "Valid"),
    ("InferenceHealthy", "True", "Healthy"),
];

/// *Scenario*: 50 policies; clock, locks and latest trouble of every pod change with each poll. Then the operator is
/// started anew.
/// *Guarantees*: for two minutes nothing is written but the Lease: no object, no status, no event, and no apply that
/// changes nothing. A restart writes nothing either; it may apply each object once, without effect.
#[tokio::test]
async fn idle_means_no_writes_while_pods_go_on_counting() {
    let site = Site::start(4).await;
    let voices = Voices::default();
    for namespace in &site.namespaces {
        voices.give(&site.nodes, namespace, None);
    }
    voices.all_share(Some(&CoordinationReport {
        namespace: "shared".to_owned(),
        state: CoordinationState::Healthy,
        generation: 1,
        highest_generation: 1,
        ..CoordinationReport::default()
    }));
    let mut sharing = coordination::sharing();
    sharing["replicas"] = json!(1);
    let operator = site.operator().await;
    let (began, first) = (Instant::now(), site.plane.audit_mark().unwrap());
    site.apply(0..SHARING, &sharing).await;
    site.apply(SHARING..POLICIES, &with_replicas(1)).await;
    site.conditions(POLICIES, &SETTLED).await;
    println!("{POLICIES} policies have settled after {:?}", began.elapsed());
    let mut counted = 0;
    for policy in site.policies().await.unwrap() {
        let status = policy.status.unwrap();
        assert_eq!(status.inference.unwrap().model.as_deref(), Some(MODEL));
        counted += usize::from(status.coordination.is_some_and(|of| of.generation == Some(1)));
    }
    assert_eq!(counted, SHARING);
    let writes = site.settled(first, QUIET).await;
    println!("{} writes, {} a policy", writes.len(), writes.len() / POLICIES);

    let polls = "jevmetrics_operator_polls_total{result=\"answered\"}";
    let (asked, mark) = (count(&operator, polls).await, site.plane.audit_mark().unwrap());
    let (pods, least) = voices.least_asked();
    // That nothing happens can only be waited for.
    tokio::time::sleep(IDLE).await;
    let writes = site.writes(mark);
    assert!(
        writes.is_empty(),
        "{:#?} {:#?}",
        changed(&writes),
        unchanged(&writes)
    );
    let asked = count(&operator, polls).await - asked;
    let (still, now) = voices.least_asked();
    assert_eq!((pods, still), (POLICIES, POLICIES));
    assert!(now >= least + 8, "a pod was asked {} times", now - least);
    println!(
        "{IDLE:?}: 0 writes, {asked} polls, {} other requests",
        site.requests(mark).len()
    );

    assert!(operator.stop().await.unwrap().success());
    let mark = site.plane.audit_mark().unwrap();
    let (_, least) = voices.least_asked();
    let operator = site.operator().await;
    let reconciled = async || {
        let reconciles = count(
            &operator,
            "jevmetrics_operator_reconciles_total{result=\"success\"}",
        )
        .await;
        (reconciles >= POLICIES as u64 && voices.least_asked().1 >= least + 3).then_some(())
    };
    poll::until_some("three polls and a look at each policy", WITHIN, reconciled)
        .await
        .unwrap();
    let writes = site.settled(mark, QUIET).await;
    assert_eq!(changed(&writes), [""; 0], "writes of a restart");
    assert!(unchanged(&writes).len() <= OWNED * POLICIES, "{}", writes.len());
    println!(
        "a restart: 0 writes, {} applies that changed nothing",
        unchanged(&writes).len()
    );
    operator.stop().await.unwrap();
}
