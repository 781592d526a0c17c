//! The identity of an instrument: canonical, versioned, hashed with BLAKE3. The key of shared state.
//!
//! Part of it: resource attributes, scope name, version and attributes, both schema URLs, name, description,
//! unit, data type, temporality, monotonicity. Attribute order does not matter; `"1"`, `1`, `1.0` and `true`
//! are four values; "absent" and "empty" differ wherever OTLP tells them apart.
//! What cannot be read safely has no identity ([`InvalidIdentity`]): it is kept and never asked about.
//!
//! The encoding is frozen by golden vectors in `tests/identity_golden.rs`. A change needs a new [`VERSION`].

use std::fmt;

use crate::malformed::Malformed;
use crate::structure::{check_resource, check_scope};
use crate::value::{Attribute, Value, attributes};
use crate::walk::Walk;
use crate::wire::Reader;
use crate::{malformed::Place, wire::RECURSION_LIMIT};

/// Hash domain and version of the canonical encoding.
pub const VERSION: &str = "jevmetrics.io/identity/v1";

/// Values nested deeper than this are not read: real attributes are flat.
pub const MAX_VALUE_DEPTH: u32 = 16;

/// 160 bits of BLAKE3: short enough to keep many, long enough against made collisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity([u8; 20]);

impl Identity {
    /// The raw hash.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity({self})")
    }
}

/// What of a resource counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityMode {
    /// All resource attributes.
    Complete,
    /// Only these attributes: the replicas of one service share one identity.
    Context(ContextAttributes),
}

/// A sorted list of attribute names without repetition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextAttributes(Vec<String>);

impl ContextAttributes {
    /// Sorts and removes repetitions.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.0.binary_search_by(|name| name.as_bytes().cmp(key)).is_ok()
    }
}

/// Why an instrument has no identity that can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum InvalidIdentity {
    /// Which of the two would count is anybody's guess.
    #[error("an attribute key is given twice")]
    RepeatedKey,
    /// A string of the identity is not UTF-8.
    #[error("a text is not valid UTF-8")]
    NotText,
    /// Beyond [`MAX_VALUE_DEPTH`].
    #[error("an attribute value is nested deeper than 16 levels")]
    NestedTooDeep,
    /// A string table reference: metrics have no such table.
    #[error("an attribute refers to a string table")]
    Reference,
    /// OTLP asks for a name.
    #[error("the metric has no name")]
    NoName,
    /// None of the five data types.
    #[error("the metric has no data of a known type")]
    NoData,
}

/// What identity says of one metric.
pub type IdentityResult = Result<Identity, InvalidIdentity>;

/// Parses what an alias stands for.
///
/// # Errors
/// Outer: resource or scope are broken, the request must be refused. Inner: no identity, the metric is kept.
pub fn identify(
    request: &[u8],
    walk: &Walk,
    metric: usize,
    mode: &IdentityMode,
) -> Result<IdentityResult, Malformed> {
    let metric = &walk.metrics[metric];
    let scope_record = &walk.scopes[metric.scope as usize];
    let resource_record = &walk.resources[scope_record.resource as usize];
    let resource = walk.resource_parts(request, scope_record.resource);
    let scope = walk.scope_parts(request, metric.scope);
    check_resource(&resource)?;
    check_scope(&scope)?;

    let resource_attributes = attributes(&resource, 1)?;
    let scope_attributes = attributes(&scope, 3)?;
    let (scope_name, scope_version) = scope_names(&scope)?;

    let name = metric.name(request);
    let data_type = match metric.data_type {
        _ if name.is_empty() => return Ok(Err(InvalidIdentity::NoName)),
        None => return Ok(Err(InvalidIdentity::NoData)),
        Some(data_type) => data_type,
    };
    let mut canonical = Canonical::default();
    let written = canonical
        .resource(!resource.is_empty(), &resource_attributes, mode)
        .and_then(|()| canonical.text(&request[resource_record.schema_url.range()]))
        .and_then(|()| {
            canonical.flag(!scope.is_empty());
            canonical.text(scope_name)
        })
        .and_then(|()| canonical.text(scope_version))
        .and_then(|()| canonical.map(&scope_attributes, MAX_VALUE_DEPTH))
        .and_then(|()| canonical.text(&request[scope_record.schema_url.range()]))
        .and_then(|()| canonical.text(name))
        .and_then(|()| canonical.text(&request[metric.description.range()]))
        .and_then(|()| canonical.text(&request[metric.unit.range()]));
    if let Err(invalid) = written {
        return Ok(Err(invalid));
    }
    canonical.byte(data_type as u8);
    canonical.optional(
        data_type
            .has_temporality()
            .then_some(&metric.temporality.to_le_bytes()[..]),
    );
    canonical.optional(
        data_type
            .has_monotonicity()
            .then_some(&[u8::from(metric.is_monotonic)][..]),
    );
    Ok(Ok(canonical.hash()))
}

/// Name and version of a scope; given several times, the last counts.
pub(crate) fn scope_names<'a>(parts: &[(&'a [u8], usize)]) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let (mut name, mut version): (&[u8], &[u8]) = (&[], &[]);
    for &(bytes, base) in parts {
        let mut reader = Reader::new(bytes, base, RECURSION_LIMIT, Place::Scope);
        while !reader.is_at_end() {
            let key = reader.key()?;
            match key.field {
                1 => name = reader.bytes_field(key)?.0,
                2 => version = reader.bytes_field(key)?.0,
                _ => reader.skip(key)?,
            }
        }
    }
    Ok((name, version))
}

/// Writes the canonical encoding. Every item is typed or has a fixed place, every length is written.
#[derive(Default)]
struct Canonical {
    bytes: Vec<u8>,
}

impl Canonical {
    fn hash(&self) -> Identity {
        let mut identity = [0; 20];
        let mut hasher = blake3::Hasher::new_derive_key(VERSION);
        hasher.update(&self.bytes);
        hasher.finalize_xof().fill(&mut identity);
        Identity(identity)
    }

    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        self.flag(bytes.is_some());
        self.bytes.extend_from_slice(bytes.unwrap_or_default());
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), InvalidIdentity> {
        if std::str::from_utf8(bytes).is_err() {
            return Err(InvalidIdentity::NotText);
        }
        self.blob(bytes);
        Ok(())
    }

    fn resource(
        &mut self,
        is_present: bool,
        attributes: &[Attribute<'_>],
        mode: &IdentityMode,
    ) -> Result<(), InvalidIdentity> {
        match mode {
            IdentityMode::Complete => {
                self.byte(1);
                self.flag(is_present);
                self.map(attributes, MAX_VALUE_DEPTH)
            }
            IdentityMode::Context(names) => {
                // A resource that cannot be read safely is invalid in both modes.
                Self::default().map(attributes, MAX_VALUE_DEPTH)?;
                let context: Vec<Attribute<'_>> = attributes
                    .iter()
                    .filter(|attribute| names.contains(attribute.key))
                    .cloned()
                    .collect();
                self.byte(2);
                self.map(&context, MAX_VALUE_DEPTH)
            }
        }
    }

    /// Sorted by key; a key given twice makes the identity invalid.
    fn map(&mut self, attributes: &[Attribute<'_>], depth: u32) -> Result<(), InvalidIdentity> {
        let mut sorted: Vec<&Attribute<'_>> = attributes.iter().collect();
        sorted.sort_unstable_by_key(|attribute| attribute.key);
        if sorted.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Err(InvalidIdentity::RepeatedKey);
        }
        self.bytes.extend_from_slice(&(sorted.len() as u64).to_le_bytes());
        for attribute in sorted {
            if attribute.has_key_reference {
                return Err(InvalidIdentity::Reference);
            }
            self.text(attribute.key)?;
            self.value(&attribute.value, depth)?;
        }
        Ok(())
    }

    fn value(&mut self, value: &Value<'_>, depth: u32) -> Result<(), InvalidIdentity> {
        match value {
            Value::Absent => self.byte(0),
            Value::Empty => self.byte(1),
            Value::Text(text) => {
                self.byte(2);
                self.text(text)?;
            }
            Value::Bool(value) => {
                self.byte(3);
                self.flag(*value);
            }
            Value::Int(value) => {
                self.byte(4);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            Value::Double(bits) => {
                self.byte(5);
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
            Value::Bytes(bytes) => {
                self.byte(6);
                self.blob(bytes);
            }
            Value::Array(values) => {
                let depth = depth.checked_sub(1).ok_or(InvalidIdentity::NestedTooDeep)?;
                self.byte(7);
                self.bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
                for value in values {
                    self.value(value, depth)?;
                }
            }
            Value::Map(attributes) => {
                let depth = depth.checked_sub(1).ok_or(InvalidIdentity::NestedTooDeep)?;
                self.byte(8);
                self.map(attributes, depth)?;
            }
            Value::Reference => return Err(InvalidIdentity::Reference),
        }
        Ok(())
    }
}
