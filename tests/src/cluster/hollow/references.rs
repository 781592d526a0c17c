//! What a pod needs before its containers can start: each Secret and each config map that it names and that is not
//! optional.
//!
//! Invariants: like kubelet, a missing volume keeps the pod in `ContainerCreating`, a missing variable in
//! `CreateContainerConfigError`; only metadata and keys are looked at, and no value leaves this file.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Container, KeyToPath, Pod, Secret, Volume};
use kube::{Api, Client};

/// A kind of object with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Secret,
    ConfigMap,
}

/// What names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Volume,
    Variable,
}

/// One object that must be there, with these keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    place: Place,
    kind: Kind,
    name: String,
    keys: Vec<String>,
}

/// Something is not there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// The reason for which containers wait.
    pub(super) reason: &'static str,
    /// What is missing.
    pub(super) message: String,
}

/// All that `pod` cannot start without.
pub(super) fn required(pod: &Pod) -> BTreeSet<Reference> {
    let mut required = BTreeSet::new();
    let Some(spec) = &pod.spec else {
        return required;
    };
    for volume in spec.volumes.iter().flatten() {
        add_volume(volume, &mut required);
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        add_variables(container, &mut required);
    }
    required
}

fn add_volume(volume: &Volume, required: &mut BTreeSet<Reference>) {
    let mut add = |kind, name: Option<&String>, optional: Option<bool>, items: Option<&Vec<KeyToPath>>| {
        let keys = items.into_iter().flatten().map(|item| item.key.clone()).collect();
        add(required, Place::Volume, kind, name, optional, keys);
    };
    if let Some(secret) = &volume.secret {
        add(
            Kind::Secret,
            secret.secret_name.as_ref(),
            secret.optional,
            secret.items.as_ref(),
        );
    }
    if let Some(map) = &volume.config_map {
        add(Kind::ConfigMap, Some(&map.name), map.optional, map.items.as_ref());
    }
    let sources = volume
        .projected
        .iter()
        .flat_map(|projected| projected.sources.iter().flatten());
    for source in sources {
        if let Some(secret) = &source.secret {
            add(
                Kind::Secret,
                Some(&secret.name),
                secret.optional,
                secret.items.as_ref(),
            );
        }
        if let Some(map) = &source.config_map {
            add(Kind::ConfigMap, Some(&map.name), map.optional, map.items.as_ref());
        }
    }
}

fn add_variables(container: &Container, required: &mut BTreeSet<Reference>) {
    let mut add = |kind, name: &String, optional, keys| {
        add(required, Place::Variable, kind, Some(name), optional, keys);
    };
    for all in container.env_from.iter().flatten() {
        if let Some(secret) = &all.secret_ref {
            add(Kind::Secret, &secret.name, secret.optional, Vec::new());
        }
        if let Some(map) = &all.config_map_ref {
            add(Kind::ConfigMap, &map.name, map.optional, Vec::new());
        }
    }
    let variables = container
        .env
        .iter()
        .flatten()
        .filter_map(|variable| variable.value_from.as_ref());
    for one in variables {
        if let Some(secret) = &one.secret_key_ref {
            add(
                Kind::Secret,
                &secret.name,
                secret.optional,
                vec![secret.key.clone()],
            );
        }
        if let Some(map) = &one.config_map_key_ref {
            add(Kind::ConfigMap, &map.name, map.optional, vec![map.key.clone()]);
        }
    }
}

fn add(
    required: &mut BTreeSet<Reference>,
    place: Place,
    kind: Kind,
    name: Option<&String>,
    optional: Option<bool>,
    keys: Vec<String>,
) {
    if let Some(name) = name.filter(|_| optional != Some(true)) {
        let name = name.clone();
        required.insert(Reference {
            place,
            kind,
            name,
            keys,
        });
    }
}

impl Reference {
    /// What of it is missing.
    pub(super) async fn missing(
        &self,
        client: &Client,
        namespace: &str,
    ) -> Result<Option<Missing>, kube::Error> {
        let keys: Option<BTreeSet<String>> = match self.kind {
            Kind::Secret => {
                let secret = Api::<Secret>::namespaced(client.clone(), namespace)
                    .get_opt(&self.name)
                    .await?;
                secret.map(|secret| secret.data.unwrap_or_default().into_keys().collect())
            }
            Kind::ConfigMap => {
                let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
                maps.get_opt(&self.name).await?.map(|map| {
                    let binary = map.binary_data.unwrap_or_default().into_keys();
                    map.data.unwrap_or_default().into_keys().chain(binary).collect()
                })
            }
        };
        Ok(self.compare(keys.as_ref()))
    }

    fn compare(&self, keys: Option<&BTreeSet<String>>) -> Option<Missing> {
        let kind = match self.kind {
            Kind::Secret => "secret",
            Kind::ConfigMap => "configmap",
        };
        let message = match keys {
            None => format!("{kind} \"{}\" not found", self.name),
            Some(keys) => {
                let key = self.keys.iter().find(|key| !keys.contains(*key))?;
                format!("{kind} \"{}\" has no key \"{key}\"", self.name)
            }
        };
        let reason = match self.place {
            Place::Volume => "ContainerCreating",
            Place::Variable => "CreateContainerConfigError",
        };
        Some(Missing { reason, message })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_optional_is_not_required() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {
            "containers": [{"name": "c", "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k", "optional": true}}},
            ]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "mounted"}},
                {"name": "b", "secret": {"secretName": "no", "optional": true}},
                {"name": "c", "projected": {"sources": [
                    {"configMap": {"name": "projected", "items": [{"key": "k", "path": "p"}]}},
                    {"serviceAccountToken": {"path": "token"}},
                ]}},
            ],
        }}))
        .unwrap();
        let names: Vec<_> = required(&pod)
            .into_iter()
            .map(|reference| reference.name)
            .collect();
        assert_eq!(names, ["mounted", "projected", "env"]);
    }

    #[test]
    fn a_missing_key_is_told_as_kubelet_does() {
        let reference = Reference {
            place: Place::Variable,
            kind: Kind::Secret,
            name: "s".to_owned(),
            keys: vec!["k".to_owned()],
        };
        let missing = reference.compare(Some(&BTreeSet::new())).unwrap();
        assert_eq!(missing.reason, "CreateContainerConfigError");
        assert_eq!(missing.message, "secret \"s\" has no key \"k\"");
        assert_eq!(reference.compare(Some(&["k".to_owned()].into())), None);
    }
}
