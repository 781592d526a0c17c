//! What the API server writes down: the policy of its audit log.
//!
//! Invariant: no value of a Secret and no token is ever written. Both are answers of requests that are recorded by
//! their metadata only.

use serde_json::{Value, json};

/// Groups whose requests and answers are recorded as a whole: what operators write.
const WHOLE_GROUPS: [&str; 7] = [
    "apps",
    "autoscaling",
    "coordination.k8s.io",
    "jevmetrics.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
];

/// The policy. The first rule that matches counts.
pub(crate) fn policy() -> Value {
    let whole_groups = WHOLE_GROUPS.map(|group| json!({"group": group}));
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        // An answer is recorded when it is complete, that of a watch when it has begun: its end may be hours away.
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            // Lists of everything would fill the log; who asked is enough.
            {"level": "Metadata", "verbs": ["list", "watch", "deletecollection"]},
            {"level": "RequestResponse", "resources": whole_groups},
            {"level": "RequestResponse", "resources": [{"group": "", "resources": [
                // Without the subresource `serviceaccounts/token`: its answer is a token.
                "configmaps", "serviceaccounts", "services", "services/status", "pods", "pods/status",
            ]}]},
            {"level": "Metadata"},
        ],
    })
}
