//! Two operators at a time, and one after the other in the middle of a leave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jevmetrics_api::routing::RoutingTable;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Scene;
use super::record::assert_gapless;
use crate::interrupted::{Mortal, client, term};
use crate::site::leads;
use crate::stage;

const PODS: usize = 4;
/// So much later than those of the other arrive the writes of one of them: its tables are made of what was.
const ON_THE_WAY: Duration = Duration::from_millis(400);
/// Tables that two operators would write in turn come more often.
const QUIET: Duration = Duration::from_secs(6);

/// Epochs rise, and of one epoch there is one table.
fn assert_one_history(tables: &[Arc<RoutingTable>]) {
    let mut by_epoch: BTreeMap<u64, &RoutingTable> = BTreeMap::new();
    for table in tables {
        let latest = by_epoch.last_key_value().map_or(0, |(epoch, _)| *epoch);
        assert!(table.epoch() > latest, "epoch {} after {latest}", table.epoch());
        by_epoch.insert(table.epoch(), table);
    }
}

/// *Scenario*: two operators both believe that they lead, the writes of one arriving late; pods are deleted one after the
/// other; then one of the two goes.
/// *Guarantees*: epochs never go back, and none is given to two tables; both come to rest on one table of the living pods.
#[tokio::test]
async fn two_operators_at_a_time_make_one_history() {
    let scene = Scene::with_policy("two", PODS, &json!({"settleSeconds": 1})).await;
    let (slow, quick) = (Mortal::slow(ON_THE_WAY), Mortal::slow(Duration::ZERO));
    let stops = [CancellationToken::new(), CancellationToken::new()];
    let mut running = Vec::new();
    for (life, stop) in [&slow, &quick].into_iter().zip(&stops) {
        let client = client(&scene.stage, life).await;
        running.push(tokio::spawn(term(&scene.stage, client).run(stop.clone())));
    }
    let first = scene.whole(PODS).await;
    for owner in first.owners() {
        scene.delete_pod(&owner.name).await;
        scene.has_left(&owner.uid).await;
    }
    scene.whole(PODS).await;
    let writes = || scene.record.tables().len();
    scene
        .stage
        .eventually("rest", async || {
            let before = writes();
            tokio::time::sleep(QUIET).await;
            if writes() == before {
                Ok(())
            } else {
                Err("more tables")
            }
        })
        .await;
    stops[0].cancel();
    let last = scene.record.latest().unwrap();
    let owner = &last.owners()[0];
    scene.delete_pod(&owner.name).await;
    scene.has_left(&owner.uid).await;
    scene.whole(PODS).await;
    stops[1].cancel();
    for running in running {
        running.await.unwrap();
    }
    let tables = scene.record.tables();
    assert_one_history(&tables);
    println!("{} tables of two operators, one history", tables.len());
}

/// *Scenario*: a pod is deleted, and in that moment the leader is killed.
/// *Guarantees*: the table stays until another leads; that one makes one table without the pod, with the next epoch; the
/// others keep their slots.
#[tokio::test]
async fn a_leader_that_is_killed_under_a_leave_is_followed_by_one_table() {
    let routing = json!({"settleSeconds": 1, "holdSeconds": 3});
    let scene = Scene::with_policy("follows", PODS, &routing).await;
    let first = scene.stage.rival("first").await;
    leads(&first).await;
    let second = scene.stage.rival("second").await;
    let before = scene.whole(PODS).await;
    let leaver = &before.owners()[1];
    drop(first);
    scene.delete_pod(&leaver.name).await;
    let killed = Instant::now();
    leads(&second).await;
    println!("another leads {:?} after the kill", killed.elapsed());
    scene.has_left(&leaver.uid).await;
    println!("the pod has left {:?} after its deletion", killed.elapsed());
    let after = scene.whole(PODS).await;
    for owner in before.owners().iter().filter(|owner| owner.uid != leaver.uid) {
        assert_eq!(after.slot_of(&owner.uid), Some(owner.slot));
    }
    let tables = scene.record.since(before.epoch());
    assert_gapless(&tables);
    assert_eq!(after.slot_of(&leaver.uid), None);
    assert_eq!(tables.len(), 2, "one table");
    let mark = scene.stage.plane.audit_mark().unwrap();
    stage::settled(QUIET, || scene.table_writes(&second, mark)).await;
    assert_eq!(scene.record.latest().unwrap(), after);
}
