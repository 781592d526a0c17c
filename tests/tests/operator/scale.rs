//! Many policies, and a cluster that is full of what is none of the operator's business.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::site::{Site, WITHIN, count};
use crate::stage::{changed, unchanged};

const POLICIES: usize = 100;
const SECRETS: usize = 1_000;
/// Bytes of an unrelated Secret: who held all of them would be seen.
const SECRET_BYTES: usize = 32 << 10;
const MOST_RESIDENT_BYTES: u64 = 64 << 20;

const SETTLED: [(&str, &str, &str); 3] = [
    ("Ready", "True", "Serving"),
    ("RolledOut", "True", "Complete"),
    ("ConfigurationValid", "True", "Valid"),
];

fn with_key() -> Value {
    json!({
        "replicas": 1,
        "export": {"endpoint": "http://sink.invalid:4317"},
        "inference": {"apiKeySecretRef": {"name": "jev", "key": "token"}},
    })
}

async fn put_secret(site: &Site, namespace: &str, name: &str, key: &str, value: &str) {
    let secret = json!({"metadata": {"name": name}, "stringData": {key: value}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    let secrets: Api<Secret> = Api::namespaced(site.client.clone(), namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

/// *Scenario*: 100 policies in namespaces with 1,000 large Secrets that none of them names.
/// *Guarantees*: all are served; the operator stays within 64 MiB; it never lists or watches Secrets, and gets only those
/// that policies name.
#[tokio::test]
async fn a_hundred_policies_among_a_thousand_secrets() {
    let site = Site::start(5).await;
    let large = "x".repeat(SECRET_BYTES);
    stream::iter(0..SECRETS)
        .for_each_concurrent(8, async |index| {
            let (namespace, _) = site.place(index);
            put_secret(&site, namespace, &format!("unrelated-{index}"), "blob", &large).await;
        })
        .await;
    for namespace in &site.namespaces {
        put_secret(&site, namespace, "jev", "token", "secret").await;
    }
    let mark = site.plane.audit_mark().unwrap();
    let operator = site.operator().await;
    println!(
        "a leader without policies holds {} KiB",
        operator.resident_bytes().unwrap() >> 10
    );
    let began = Instant::now();
    let mut most = 0;
    let settled = async {
        site.apply(0..POLICIES, &with_key()).await;
        site.conditions(POLICIES, &SETTLED).await;
    };
    let watched = poll::until_some("never", WITHIN * 2, async || {
        most = most.max(operator.resident_bytes().unwrap());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        None::<()>
    });
    tokio::select! {
        () = settled => {}
        _ = watched => panic!("nothing has settled"),
    }
    println!("{POLICIES} policies have settled after {:?}", began.elapsed());
    let writes = site.settled(mark, std::time::Duration::from_secs(3)).await;
    let now = operator.resident_bytes().unwrap();
    most = most.max(now);
    println!("the operator holds {} KiB, at most {}", now >> 10, most >> 10);
    assert!(most <= MOST_RESIDENT_BYTES, "{most} bytes");
    let reconciles = count(&operator, "jevmetrics_operator_reconciles_total").await;
    println!(
        "{} changes, {} applies without effect, {reconciles} reconciles, {} requests",
        changed(&writes).len(),
        unchanged(&writes).len(),
        site.requests(mark).len()
    );

    let requests = site.requests(mark);
    let secrets = requests.iter().filter(|request| request.resource == "secrets");
    let mut verbs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for request in secrets {
        *verbs.entry(request.verb.as_str()).or_default() += 1;
        names.insert(request.name.as_str());
    }
    println!("requests for Secrets: {verbs:?}");
    assert_eq!(verbs.keys().copied().collect::<Vec<_>>(), ["get"]);
    assert_eq!(names, BTreeSet::from(["jev"]));
    operator.stop().await.unwrap();
}
