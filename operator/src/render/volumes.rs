//! Settings and Secrets as files.

use jevmetrics_api::policy::{SecretUse, ValidPolicy};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, KeyToPath, SecretVolumeSource, Volume, VolumeMount};

use super::config_maps::settings_name;

/// Name of the volume with the settings.
pub const SETTINGS_VOLUME: &str = "settings";
pub(super) const SETTINGS_DIRECTORY: &str = "/etc/jevmetrics/settings";

pub(super) fn volumes(policy: &ValidPolicy) -> Vec<Volume> {
    let settings = Volume {
        name: SETTINGS_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: settings_name(policy),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let secrets = policy.secrets().iter().map(secret);
    std::iter::once(settings).chain(secrets).collect()
}

fn secret(used: &SecretUse) -> Volume {
    let item = |(key, file): (&str, &str)| KeyToPath {
        key: key.to_owned(),
        path: file.to_owned(),
        mode: None,
    };
    Volume {
        name: used.volume().to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(used.name().to_owned()),
            items: Some(used.items().map(item).collect()),
            // Always written: without it a required one that becomes optional would keep the old value.
            optional: Some(!used.is_required()),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Whole directories: a file mounted by itself would never change.
pub(super) fn mounts(policy: &ValidPolicy) -> Vec<VolumeMount> {
    let mount = |name: &str, path: String| VolumeMount {
        name: name.to_owned(),
        mount_path: path,
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let settings = mount(SETTINGS_VOLUME, SETTINGS_DIRECTORY.to_owned());
    let secrets = policy.secrets().iter();
    std::iter::once(settings)
        .chain(secrets.map(|used| mount(used.volume(), used.directory())))
        .collect()
}
