//! 200 pods under one policy, from the first table to a scale-down in the middle of a rollout.
//!
//! One test, because 200 pods take longer to come than most of what happens to them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jevmetrics_api::policy::MembershipState;
use jevmetrics_testkit::cluster::{Effect, Mark, Operator};
use jevmetrics_testkit::poll;
use serde_json::json;

use super::Scene;
use super::record::{assert_gapless, most_within, moves, percentiles};
use crate::site::WITHIN;
use crate::stage::changed;

const PODS: usize = 200;
/// Those that are left after the scale-down.
const FEW: usize = 60;
/// Longer than a poll.
const STEADY: Duration = Duration::from_secs(12);
/// `holdSeconds` is not set: 15, and a bit.
const LONGER_THAN_HELD: Duration = Duration::from_secs(17);
/// Owners that are deleted one after the other, and those that are deleted together.
const LEAVERS: usize = 10;
const TOGETHER: usize = 2;
/// Times that a pod fails its probe and passes again, and how long it stays so.
const FLAPS: usize = 2;
const FLAP: Duration = Duration::from_secs(5);
/// Moves of a key in a rollout.
const MOST_MOVES: f64 = 1.10;
/// Writes of the status in a minute.
const STATUS_WRITES_A_MINUTE: usize = 12;

/// *Scenario*: 200 pods come; ten leave one after the other, two together; one flaps; 60 % fail their probes at once and
/// come back; a revision goes out; in the middle of the next one the policy is scaled to 60.
/// *Guarantees*: who leaves is out of the table before it stops; no key moves without a reason; a rollout moves each about
/// once; who flaps keeps its slot; with 60 % unready the table stays, and everything heals without another one; at most
/// one table a second, at most 12 statuses a minute, and nothing at all when nothing happens.
#[tokio::test]
async fn two_hundred_pods() {
    let began = Instant::now();
    let scene = Scene::with_policy("hundreds", PODS, &json!({"settleSeconds": 1})).await;
    let start = scene.stage.plane.audit_mark().unwrap();
    let operator = scene.stage.operator().await;
    come(&scene).await;
    println!("200 pods are members {:?} after the policy", began.elapsed());
    steady(&scene, &operator).await;
    leave(&scene).await;
    flap(&scene, &operator).await;
    fail_together(&scene).await;
    roll_out(&scene, &operator).await;
    scale_down_in_a_rollout(&scene).await;

    let tables = scene.record.tables();
    assert_gapless(&tables);
    let all = moves(&tables);
    println!(
        "{} tables, a key moved {all:.2} times, never without a reason",
        tables.len()
    );
    assert_paced(&scene, &operator, start);
    operator.stop().await.unwrap();
}

/// From nothing to a whole table.
async fn come(scene: &Scene) {
    scene.whole(PODS).await;
    scene.converged(PODS).await;
    let tables = scene.record.tables();
    let sizes: Vec<usize> = tables.iter().map(|table| table.owners().len()).collect();
    assert!(sizes[0] >= PODS / 2, "{sizes:?}");
    assert!(sizes.is_sorted(), "{sizes:?}");
    println!("the first tables have {sizes:?} members");
}

/// Nothing is written while nothing happens.
async fn steady(scene: &Scene, operator: &Operator) {
    scene.stage.rolled_out("jm").await;
    // What pods say counts when they have said it twice.
    scene.stage.healthy().await;
    scene.stage.versioned().await;
    let mark = scene.stage.plane.audit_mark().unwrap();
    scene.stage.settled(operator, mark).await;
    let mark = scene.stage.plane.audit_mark().unwrap();
    // That nothing happens can only be waited for.
    tokio::time::sleep(STEADY).await;
    assert_eq!(changed(&scene.stage.writes(operator, mark)), [""; 0]);
    println!("{STEADY:?} without an event: 0 writes");
}

async fn leave(scene: &Scene) {
    let (start, before) = (Instant::now(), scene.record.latest().unwrap());
    for owner in before.owners().iter().step_by(PODS / LEAVERS) {
        scene.delete_pod(&owner.name).await;
        scene.has_left(&owner.uid).await;
    }
    let after = scene.record.latest().unwrap();
    let together = after.owners().iter().rev().take(TOGETHER);
    let together: Vec<_> = together.collect();
    join_all(together.iter().map(|owner| scene.delete_pod(&owner.name))).await;
    for owner in &together {
        scene.has_left(&owner.uid).await;
    }
    scene.whole(PODS).await;
    let left = scene.record.leave_times(start);
    assert_eq!(left.len(), LEAVERS + TOGETHER);
    println!("from a deletion to the table without it: {}", percentiles(left));
    let joined = scene.record.join_times(start);
    println!("from ready to the table with it: {}", percentiles(joined));
}

/// A pod fails its probe for less than its slot is held.
async fn flap(scene: &Scene, operator: &Operator) {
    scene.converged(PODS).await;
    let before = scene.record.latest().unwrap();
    let (mark, namespace) = (scene.stage.plane.audit_mark().unwrap(), &scene.stage.namespace);
    let name = &before.owners()[7].name;
    for _ in 0..FLAPS {
        for is_ready in [false, true] {
            scene.nodes.set_ready(namespace, name, is_ready).await.unwrap();
            tokio::time::sleep(FLAP).await;
        }
    }
    assert_eq!(scene.record.latest().unwrap(), before, "no epoch");
    assert_eq!(changed(&scene.table_writes(operator, mark)), [""; 0]);
    println!("{FLAPS} times {FLAP:?} unready and ready again: 0 epochs");
}

/// 60 % are unready at once, for longer than one alone would be held.
async fn fail_together(scene: &Scene) {
    let before = scene.record.latest().unwrap();
    let failing = &before.owners()[..PODS * 6 / 10];
    let set_all = async |is_ready| {
        let set = failing.iter().map(|owner| {
            let namespace = &scene.stage.namespace;
            scene.nodes.set_ready(namespace, &owner.name, is_ready)
        });
        for result in join_all(set).await {
            result.unwrap();
        }
    };
    let started = Instant::now();
    set_all(false).await;
    println!("{} pods are unready after {:?}", failing.len(), started.elapsed());
    let message = scene
        .stage
        .condition("jm", "RoutingConverged", "False", "Frozen")
        .await;
    println!("{message}");
    tokio::time::sleep(LONGER_THAN_HELD).await;
    assert_eq!(scene.record.latest().unwrap(), before, "frozen");
    let policy = scene.stage.policies.get("jm").await.unwrap();
    let members = policy.status.unwrap().members;
    let held = members
        .iter()
        .filter(|member| member.state == MembershipState::Held);
    assert_eq!(held.count(), failing.len());

    set_all(true).await;
    scene.converged(PODS).await;
    assert_eq!(
        scene.record.latest().unwrap(),
        before,
        "healed without another table"
    );
}

async fn roll_out(scene: &Scene, operator: &Operator) {
    let (start, before) = (Instant::now(), scene.record.latest().unwrap());
    let mark = scene.stage.plane.audit_mark().unwrap();
    scene.stage.patch("jm", &json!({"revision": "2"})).await;
    let replaced = || {
        let table = scene.record.latest().unwrap();
        before
            .owners()
            .iter()
            .all(|owner| table.slot_of(&owner.uid).is_none())
    };
    poll::until("a table without old pods", WITHIN, replaced)
        .await
        .unwrap();
    scene.whole(PODS).await;
    scene.stage.rolled_out("jm").await;
    println!("a revision of 200 pods went out in {:?}", start.elapsed());

    let tables = scene.record.since(before.epoch());
    assert_gapless(&tables);
    let moved = moves(&tables);
    let least = tables.iter().map(|table| table.owners().len()).min();
    println!(
        "{} tables, {moved:.3} moves a key, at least {} members",
        tables.len() - 1,
        least.unwrap()
    );
    assert!(moved <= MOST_MOVES, "{moved} moves a key");
    let left = scene.record.leave_times(start);
    println!("from a deletion to the table without it: {}", percentiles(left));
    println!("{} writes in all", scene.stage.writes(operator, mark).len());
}

/// When pods of the new revision own slots, fewer are wanted.
async fn scale_down_in_a_rollout(scene: &Scene) {
    let before = scene.record.latest().unwrap();
    scene.stage.patch("jm", &json!({"revision": "3"})).await;
    let is_under_way = || {
        let table = scene.record.latest().unwrap();
        before
            .owners()
            .iter()
            .any(|owner| table.slot_of(&owner.uid).is_none())
    };
    poll::until("a new pod that owns a slot", WITHIN, is_under_way)
        .await
        .unwrap();
    let start = Instant::now();
    scene.stage.patch("jm", &json!({"replicas": FEW})).await;
    let are_few = || {
        let table = scene.record.latest().unwrap();
        let living = scene.record.living();
        table.owners().len() == FEW && table.owners().iter().all(|owner| living.contains(&owner.uid))
    };
    poll::until("a table of as many as are wanted", WITHIN, are_few)
        .await
        .unwrap();
    println!(
        "scaled from {PODS} to {FEW} within a rollout in {:?}",
        start.elapsed()
    );
    let tables = scene.record.since(before.epoch());
    assert_gapless(&tables);
    println!("{} tables, {:.3} moves a key", tables.len() - 1, moves(&tables));
    let left = scene.record.leave_times(start);
    println!("from a deletion to the table without it: {}", percentiles(left));
    // The rollout goes on; what is left of it is as before.
    let routing = scene.routing_status().await.unwrap();
    println!(
        "the status says {} members, {}",
        routing.members, routing.converged
    );
}

/// Tables and statuses, counted by the API server.
fn assert_paced(scene: &Scene, operator: &Operator, start: Mark) {
    let tables = scene.table_writes(operator, start);
    let changes = tables.iter().filter(|write| write.effect == Effect::Changed);
    let times: Vec<_> = changes.map(|write| write.received).collect();
    let in_a_second = most_within(&times, |from, to| to.duration_since(*from).as_secs_f64() < 1.0);
    assert_eq!(in_a_second, 1, "tables in a second");
    let writes = scene.stage.writes(operator, start);
    let statuses = writes.iter().filter(|write| write.subresource == "status");
    let statuses: Vec<_> = statuses.map(|write| write.received).collect();
    let in_a_minute = most_within(&statuses, |from, to| {
        to.duration_since(*from).as_secs_f64() < 60.0
    });
    println!(
        "{} writes of the live object, never two in a second; {} of the status, at most {in_a_minute} in a minute",
        tables.len(),
        statuses.len()
    );
    assert!(in_a_minute <= STATUS_WRITES_A_MINUTE, "{in_a_minute}");
}
