//! While no operator runs nothing changes, and the next one goes on above every epoch that anybody knows.

use std::sync::Arc;

use jevmetrics_api::routing::{Owner, RoutingTable};
use jevmetrics_operator::membership::HEARSAY_LAG;
use jevmetrics_testkit::poll;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Scene;
use super::record::assert_gapless;
use crate::stage::WITHIN;

const PODS: usize = 3;

impl Scene {
    /// Waits until others are ready in the place of these.
    async fn replaced(&self, owners: &[Owner]) {
        let look = async || {
            let living = self.record.living();
            let left = owners.iter().filter(|owner| living.contains(&owner.uid)).count();
            if living.len() == PODS && left == 0 {
                Ok(())
            } else {
                Err(format!("{left} of {} are left", living.len()))
            }
        };
        self.stage.eventually("other pods", look).await;
    }

    async fn live_version(&self) -> Option<String> {
        self.live().get(super::LIVE).await.unwrap().resource_version()
    }

    /// Waits for a table of all pods that is later than this epoch.
    async fn later(&self, epoch: u64) -> Arc<RoutingTable> {
        let what = format!("an epoch after {epoch}");
        let is_later = || self.record.latest().is_some_and(|table| table.epoch() > epoch);
        poll::until(&what, WITHIN, is_later).await.unwrap();
        self.whole(PODS).await
    }
}

/// *Scenario*: the operator stops; two of three pods are replaced; it starts. Then, while it is stopped, the live object is
/// deleted; and another time the status is wiped as well.
/// *Guarantees*: without an operator the table stays as it is, to the byte; the next one makes one table of what has
/// happened; no epoch comes twice, as long as the table, the status or the pods know it.
#[tokio::test]
async fn nothing_changes_without_an_operator_and_the_next_one_goes_on_from_there() {
    let routing = json!({"settleSeconds": 1, "holdSeconds": 3});
    let scene = Scene::with_policy("absent", PODS, &routing).await;
    let operator = scene.stage.operator().await;
    let before = scene.whole(PODS).await;
    scene.converged(PODS).await;
    operator.stop().await.unwrap();

    let version = scene.live_version().await;
    let (replaced, kept) = before.owners().split_at(2);
    for owner in replaced {
        scene.delete_pod(&owner.name).await;
    }
    scene.replaced(replaced).await;
    assert_eq!(
        scene.live_version().await,
        version,
        "nobody has touched the live object"
    );
    let operator = scene.stage.operator().await;
    let after = scene.whole(PODS).await;
    let tables = scene.record.since(before.epoch());
    assert_gapless(&tables);
    assert_eq!(tables.len(), 2, "one table for both that were replaced");
    assert_eq!(after.slot_of(&kept[0].uid), Some(kept[0].slot));
    scene.converged(PODS).await;
    operator.stop().await.unwrap();

    scene.delete_live().await;
    let operator = scene.stage.operator().await;
    let again = scene.later(after.epoch()).await;
    assert!(
        again.epoch() > after.epoch() + HEARSAY_LAG,
        "above all that the status may have missed"
    );
    scene.converged(PODS).await;
    operator.stop().await.unwrap();

    scene.delete_live().await;
    let wipe = Patch::Merge(json!({"status": null}));
    let params = PatchParams::default();
    scene
        .stage
        .policies
        .patch_status("jm", &params, &wipe)
        .await
        .unwrap();
    let _operator = scene.stage.operator().await;
    let last = scene.later(again.epoch()).await;
    println!(
        "epochs {} {} {} {}",
        before.epoch(),
        after.epoch(),
        again.epoch(),
        last.epoch()
    );
    scene.converged(PODS).await;
}
