//! Whether a Collector takes what the operator writes.

use jevmetrics_operator::render::exporter_name;
use serde_json::{Value, json};

use crate::stage::rendered;
use crate::tier::validate;

/// Specs that are written differently.
fn specs() -> [Value; 4] {
    let upstream = json!({"affinity": "Upstream"});
    [
        json!({"routing": upstream}),
        json!({"routing": {"affinity": "Upstream", "keyAttributes": ["service.name"]}}),
        json!({"routing": upstream, "inference": {"identity": "Context", "contextAttributes": ["service.name"]}}),
        json!({"routing": upstream, "ingest": {"tls": {"secretName": "certificate"}}}),
    ]
}

/// *Guarantees*: the Collector takes the file as it is, for each form that it has; one with a word that the Collector
/// does not know is refused, so that the first says something.
#[tokio::test]
async fn a_collector_takes_it_as_it_is() {
    let exporter = exporter_name("jm");
    for spec in specs() {
        let file = rendered("jm", spec);
        let taken = validate(&exporter, &[&file]).await;
        assert!(taken.status.success(), "{file}{taken:?}");
        let refused = validate(&exporter, &[&file.replace("routing_key", "routing_kye")]).await;
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains("routing_kye"),
            "{said}"
        );
    }
}

/// *Guarantees*: what the documents say can be added in a further file: watching in place of DNS, and an authority.
#[tokio::test]
async fn a_further_file_changes_what_it_names() {
    let exporter = exporter_name("jm");
    let [plain, _, _, tls] = specs().map(|spec| rendered("jm", spec));
    let resolver = json!({"dns": null, "k8s": {"service": "jm-members.ns", "ports": [4317]}});
    let watching = json!({"exporters": {exporter.as_str(): {"resolver": resolver}}}).to_string();
    let taken = validate(&exporter, &[&plain, &watching]).await;
    assert!(taken.status.success(), "{taken:?}");
    // Without taking the other away there would be two.
    let both = watching.replace("\"dns\":null,", "");
    let refused = validate(&exporter, &[&plain, &both]).await;
    assert!(!refused.status.success(), "{both}");

    let trusted = json!({"protocol": {"otlp": {"tls": {"ca_file": "/etc/ssl/certs/ca-certificates.crt"}}}});
    let trusting = json!({"exporters": {exporter.as_str(): trusted}}).to_string();
    let taken = validate(&exporter, &[&tls, &trusting]).await;
    assert!(taken.status.success(), "{taken:?}");
}
