//! The affinity key of a resource: 64 bits, by which it finds its owner.
//!
//! ```text
//! attributes of the resource -> those that count -> canonical encoding -> first 64 bits of BLAKE3
//! ```
//! What counts by default: `service.namespace`, `service.name`, and the first of [`INSTANCE_ATTRIBUTES`] that is there.
//! A resource with none of them is known by all that it has. An attribute without a value, or with an empty text, counts
//! as not there: many sources would share it.
//!
//! Names of attributes and whether they are there are part of the key, as in [`crate::identity`]. Order does not matter,
//! and neither do attributes that do not count, so a source keeps its owner while those change.
//! Every resource has a key. What cannot be read safely is known by its raw bytes: the same source sends the same ones.
//!
//! The encoding is frozen by golden vectors in `tests/otlp/affinity.rs`. A change needs a new [`VERSION`] and a new
//! [`SCHEMA`].

use crate::canonical::Canonical;
use crate::identity::{ContextAttributes, InvalidIdentity, MAX_VALUE_DEPTH, MAX_VALUES};
use crate::malformed::Malformed;
use crate::structure::check_resource;
use crate::value::{Attribute, Value, attributes};
use crate::walk::Walk;

/// Hash domain and version of the encoding.
pub const VERSION: &str = "jevmetrics.io/affinity/v1";
/// [`VERSION`] as a number, for tables.
pub const SCHEMA: u32 = 1;

/// What tells the instances of a service apart; the first that is there counts.
pub const INSTANCE_ATTRIBUTES: [&str; 5] = [
    "service.instance.id",
    "k8s.pod.uid",
    "k8s.pod.name",
    "host.id",
    "host.name",
];

/// What tells services apart.
const SERVICE_ATTRIBUTES: [&str; 2] = ["service.namespace", "service.name"];

/// Which attributes count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Those of a service and its instance.
    Source,
    /// These; of a resource that has none of them, all.
    Listed(ContextAttributes),
    /// These, there or not: what has one identity has one key.
    Context(ContextAttributes),
}

/// How an encoding begins: what follows is of one of four forms.
#[derive(Debug, Clone, Copy)]
enum Form {
    Source = 1,
    Names = 2,
    All = 3,
    Raw = 4,
}

/// The affinity key of one resource, by its index in the walk over `request`.
///
/// # Errors
/// The resource is broken, the request must be refused.
pub fn affinity_key(
    request: &[u8],
    walk: &Walk,
    resource: u32,
    source: &KeySource,
) -> Result<u64, Malformed> {
    let parts = walk.resource_parts(request, resource);
    let mut canonical = Canonical::default();
    let is_readable = check_resource(&parts)? <= MAX_VALUES
        && write(&mut canonical, &attributes(&parts, 1)?, source).is_ok();
    if !is_readable {
        canonical = Canonical::default();
        canonical.byte(Form::Raw as u8);
        for (bytes, _) in parts {
            canonical.blob(bytes);
        }
    }
    let mut hasher = blake3::Hasher::new_derive_key(VERSION);
    let mut key = [0; 8];
    hasher.update(canonical.bytes()).finalize_xof().fill(&mut key);
    Ok(u64::from_le_bytes(key))
}

fn write(
    canonical: &mut Canonical,
    attributes: &[Attribute<'_>],
    source: &KeySource,
) -> Result<(), InvalidIdentity> {
    let has_any = match source {
        KeySource::Source => write_source(canonical, attributes)?,
        KeySource::Listed(names) => write_names(canonical, attributes, names)?,
        KeySource::Context(names) => {
            write_names(canonical, attributes, names)?;
            true
        }
    };
    if !has_any {
        *canonical = Canonical::default();
        canonical.byte(Form::All as u8);
        canonical.map(attributes, MAX_VALUE_DEPTH)?;
    }
    Ok(())
}

/// Whether any of the attributes is there.
fn write_source(canonical: &mut Canonical, attributes: &[Attribute<'_>]) -> Result<bool, InvalidIdentity> {
    canonical.byte(Form::Source as u8);
    let mut has_any = false;
    for name in SERVICE_ATTRIBUTES {
        has_any |= write_attribute(canonical, attributes, name)?;
    }
    for name in INSTANCE_ATTRIBUTES {
        if find(attributes, name)?.is_some() {
            write_attribute(canonical, attributes, name)?;
            return Ok(true);
        }
    }
    Ok(has_any)
}

/// Whether any of the attributes is there.
fn write_names(
    canonical: &mut Canonical,
    attributes: &[Attribute<'_>],
    names: &ContextAttributes,
) -> Result<bool, InvalidIdentity> {
    canonical.byte(Form::Names as u8);
    let mut has_any = false;
    for name in names.names() {
        has_any |= write_attribute(canonical, attributes, name)?;
    }
    Ok(has_any)
}

/// The name, whether it is there, and its value. Whether it is there.
fn write_attribute(
    canonical: &mut Canonical,
    attributes: &[Attribute<'_>],
    name: &str,
) -> Result<bool, InvalidIdentity> {
    let value = find(attributes, name)?;
    canonical.text(name.as_bytes())?;
    canonical.flag(value.is_some());
    if let Some(value) = value {
        canonical.value(value, MAX_VALUE_DEPTH)?;
    }
    Ok(value.is_some())
}

/// The value of an attribute that has one.
fn find<'v, 'a>(
    attributes: &'v [Attribute<'a>],
    name: &str,
) -> Result<Option<&'v Value<'a>>, InvalidIdentity> {
    let mut named = attributes
        .iter()
        .filter(|attribute| attribute.key == name.as_bytes());
    let Some(first) = named.next() else {
        return Ok(None);
    };
    if named.next().is_some() {
        return Err(InvalidIdentity::RepeatedKey);
    }
    if first.has_key_reference {
        return Err(InvalidIdentity::Reference);
    }
    Ok(match &first.value {
        Value::Absent | Value::Empty | Value::Text([]) => None,
        value => Some(value),
    })
}
