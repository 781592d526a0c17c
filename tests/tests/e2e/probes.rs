//! What probes may and may not do to pods.

use std::time::Duration;

use jevmetrics_testkit::poll;
use kube::ResourceExt as _;
use serde_json::json;

use crate::site::{Place, WITHIN};
use crate::traffic::Load;

/// Longer than liveness would take to restart a pod that does not answer: 6 probes, 10 s apart, and one on its way.
const OVERLOADED_FOR: Duration = Duration::from_secs(75);

/// *Scenario*: a pod with a tenth of a core gets all that senders can send, for longer than liveness is patient.
/// *Guarantees*: it is not restarted, and delivers what it accepts.
#[tokio::test]
async fn an_overloaded_pod_is_not_restarted() {
    let place = Place::new("overload").await;
    let mut spec = place.spec(1);
    spec["template"] = json!({"resources": {
        "requests": {"cpu": "50m", "memory": "128Mi"},
        "limits": {"cpu": "100m", "memory": "512Mi"},
    }});
    place.apply(&spec).await;
    place.rolled_out().await;
    let load = Load::as_much_as_goes(&place).await;
    tokio::time::sleep(OVERLOADED_FOR).await;
    let pods = place.members().await;
    assert_eq!(pods.len(), 1);
    assert_eq!(place.restarts(&pods[0]).await, 0, "{}", place.seen().await);
    let counts = load.loses_nothing("overload").await;
    assert!(
        counts.held_back + counts.retries + counts.failed_exports > 0,
        "it was no overload"
    );
}

/// *Scenario*: a policy whose TLS pair is not one.
/// *Guarantees*: its pods do not get ready; the log of the pod and the status of the policy say why.
#[tokio::test]
async fn a_pod_with_broken_settings_is_not_ready_and_says_why() {
    let place = Place::new("broken").await;
    place
        .put_secret(
            "ingest",
            &json!({"tls.crt": "no certificate", "tls.key": "no key"}),
        )
        .await;
    let mut spec = place.spec(1);
    spec["ingest"] = json!({"tls": {"secretName": "ingest"}});
    place.apply(&spec).await;
    let message = place.stuck().await;
    let pod = place.members().await.remove(0).name_any();
    assert!(message.contains(&pod), "{message}");
    let (reason, _) = place.condition("Ready", "False").await;
    assert_eq!(reason, "NoPodReady");
    let look = async || match place
        .node
        .previous_logs(&place.namespace, &pod, "dataplane")
        .await
    {
        Ok(log) if log.contains("ingest.tls") => Ok(()),
        Ok(log) => Err(log),
        Err(error) => Err(error.to_string()),
    };
    poll::eventually("the reason in its log", WITHIN, look)
        .await
        .unwrap();
}
