//! References to Secrets: always in the policy's namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value in a Secret of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub key: String,
}
