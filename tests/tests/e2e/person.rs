//! Commands as a person types them.

use kube::ResourceExt as _;

use crate::site::{POLICY, Place};

/// *Guarantees*: `kubectl wait`, `get`, `get -o wide`, `scale` and `explain` do what they do for Kubernetes' own kinds.
#[tokio::test]
async fn kubectl_knows_the_policy() {
    let place = Place::new("person").await;
    place.apply(&place.spec(1)).await;
    let resource = format!("jmp/{POLICY}");
    place
        .kubectl(&["wait", "--for=condition=Ready", "--timeout=5m", &resource])
        .await;
    place
        .kubectl(&["wait", "--for=condition=RolledOut", "--timeout=5m", &resource])
        .await;
    place
        .kubectl(&[
            "wait",
            "--for=condition=RoutingConverged",
            "--timeout=5m",
            &resource,
        ])
        .await;

    let table = place.kubectl(&["get", "jmp"]).await;
    assert_eq!(
        columns(&table, 0),
        ["NAME", "MODE", "REVISION", "READY", "MEMBERS", "REASON", "AGE"],
        "{table}"
    );
    assert_eq!(
        columns(&table, 1)[..6],
        ["metrics", "Annotate", "1", "1/1", "1", "Serving"],
        "{table}"
    );
    let wide = place.kubectl(&["get", "jmp", "-o", "wide"]).await;
    assert!(columns(&wide, 0).contains(&"ENDPOINT"), "{wide}");
    assert!(wide.contains(&place.sink.endpoint()), "{wide}");

    place.kubectl(&["scale", &resource, "--replicas=2"]).await;
    place
        .kubectl(&[
            "wait",
            "--for=jsonpath={.status.ready}=2/2",
            "--timeout=5m",
            &resource,
        ])
        .await;
    assert_eq!(place.members().await.len(), 2);

    let explained = place.kubectl(&["explain", "jmp.spec"]).await;
    for field in ["export", "inference", "retention", "revision", "-required-"] {
        assert!(explained.contains(field), "{explained}");
    }
    let explained = place
        .kubectl(&["explain", "jmp.spec.retention.dropThresholdPercent"])
        .await;
    assert!(explained.contains("<integer>"), "{explained}");

    let pods = place
        .kubectl(&[
            "get",
            "pods",
            "-l",
            &format!("jevmetrics.io/policy={POLICY}"),
            "-o",
            "name",
        ])
        .await;
    assert_eq!(pods.lines().count(), 2, "{pods}");
    let log = place
        .kubectl(&["logs", &place.members().await[0].name_any()])
        .await;
    assert!(log.contains("started") || log.contains("listening"), "{log}");
}

fn columns(table: &str, line: usize) -> Vec<&str> {
    table
        .lines()
        .nth(line)
        .unwrap_or_default()
        .split_whitespace()
        .collect()
}
