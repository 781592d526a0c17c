//! A table as the text of `data.routing` of a live `ConfigMap`, or of the key `routing` of a live file.
//!
//! Written in one form: equal tables, equal bytes. Read strictly: a field that nobody knows is refused, as another
//! version of the table has another `schema`.

use std::net::SocketAddr;

use serde::Serialize;

use super::table::{MAX_ATTRIBUTE_BYTES, MAX_LABEL_BYTES, MAX_NAME_BYTES, MAX_UID_BYTES, is_word};
use super::{
    Affinity, ClusterIdentity, HASH_NAME, Header, KEY_SCHEMA, KeySource, MAX_EPOCH, MAX_KEY_ATTRIBUTES,
    MAX_OWNERS, Owner, RoutingTable, SCHEMA,
};
use crate::document::{self, Fields, Read, SettingsError};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TableText<'t> {
    schema: u32,
    epoch: u64,
    affinity: &'static str,
    hash: &'static str,
    key_schema: u32,
    key_source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_attributes: Option<&'t [String]>,
    cluster: ClusterText<'t>,
    owners: Vec<OwnerText<'t>>,
}

#[derive(Serialize)]
struct ClusterText<'t> {
    namespace: &'t str,
    policy: &'t str,
}

#[derive(Serialize)]
struct OwnerText<'t> {
    slot: u16,
    uid: &'t str,
    name: &'t str,
    address: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'t str>,
}

impl RoutingTable {
    /// Reads the key `routing` of a live file, if it is there; errors name every field that breaks its rule.
    pub fn from_yaml(yaml: &str) -> Result<Option<Self>, SettingsError> {
        document::read(yaml, |object| {
            // Each of the two keys holds by itself, as in a `ConfigMap`.
            object.take("policy");
            object.optional_section("routing", read)
        })
    }

    /// Reads the text of `data.routing` of a live `ConfigMap`; errors name its fields as those of a live file.
    pub fn from_routing_yaml(yaml: &str) -> Result<Self, SettingsError> {
        document::read_below("routing", yaml, read)
    }

    /// Writes the text that [`Self::from_routing_yaml`] reads.
    pub fn to_yaml(&self) -> String {
        let Header {
            cluster,
            affinity,
            key,
        } = self.header();
        let owners = self.owners().iter().map(|owner| OwnerText {
            slot: owner.slot,
            uid: &owner.uid,
            name: &owner.name,
            address: owner.address,
            zone: owner.zone.as_deref(),
        });
        let text = TableText {
            schema: SCHEMA,
            epoch: self.epoch(),
            affinity: affinity.name(),
            hash: HASH_NAME,
            key_schema: KEY_SCHEMA,
            key_source: key.name(),
            key_attributes: key.attributes(),
            cluster: ClusterText {
                namespace: &cluster.namespace,
                policy: &cluster.policy,
            },
            owners: owners.collect(),
        };
        // Plain text, numbers and lists cannot fail; what is empty would not be read.
        serde_yaml::to_string(&text).unwrap_or_default()
    }
}

fn read(fields: &mut Fields<'_>) -> Read<RoutingTable> {
    let schema = fields.required_integer("schema", SCHEMA..=SCHEMA);
    let epoch = fields.required_integer("epoch", 1..=MAX_EPOCH);
    let affinity = fields.choice(
        "affinity",
        [Affinity::Forward, Affinity::Upstream, Affinity::None].map(|affinity| (affinity.name(), affinity)),
    );
    let hash = hash(fields);
    let key_schema = fields.required_integer("keySchema", KEY_SCHEMA..=KEY_SCHEMA);
    let key = key_source(fields);
    let cluster = fields.section("cluster", cluster);
    let owners = owners(fields);
    schema?;
    hash?;
    key_schema?;
    let header = Header {
        cluster: cluster?,
        affinity: affinity?,
        key: key?,
    };
    RoutingTable::new(epoch?, header, owners?).map_err(|error| {
        // What was not checked yet speaks of several owners.
        let rule = error.to_string();
        fields.refuse("owners", rule.strip_prefix("owners: ").unwrap_or(&rule))
    })
}

fn hash(fields: &mut Fields<'_>) -> Read<()> {
    if fields.required_text("hash")? == HASH_NAME {
        Ok(())
    } else {
        Err(fields.refuse("hash", format!("must be {HASH_NAME}")))
    }
}

/// A [`KeySource`] of these names.
type OfNames = fn(Vec<String>) -> KeySource;

fn key_source(fields: &mut Fields<'_>) -> Read<KeySource> {
    let sources: [(_, OfNames); 3] = [
        ("Source", |_| KeySource::Source),
        ("Listed", KeySource::Listed),
        ("Context", KeySource::Context),
    ];
    let source = fields.choice("keySource", sources);
    let names = fields.texts("keyAttributes", MAX_KEY_ATTRIBUTES, 1..=MAX_ATTRIBUTE_BYTES);
    let (source, names) = (source?, names?);
    match (source(Vec::new()), names) {
        (KeySource::Source, None) => Ok(KeySource::Source),
        (KeySource::Source, Some(_)) => {
            Err(fields.refuse("keyAttributes", "must not be given with keySource Source"))
        }
        (_, Some(names)) if !names.is_empty() => Ok(source(names)),
        _ => Err(fields.refuse("keyAttributes", "must be given, and not be empty")),
    }
}

fn cluster(fields: &mut Fields<'_>) -> Read<ClusterIdentity> {
    let namespace = word(fields, "namespace", MAX_LABEL_BYTES);
    let policy = word(fields, "policy", MAX_UID_BYTES);
    Ok(ClusterIdentity {
        namespace: namespace?,
        policy: policy?,
    })
}

fn owners(fields: &mut Fields<'_>) -> Read<Vec<Owner>> {
    let problems = fields.problems();
    let owners = fields.list("owners", MAX_OWNERS, |path, node| {
        Fields::read(path, node, problems, owner)
    })?;
    owners.ok_or_else(|| fields.refuse("owners", "must be given"))
}

fn owner(fields: &mut Fields<'_>) -> Read<Owner> {
    let most = u16::try_from(MAX_OWNERS - 1).unwrap_or(u16::MAX);
    let slot = fields.required_integer("slot", 0..=most);
    let uid = word(fields, "uid", MAX_UID_BYTES);
    let name = word(fields, "name", MAX_NAME_BYTES);
    let address = address(fields);
    let zone = zone(fields);
    Ok(Owner {
        slot: slot?,
        uid: uid?,
        name: name?,
        address: address?,
        zone: zone?,
    })
}

fn address(fields: &mut Fields<'_>) -> Read<SocketAddr> {
    let text = fields.required_text("address")?;
    let address = text
        .parse()
        .ok()
        .filter(|address: &SocketAddr| address.port() > 0);
    address.ok_or_else(|| {
        let rule = "must be an IP address and a port, such as 10.0.0.1:4319 or [fd00::1]:4319";
        fields.refuse("address", rule)
    })
}

fn zone(fields: &mut Fields<'_>) -> Read<Option<String>> {
    match fields.text("zone")? {
        Some(zone) if !is_word(&zone, MAX_LABEL_BYTES) => {
            Err(fields.refuse("zone", word_rule(MAX_LABEL_BYTES)))
        }
        zone => Ok(zone),
    }
}

fn word(fields: &mut Fields<'_>, name: &'static str, most: usize) -> Read<String> {
    let text = fields.required_text(name)?;
    if is_word(&text, most) {
        Ok(text)
    } else {
        Err(fields.refuse(name, word_rule(most)))
    }
}

fn word_rule(most: usize) -> String {
    format!("must have 1 to {most} characters of printable ASCII without spaces")
}
