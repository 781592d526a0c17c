//! What a policy refers to: Secrets, and only whether they are there; and its live object, which remembers the
//! generation of its budget and who owns resources.
//!
//! A Secret is fetched by its name; its values are skipped while they are read, so that none is ever held. The live object
//! is fetched too: a watch may show what was there before the last write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jevmetrics_api::live::{Budget, LivePolicy};
use jevmetrics_api::policy::{SecretUse, ValidPolicy};
use jevmetrics_api::routing::RoutingTable;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, GetParams, Request};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout_at};

use crate::client::GuardError;
use crate::render::{LIVE_KEY, ROUTING_KEY};

/// Longest look for all Secrets of a policy. As long as it lasts, nothing that happens after the look is acted on: where
/// Secrets are slow, as with a key service that hangs, this must not be the deadline of each call.
const SECRETS_WITHIN: Duration = Duration::from_secs(2);

/// A Secret could not be looked for.
#[derive(Debug, thiserror::Error)]
#[error("failed to look for Secret {name}: {source}")]
pub struct FetchError {
    name: String,
    source: Box<kube::Error>,
}

/// A live object could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("failed to look at ConfigMap {name}: {source}")]
pub struct LiveError {
    name: String,
    source: Box<kube::Error>,
}

/// The live object as it is on the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// Its version; none if it is not there.
    pub(super) version: Option<String>,
    /// The budget in it; none if pods cannot read it.
    pub(super) budget: Option<Budget>,
    /// The table in it; none if pods cannot read it.
    pub(super) routing: Option<RoutingTable>,
    /// The uids of its owners.
    pub(super) owners: Vec<String>,
}

impl Live {
    pub(super) fn is_there(&self) -> bool {
        self.version.is_some()
    }

    /// Whether the policy with this uid owns it.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner == uid)
    }
}

/// Looks at the live object `name`.
pub(super) async fn live(namespace: &str, name: String, client: &Client) -> Result<Live, LiveError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(&name).await.map_err(|source| LiveError {
        name,
        source: Box::new(source),
    })?;
    let Some(object) = found else {
        return Ok(Live::default());
    };
    let text = |key: &str| object.data.as_ref().and_then(|data| data.get(key));
    let read = text(LIVE_KEY).and_then(|text| LivePolicy::from_policy_yaml(text).ok());
    let routing = text(ROUTING_KEY).and_then(|text| RoutingTable::from_routing_yaml(text).ok());
    Ok(Live {
        version: object.resource_version(),
        budget: read.map(|policy| *policy.budget()),
        routing,
        owners: object
            .owner_references()
            .iter()
            .map(|owner| owner.uid.clone())
            .collect(),
    })
}

/// A Secret, or a key of it, that a policy names and that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSecret {
    field: String,
    name: String,
    key: Option<String>,
    is_required: bool,
}

impl fmt::Display for MissingSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, name, .. } = self;
        match &self.key {
            Some(key) => write!(formatter, "{field}: Secret {name} must have the key {key}")?,
            None => write!(formatter, "{field}: Secret {name} must exist")?,
        }
        formatter.write_str(if self.is_required {
            "; new pods wait for it"
        } else {
            "; pods serve without it and keep everything"
        })
    }
}

/// The keys of a Secret.
#[allow(clippy::zero_sized_map_values, reason = "a set would not read a mapping")]
#[derive(Debug, Deserialize)]
struct Keys {
    #[serde(default)]
    data: BTreeMap<String, IgnoredAny>,
}

/// Which of the Secrets that `policy` names are not there, in the order of its fields.
pub(super) async fn missing_secrets(
    policy: &ValidPolicy,
    client: &Client,
) -> Result<Vec<MissingSecret>, FetchError> {
    let names: BTreeSet<&str> = policy.secrets().iter().map(SecretUse::name).collect();
    let until = Instant::now() + SECRETS_WITHIN;
    let late = |_| kube::Error::Service(Box::new(GuardError::Late(SECRETS_WITHIN)));
    let mut found = BTreeMap::new();
    for name in names {
        let looked = timeout_at(until, keys(client, policy.namespace(), name)).await;
        let keys = looked.map_err(late).flatten().map_err(|source| FetchError {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        found.insert(name, keys);
    }
    Ok(policy
        .secrets()
        .iter()
        .flat_map(|used| missing(used, found.get(used.name())))
        .collect())
}

/// `None` if there is no such Secret.
async fn keys(client: &Client, namespace: &str, name: &str) -> Result<Option<BTreeSet<String>>, kube::Error> {
    let url = Api::<Secret>::namespaced(client.clone(), namespace)
        .resource_url()
        .to_owned();
    let request = Request::new(url)
        .get(name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    match client.request::<Keys>(request).await {
        Ok(keys) => Ok(Some(keys.data.into_keys().collect())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn missing(used: &SecretUse, found: Option<&Option<BTreeSet<String>>>) -> Vec<MissingSecret> {
    let lacks = |key: Option<&str>| MissingSecret {
        field: used.field().to_owned(),
        name: used.name().to_owned(),
        key: key.map(str::to_owned),
        is_required: used.is_required(),
    };
    match found.and_then(Option::as_ref) {
        None => vec![lacks(None)],
        Some(keys) => {
            let absent = used.items().filter(|(key, _)| !keys.contains(*key));
            absent.map(|(key, _)| lacks(Some(key))).collect()
        }
    }
}
