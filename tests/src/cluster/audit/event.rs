//! A line of the audit log, as far as it is read: `Event` of `audit.k8s.io/v1`.

use jiff::Timestamp;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: String,
    /// When the request came in.
    pub(super) request_received_timestamp: Timestamp,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    pub(super) verb: String,
    pub(super) user: User,
    pub(super) impersonated_user: Option<User>,
    #[serde(default)]
    pub(super) user_agent: String,
    pub(super) object_ref: Option<ObjectRef>,
    pub(super) response_status: Option<ResponseStatus>,
    pub(super) response_object: Option<ResponseObject>,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    #[serde(default)]
    pub(super) username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectRef {
    pub(super) api_group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponseStatus {
    #[serde(default)]
    pub(super) code: u16,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponseObject {
    #[serde(default)]
    pub(super) metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}
