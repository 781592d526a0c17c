//! Replicas that share over a Redis in the cluster.

use std::time::{Duration, Instant};

use jevmetrics_testkit::node::restricted;
use jevmetrics_testkit::poll;
use serde_json::{Value, json};

use crate::site::{POLICY, Place, WITHIN};
use crate::traffic::Load;

const PASSWORD: &str = "of-the-test";
const LEASE: Duration = Duration::from_secs(6);

/// A Redis that lets one user use the keys of this namespace's policies, with the documented rights and no other.
fn redis(namespace: &str) -> Value {
    let options = "--appendonly no --maxmemory 32mb --maxmemory-policy noeviction --protected-mode no --user default off";
    let user =
        format!("--user jevmetrics on >{PASSWORD} resetkeys ~jevmetrics:{{{namespace}/* resetchannels -@all");
    let rights = "+evalsha +eval +get +set +del +exists +pttl +pexpire +time +hget +hset +zadd +zcard +zrange \
                  +zrem +zremrangebyscore +mget";
    let words = [options, &user, rights]
        .into_iter()
        .flat_map(str::split_whitespace);
    let arguments: Vec<&str> = ["--save", ""].into_iter().chain(words).collect();
    let image = format!("jevmetrics-redis:{}", env!("CARGO_PKG_VERSION"));
    let ready = json!({"tcpSocket": {"port": 6379}, "periodSeconds": 1});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "redis"}, "spec": {
            "selector": {"app": "redis"},
            "ports": [{"port": 6379}],
        }},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "redis", "labels": {"app": "redis"}}, "spec": {
            "containers": [{
                "name": "redis",
                "image": image,
                "args": arguments,
                "readinessProbe": ready,
                "securityContext": restricted(),
            }],
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
        }},
    ]})
}

async fn put_redis(place: &Place) {
    let objects = redis(&place.namespace).to_string();
    let plane = place.node.plane();
    let arguments = [
        "--namespace",
        &place.namespace,
        "apply",
        "--server-side",
        "-f",
        "-",
    ];
    plane
        .kubectl_with(&plane.admin_kubeconfig(), &arguments, &objects)
        .await
        .unwrap();
    place
        .kubectl(&["wait", "--for=condition=Ready", "--timeout=5m", "pod/redis"])
        .await;
}

/// The generation of the budget, as the status says it.
async fn generation(place: &Place) -> Option<i64> {
    let policy = place.policies.get(POLICY).await.unwrap();
    let status = serde_json::to_value(policy.status).unwrap();
    status["coordination"]["generation"].as_i64()
}

/// Waits until Jev was asked so often.
async fn asked(place: &Place, times: u64) {
    let what = format!("{times} questions");
    poll::until(&what, WITHIN, || place.jev.counters().received >= times)
        .await
        .unwrap();
}

/// *Scenario*: three replicas share over a Redis in the cluster. In the middle of a rollout that is stuck the budget is
/// changed; the rollout is corrected; Redis is taken away and comes back empty; all under load.
/// *Guarantees*: Jev is asked once about each instrument; nobody asks for twice the old lease, then the new budget holds;
/// no point is lost.
#[tokio::test]
async fn replicas_share_one_budget_over_a_redis_in_the_cluster() {
    let place = Place::new("sharing").await;
    put_redis(&place).await;
    place.put_secret("redis", &json!({"password": PASSWORD})).await;
    let mut spec = place.spec(3);
    spec["coordination"] = json!({
        "host": "redis",
        "user": "jevmetrics",
        "passwordSecretRef": {"name": "redis", "key": "password"},
        "leaseTTLSeconds": LEASE.as_secs(),
        "maxInFlight": 8,
        "requestsPerSecond": 500,
    });
    place.apply(&spec).await;
    place.rolled_out().await;
    let load = Load::start(&place).await;
    load.judged().await;
    let (reason, message) = place.condition("CoordinationHealthy", "True").await;
    assert_eq!(reason, "Healthy", "{message}");
    assert_eq!(generation(&place).await, Some(1));
    // Every pod has met every instrument by now, and whoever asks twice has done so.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let once = load.instruments();
    assert_eq!(place.jev.counters().received, once, "asked once each");

    place
        .patch(&json!({"template": {"image": "jevmetrics-dataplane:none"}}))
        .await;
    place.stuck().await;
    // Under the old budget: one that nobody has used for a while need not be waited for.
    let second = Load::of_others(&place, "second").await;
    asked(&place, 2 * once).await;
    place
        .patch(&json!({"coordination": {"maxInFlight": 2, "requestsPerSecond": 20}}))
        .await;
    let changed = async || (generation(&place).await == Some(2)).then_some(());
    poll::until_some("the second generation", WITHIN, changed)
        .await
        .unwrap();
    // Until every pod has read it.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = Instant::now();
    let third = Load::of_others(&place, "third").await;
    asked(&place, 2 * once + 1).await;
    println!(
        "asked under the new budget: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert!(began.elapsed() >= 2 * LEASE);
    asked(&place, 3 * once).await;

    place.patch(&json!({"template": {"image": null}})).await;
    place.rolled_out().await;
    place.kubectl(&["delete", "pod", "redis", "--now"]).await;
    put_redis(&place).await;
    let (reason, message) = place.condition("CoordinationHealthy", "True").await;
    println!("after Redis was away: {reason}: {message}");
    for load in [load, second, third] {
        load.delivered("a Redis that goes and comes").await;
    }
    assert_eq!(place.jev.counters().received, 3 * once, "asked once each");
}
