//! From an applied policy to metrics in the backend.

use std::time::Instant;

use crate::site::Place;
use crate::traffic::Load;

/// *Scenario*: a policy is applied; then OTLP is sent to its Service.
/// *Guarantees*: `Ready` with real pods, Jev is asked, and everything that is sent arrives.
#[tokio::test]
async fn an_applied_policy_serves() {
    let place = Place::new("serve").await;
    let began = Instant::now();
    place.apply(&place.spec(3)).await;
    place.condition("Ready", "True").await;
    println!("Ready, images there: {:.1} s", began.elapsed().as_secs_f64());
    place.rolled_out().await;
    println!("all of 3 pods available: {:.1} s", began.elapsed().as_secs_f64());
    let load = Load::start(&place).await;
    load.judged().await;
    load.delivered("a policy").await;
    assert_eq!(place.condition("InferenceHealthy", "True").await.0, "Healthy");
}
