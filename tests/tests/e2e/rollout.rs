//! New revisions under steady load.

use std::time::Instant;

use kube::ResourceExt as _;
use serde_json::json;

use crate::site::Place;
use crate::traffic::Load;

/// Waits until the operator has looked at the present spec and every pod runs it; then all pods must be of `revision`.
async fn runs(place: &Place, revision: &str) {
    place.rolled_out().await;
    let pods = place.members().await;
    let labels = pods
        .iter()
        .map(|pod| pod.labels()["jevmetrics.io/revision"].clone());
    let labels: Vec<String> = labels.collect();
    assert_eq!(labels, vec![revision.to_owned(); 3], "{}", place.seen().await);
}

/// *Scenario*: three pods under steady load; `revision` is raised.
/// *Guarantees*: every pod is replaced; every point sent arrives, and no sender has to give one up.
#[tokio::test]
async fn a_revision_rolls_out_under_load() {
    let place = Place::new("rollout").await;
    place.apply(&place.spec(3)).await;
    place.rolled_out().await;
    let before = place.members().await;
    let load = Load::start(&place).await;

    let began = Instant::now();
    place.patch(&json!({"revision": "2"})).await;
    runs(&place, "2").await;
    println!(
        "revision 2 in all of 3 pods: {:.0} s",
        began.elapsed().as_secs_f64()
    );

    load.delivered("a rollout").await;
    let after = place.members().await;
    assert!(
        after
            .iter()
            .all(|pod| before.iter().all(|old| old.uid() != pod.uid()))
    );
}

/// *Scenario*: three pods under steady load; a revision with an image that nobody has, then one with the right image.
/// *Guarantees*: the old pods serve meanwhile, the status names the pod and why; the correction goes out unaided; every
/// point arrives.
#[tokio::test]
async fn a_bad_revision_and_its_correction_under_load() {
    let place = Place::new("bad-revision").await;
    place.apply(&place.spec(3)).await;
    place.rolled_out().await;
    let load = Load::start(&place).await;

    place
        .patch(&json!({"revision": "2", "template": {"image": "jevmetrics-dataplane:no-such-tag"}}))
        .await;
    let message = place.stuck().await;
    let stuck = place
        .members()
        .await
        .into_iter()
        .find(|pod| pod.labels()["jevmetrics.io/revision"] == "2");
    let stuck = stuck.unwrap().name_any();
    assert!(message.contains(&stuck) && message.contains("Image"), "{message}");
    let (reason, _) = place.condition("Ready", "True").await;
    assert_eq!(reason, "Serving");

    place
        .patch(&json!({"revision": "3", "template": {"image": null}}))
        .await;
    runs(&place, "3").await;
    load.delivered("a bad revision and its correction").await;
}
