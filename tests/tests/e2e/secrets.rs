//! Secrets that change under running pods.

use std::time::Instant;

use jevmetrics_testkit::poll;
use kube::ResourceExt as _;
use serde_json::json;

use crate::site::{Place, WITHIN};
use crate::traffic::Load;

/// *Scenario*: Jev takes another key, and the Secret is changed.
/// *Guarantees*: the running pods ask with the new key, without a restart; nothing of it is held up.
#[tokio::test]
async fn a_rotated_key_reaches_running_pods() {
    let place = Place::new("rotated").await;
    place.jev.set_key("the-next-key");
    place.apply(&place.spec(1)).await;
    place.rolled_out().await;
    let load = Load::start(&place).await;
    poll::until("questions with the old key", WITHIN, || {
        place.jev.counters().received > 0
    })
    .await
    .unwrap();
    assert_eq!(place.jev.counters().input_tokens, 0, "none was answered");
    let before = place.members().await.remove(0);

    let began = Instant::now();
    place.put_secret("jev", &json!({"api-key": "the-next-key"})).await;
    poll::until("answers to the new key", WITHIN, || {
        place.jev.counters().input_tokens > 0
    })
    .await
    .unwrap();
    println!("a rotated key acts: {:.0} s", began.elapsed().as_secs_f64());

    let after = place.members().await.remove(0);
    assert_eq!((before.uid(), place.restarts(&after).await), (after.uid(), 0));
    load.delivered("a rotated key").await;
}
