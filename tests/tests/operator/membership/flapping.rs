//! A pod that comes and goes, under settings that hold and settle for less than it takes to come back.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Scene;

const PODS: usize = 10;
const FLAP: Duration = Duration::from_secs(5);
const A_MINUTE: Duration = Duration::from_mins(1);
const MOST_EPOCHS_A_MINUTE: usize = 2;

/// *Scenario*: readiness of one pod of ten is 5 s off and 5 s on for a minute; its slot is held for 2 s, and it would settle
/// within 1 s.
/// *Guarantees*: at most two epochs in any minute; nobody else's keys move; once it stays ready it owns a slot again.
#[tokio::test]
async fn a_pod_that_comes_and_goes_takes_two_epochs_a_minute() {
    let routing = json!({"settleSeconds": 1, "holdSeconds": 2});
    let scene = Scene::with_policy("flapping", PODS, &routing).await;
    let _operator = scene.stage.operator().await;
    let before = scene.whole(PODS).await;
    let flapping = &before.owners()[3];
    let namespace = &scene.stage.namespace;
    let (began, mut flaps) = (Instant::now(), 0);
    while began.elapsed() < A_MINUTE {
        for is_ready in [false, true] {
            let set = scene.nodes.set_ready(namespace, &flapping.name, is_ready);
            set.await.unwrap();
            tokio::time::sleep(FLAP).await;
        }
        flaps += 1;
    }
    let table = scene.whole(PODS).await;
    let most = scene.record.most_in_a_minute(before.epoch());
    let tables = scene.record.since(before.epoch());
    println!(
        "{flaps} times {FLAP:?} off and on: {} epochs until it stays, at most {most} in a minute",
        tables.len() - 1
    );
    assert!((1..=MOST_EPOCHS_A_MINUTE).contains(&most), "{most}");
    assert_eq!(table.slot_of(&flapping.uid), Some(flapping.slot));
    for owner in before.owners().iter().filter(|owner| owner.uid != flapping.uid) {
        assert!(
            tables
                .iter()
                .all(|table| table.slot_of(&owner.uid) == Some(owner.slot))
        );
    }
}
