//! What pods read: settings, named by their content and never changed, and the live object.

use jevmetrics_api::policy::{ValidPolicy, live_name};
use jevmetrics_api::routing::RoutingTable;
use k8s_openapi::api::core::v1::ConfigMap;

use super::metadata::{metadata, metadata_of};

/// Name of the settings of a policy.
pub fn settings_name(policy: &ValidPolicy) -> String {
    format!("{}-settings-{}", policy.name(), policy.settings_digest())
}

pub(super) const SETTINGS_FILE: &str = "settings.yaml";
/// Key of the live object: what acts at once.
pub const LIVE_KEY: &str = "policy";
/// Key of the live object: who owns resources.
pub const ROUTING_KEY: &str = "routing";

pub(super) fn settings(policy: &ValidPolicy) -> ConfigMap {
    ConfigMap {
        metadata: metadata(policy, settings_name(policy)),
        data: Some([(SETTINGS_FILE.to_owned(), policy.settings().to_owned())].into()),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

pub(super) fn live(policy: &ValidPolicy, generation: u32) -> ConfigMap {
    ConfigMap {
        metadata: metadata(policy, policy.live_name()),
        data: Some([(LIVE_KEY.to_owned(), policy.live(generation))].into()),
        ..ConfigMap::default()
    }
}

/// A live object that holds `table` and nothing else, of a policy that does not say what belongs beside it.
pub fn table_alone(namespace: &str, policy: &str, uid: &str, table: &RoutingTable) -> ConfigMap {
    ConfigMap {
        metadata: metadata_of(namespace, policy, uid, live_name(policy)),
        data: Some([(ROUTING_KEY.to_owned(), table.to_yaml())].into()),
        ..ConfigMap::default()
    }
}
