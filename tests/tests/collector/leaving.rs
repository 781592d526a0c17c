//! What becomes of data when a data plane goes.

use jevmetrics_testkit::poll;
use serde_json::json;

use crate::load::{Arrived, Load};
use crate::stage::{Place, Stage, WITHIN};

/// Requests of each part of a scenario.
const REQUESTS: i64 = 10;

async fn stage(name: &'static str, subnet: u8) -> (Stage, Load) {
    let spec = json!({"routing": {"affinity": "Upstream"}});
    let stage = Stage::start(Place { name, subnet }, spec, None, &[]).await;
    let load = Load::start(&stage.tier.endpoint());
    more(&load, REQUESTS).await;
    (stage, load)
}

async fn more(load: &Load, requests: i64) {
    let enough = load.sent() + requests;
    poll::until("more requests", WITHIN, || load.sent() >= enough)
        .await
        .unwrap();
}

/// Every resource is at one of the two that stay, of what was sent after `since`. Says how many of those that had been at
/// one of them before are at the other.
fn stay(arrived: &Arrived, before: i64, since: i64) {
    let (first, last) = (
        arrived.places(|number| number <= before),
        arrived.places(|number| number > since),
    );
    let mut moved = 0;
    for (label, place) in &last {
        assert!(matches!(place[..], [1 | 2]), "{label} is at {place:?}");
        moved += usize::from(first[label] != [0] && first[label] != *place);
    }
    println!("{moved} of {} resources have moved needlessly", last.len());
}

/// *Scenario*: a pod is deleted. It is not found any more, a while later it is told to stop.
/// *Guarantees*: everything that was sent has arrived, once.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_leaves_takes_nothing_along() {
    let (mut stage, load) = stage("leaving", 4).await;
    let before = load.sent();
    stage.resolves_to(&[1, 2]).await;
    // What the load and the Collector have in hand may have been routed by what was known before.
    let since = load.sent() + 1;
    more(&load, REQUESTS).await;
    stage.arrived(since).await;
    let leaver = &mut stage.planes[0];
    leaver.signal("TERM").await.unwrap();
    assert!(leaver.wait(WITHIN).await.unwrap().success());
    more(&load, 2 * REQUESTS).await;
    let arrived = stage.arrived(load.stop().await).await;
    assert_eq!(arrived.duplicates(), 0);
    stay(&arrived, before, since);
}

/// *Scenario*: a data plane is killed, and found for longer than the Collector tries it alone.
/// *Guarantees*: everything that was sent has arrived; some of it more than once, for a Collector repeats the whole
/// request.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_killed_loses_nothing_that_was_taken() {
    let (mut stage, load) = stage("killed", 5).await;
    let before = load.sent();
    stage.planes[0].kill().await.unwrap();
    let outcomes = "otelcol_loadbalancer_backend_outcome";
    stage.tier.shows(outcomes, "success=\"false\"", None).await;
    stage.resolves_to(&[1, 2]).await;
    let since = load.sent() + 1;
    more(&load, 2 * REQUESTS).await;
    let sent = load.stop().await;
    let arrived = stage.arrived(sent).await;
    println!(
        "{} points have arrived, {} of them again",
        arrived.points(sent),
        arrived.duplicates()
    );
    stay(&arrived, before, since);
}
