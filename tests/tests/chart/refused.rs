//! Values that are not taken. Each is named by its path, so that whoever wrote it finds it.

use serde_json::{Value, json};

use crate::rendered::{refusal, rendered};

fn cases() -> Vec<(Value, &'static str)> {
    vec![
        // Typos, at every depth.
        (
            json!({"replicasCount": 2}),
            "additional properties 'replicasCount' not allowed",
        ),
        (json!({"nodeselector": {}}), "'nodeselector' not allowed"),
        (
            json!({"image": {"repo": "a"}}),
            "at '/image': additional properties 'repo' not allowed",
        ),
        (
            json!({"dataplaneImage": {"pullPolicy": "Always"}}),
            "at '/dataplaneImage': additional properties 'pullPolicy'",
        ),
        (
            json!({"serviceAccount": {"nmae": "a"}}),
            "at '/serviceAccount': additional properties 'nmae'",
        ),
        (
            json!({"rbac": {"crate": true}}),
            "at '/rbac': additional properties 'crate'",
        ),
        (
            json!({"podDisruptionBudget": {"minAvailable": 1}}),
            "at '/podDisruptionBudget': additional properties 'minAvailable'",
        ),
        (
            json!({"metrics": {"serviceMonitor": {"intervall": "30s"}}}),
            "at '/metrics/serviceMonitor': additional properties 'intervall'",
        ),
        (
            json!({"resources": {"limit": {"memory": "1Gi"}}}),
            "at '/resources': additional properties 'limit'",
        ),
        (json!({"imagePullSecrets": [{"nam": "a"}]}), "/imagePullSecrets/0"),
        // Types.
        (
            json!({"replicaCount": "two"}),
            "at '/replicaCount': got string, want integer",
        ),
        (json!({"replicaCount": 1.5}), "at '/replicaCount'"),
        (
            json!({"imagePullSecrets": ["pull"]}),
            "at '/imagePullSecrets/0': got string, want object",
        ),
        (
            json!({"rbac": {"create": "yes"}}),
            "at '/rbac/create': got string, want boolean",
        ),
        (
            json!({"podAnnotations": {"a.example/b": true}}),
            "at '/podAnnotations/a.example~1b': got boolean, want string",
        ),
        (
            json!({"tolerations": {"key": "a"}}),
            "at '/tolerations': got object, want array",
        ),
        // Choices and bounds.
        (
            json!({"scope": "namespaced"}),
            "at '/scope': value must be one of 'Cluster', 'Namespaced'",
        ),
        (
            json!({"image": {"pullPolicy": "Sometimes"}}),
            "at '/image/pullPolicy': value must be one of",
        ),
        (
            json!({"rbac": {"userRoles": "auto"}}),
            "at '/rbac/userRoles': value must be one of",
        ),
        (json!({"replicaCount": -1}), "at '/replicaCount': minimum"),
        (json!({"replicaCount": 6}), "at '/replicaCount': maximum"),
        (json!({"metrics": {"port": 80}}), "at '/metrics/port': minimum"),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": 0}}),
            "at '/podDisruptionBudget/maxUnavailable'",
        ),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "0%"}}),
            "at '/podDisruptionBudget/maxUnavailable'",
        ),
        // Forms.
        (json!({"image": {"repository": ""}}), "at '/image/repository'"),
        (json!({"image": {"repository": "a b"}}), "at '/image/repository'"),
        (
            json!({"dataplaneImage": {"tag": "1:2"}}),
            "at '/dataplaneImage/tag'",
        ),
        (json!({"image": {"digest": "sha256:abc"}}), "at '/image/digest'"),
        (
            json!({"fullnameOverride": "Jev_Metrics"}),
            "at '/fullnameOverride'",
        ),
        (json!({"logFilter": ""}), "at '/logFilter'"),
        (
            json!({"metrics": {"address": "localhost"}}),
            "at '/metrics/address'",
        ),
        (
            json!({"metrics": {"serviceMonitor": {"interval": "30"}}}),
            "at '/metrics/serviceMonitor/interval'",
        ),
        (
            json!({"resources": {"limits": {"memory": "1GiB"}}}),
            "at '/resources/limits/memory'",
        ),
        (
            json!({"image": {"repository": "registry.example/a:tag"}}),
            "at '/image/repository'",
        ),
        (
            json!({"metrics": {"address": "999.1.1.1"}}),
            "at '/metrics/address'",
        ),
        // What the templates cannot be without.
        (json!({"image": null}), "missing property 'image'"),
        (
            json!({"metrics": {"service": null}}),
            "at '/metrics': missing property 'service'",
        ),
        // What contradicts itself.
        (
            json!({"scope": "Namespaced", "rbac": {"userRoles": "Create"}}),
            "at '/rbac/userRoles': value must be one of 'Auto', 'None'",
        ),
        (
            json!({"serviceAccount": {"create": false}}),
            "at '/serviceAccount/name'",
        ),
        (
            json!({"podLabels": {"app.kubernetes.io/name": "x"}}),
            "invalid propertyName 'app.kubernetes.io/name'",
        ),
        (
            json!({"podLabels": {"jevmetrics.io/policy": "x"}}),
            "invalid propertyName 'jevmetrics.io/policy'",
        ),
    ]
}

#[test]
fn what_cannot_be_meant_is_refused_and_named() {
    for (values, message) in cases() {
        let refusal = refusal(&values);
        assert!(
            refusal.contains("values don't meet the specifications of the schema"),
            "{values}: {refusal}"
        );
        assert!(refusal.contains(message), "{values}: {refusal}");
    }
}

#[test]
fn what_can_be_meant_is_taken() {
    for values in [
        json!({"resources": {"requests": {"cpu": ".5", "memory": "1e9"}}}),
        json!({"metrics": {"serviceMonitor": {"interval": "1m30s"}}}),
        json!({"image": {"repository": "registry.example:5000/team/a"}, "dataplaneImage": {"repository": "a"}}),
        // How Helm's users take a default away.
        json!({"nodeSelector": null, "resources": null, "image": {"tag": null}}),
    ] {
        assert!(rendered(&values).pod().is_object(), "{values}");
    }
}
