//! Somebody writes to the live object, or claims epochs, under an operator that runs.

use std::sync::Arc;

use jevmetrics_api::routing::{ClusterIdentity, MAX_EPOCH, RoutingTable};
use jevmetrics_testkit::poll;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Scene;
use crate::stage::WITHIN;

const PODS: usize = 3;

impl Scene {
    /// Waits until the live object has a table of this policy with all pods and an epoch that is high enough; no table of
    /// an epoch that was seen before may be another one.
    async fn healed(&self, what: &str, least: u64) -> Arc<RoutingTable> {
        let look = async || {
            let table = self.live_table().await?;
            let is_ours = table.header().cluster.namespace == self.stage.namespace;
            if is_ours && table.epoch() >= least && table.owners().len() == PODS {
                return Ok(table);
            }
            Err(format!("{table:?}"))
        };
        let waited_for = format!("{what}: epoch {least}");
        let table = poll::eventually(&waited_for, WITHIN, look).await;
        let table = Arc::new(table.unwrap());
        println!("{what}: epoch {}", table.epoch());
        // Pods take up what the watch shows.
        let shows = || {
            let latest = self.record.latest();
            latest.is_some_and(|latest| latest.epoch() >= table.epoch())
        };
        poll::until("the table in the watch", WITHIN, shows)
            .await
            .unwrap();
        table
    }
}

/// `table` as the one of this epoch, without all owners but the first.
fn with_one_owner(table: &RoutingTable, epoch: u64) -> RoutingTable {
    RoutingTable::new(epoch, table.header().clone(), table.owners()[..1].to_vec()).unwrap()
}

/// The table of another policy.
fn of_a_stranger(table: &RoutingTable, epoch: u64) -> RoutingTable {
    let mut header = table.header().clone();
    header.cluster = ClusterIdentity {
        namespace: "elsewhere".to_owned(),
        policy: "another".to_owned(),
    };
    RoutingTable::new(epoch, header, table.owners()[..1].to_vec()).unwrap()
}

/// *Scenario*: the live object is deleted; a text that is no table is put into it, the table of a stranger, an earlier one
/// of its own, an edited one; then a pod and the status know a later epoch than the table has.
/// *Guarantees*: all pods own their slots again each time; the epoch is above every readable one, and never below one that
/// pods have seen; of one epoch there is one table.
#[tokio::test]
async fn whatever_is_put_into_the_live_object_the_next_table_is_above_it() {
    let scene = Scene::with_policy("touched", PODS, &json!({"settleSeconds": 1})).await;
    let _operator = scene.stage.operator().await;
    let first = scene.whole(PODS).await;
    scene.converged(PODS).await;

    scene.delete_live().await;
    let table = scene.healed("deleted", first.epoch()).await;
    assert!(
        table == first || table.epoch() > first.epoch(),
        "one table an epoch"
    );

    scene.put_table("schema: [").await;
    let table = scene.healed("garbage", first.epoch()).await;
    assert!(
        table == first || table.epoch() > first.epoch(),
        "one table an epoch"
    );

    let strange = of_a_stranger(&table, table.epoch() + 50);
    scene.put_table(&strange.to_yaml()).await;
    let table = scene.healed("a stranger's", strange.epoch() + 1).await;
    assert_eq!(table.owners(), first.owners());

    scene.put_table(&of_a_stranger(&table, MAX_EPOCH).to_yaml()).await;
    let table = scene
        .healed("a stranger's with the last epoch", table.epoch())
        .await;
    assert!(table.epoch() < MAX_EPOCH);

    scene.put_table(&first.to_yaml()).await;
    let again = scene.healed("an earlier one", table.epoch()).await;
    assert!(
        again == table || again.epoch() > table.epoch(),
        "one table an epoch"
    );

    let edited = with_one_owner(&again, again.epoch());
    scene.put_table(&edited.to_yaml()).await;
    let table = scene.healed("an edited one", again.epoch() + 1).await;

    let later = with_one_owner(&table, table.epoch() + 20);
    scene.put_table(&later.to_yaml()).await;
    let later = scene.healed("a later one", later.epoch() + 1).await;

    let (claimed, pod) = (later.epoch() + 40, &later.owners()[1].name);
    scene.voices.reach(pod, claimed);
    let table = scene.healed("a pod knows a later one", claimed + 1).await;

    // Else a status that is still to be written could take the place of the claim.
    scene.converged(PODS).await;
    let claimed = table.epoch() + 60;
    let claim = Patch::Merge(json!({"status": {"routing": {"epoch": claimed}}}));
    let params = PatchParams::default();
    scene
        .stage
        .policies
        .patch_status("jm", &params, &claim)
        .await
        .unwrap();
    // The operator's own status is no reason to look at a policy: this is.
    scene.delete_live().await;
    let table = scene.healed("the status knows a later one", claimed + 1).await;
    assert_eq!(table.owners().len(), PODS);
    scene.converged(PODS).await;
}
