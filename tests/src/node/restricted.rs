//! What the pod security level "restricted" asks of a container.

use serde_json::{Value, json};

/// A `securityContext` of a container that the level "restricted" takes, and no more rights than that.
pub fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}
