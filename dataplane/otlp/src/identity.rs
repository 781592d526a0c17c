//! The identity of an instrument: canonical, versioned, hashed with BLAKE3. The key of shared state.
//!
//! Part of it: resource attributes, scope name, version and attributes, both schema URLs, name, description,
//! unit, data type, temporality, monotonicity. Attribute order does not matter; `"1"`, `1`, `1.0` and `true`
//! are four values; "absent" and "empty" differ wherever OTLP tells them apart.
//! What cannot be read safely has no identity ([`InvalidIdentity`]): it is kept and never asked about.
//!
//! The encoding is frozen by golden vectors in `tests/otlp/identity_golden.rs`. A change needs a new [`VERSION`].

use std::fmt;

use crate::canonical::Canonical;
use crate::malformed::{Malformed, Place};
use crate::structure::{check_resource, check_scope};
use crate::value::attributes;
use crate::walk::{MetricRecord, Walk};
use crate::wire::{RECURSION_LIMIT, Reader};

/// Hash domain and version of the canonical encoding.
pub const VERSION: &str = "jevmetrics.io/identity/v1";

/// Values nested deeper than this are not read: real attributes are flat.
pub const MAX_VALUE_DEPTH: u32 = 16;

/// Resources and scopes with more attributes and values than this, at all depths, are not read: real ones
/// have a few dozen.
pub const MAX_VALUES: usize = 1 << 16;

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

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
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
    /// Beyond [`MAX_VALUES`].
    #[error("a resource or scope has more than 65536 attributes and values")]
    TooManyValues,
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

/// Parses what one alias stands for. For many metrics of one request: [`Identities`].
///
/// # Errors
/// Outer: resource or scope are broken, the request must be refused. Inner: no identity, the metric is kept.
pub fn identify(
    request: &[u8],
    walk: &Walk,
    metric: usize,
    mode: &IdentityMode,
) -> Result<IdentityResult, Malformed> {
    Identities::new(request, walk, mode).of(metric)
}

/// The hash over what was written so far, if that can be read safely.
type Begun = Result<blake3::Hasher, InvalidIdentity>;

/// Parses what the aliases of one request stand for. What metrics share is parsed and hashed once while they
/// stand side by side: a large resource with many metrics costs its size, not its size times their number.
pub struct Identities<'a> {
    request: &'a [u8],
    walk: &'a Walk,
    mode: &'a IdentityMode,
    resource: Option<(u32, Begun)>,
    scope: Option<(u32, Begun)>,
}

impl<'a> Identities<'a> {
    /// `walk` has read `request`.
    pub fn new(request: &'a [u8], walk: &'a Walk, mode: &'a IdentityMode) -> Self {
        Self {
            request,
            walk,
            mode,
            resource: None,
            scope: None,
        }
    }

    /// The identity of one metric, by its index in the walk.
    ///
    /// # Errors
    /// Outer: resource or scope are broken, the request must be refused. Inner: no identity, the metric is kept.
    pub fn of(&mut self, metric: usize) -> Result<IdentityResult, Malformed> {
        let record = &self.walk.metrics[metric];
        let begun = self.scope(record.scope)?.clone();
        Ok(begun.and_then(|hasher| self.finish(hasher, record)))
    }

    fn finish(&self, mut hasher: blake3::Hasher, metric: &MetricRecord) -> IdentityResult {
        let name = metric.name(self.request);
        if name.is_empty() {
            return Err(InvalidIdentity::NoName);
        }
        let data_type = metric.data_type.ok_or(InvalidIdentity::NoData)?;
        let temporality = metric.temporality.to_le_bytes();
        let monotonicity = [u8::from(metric.is_monotonic)];
        let mut canonical = Canonical::default();
        canonical.text(name)?;
        canonical.text(&self.request[metric.description.range()])?;
        canonical.text(&self.request[metric.unit.range()])?;
        canonical.byte(data_type as u8);
        canonical.optional(data_type.has_temporality().then_some(&temporality[..]));
        canonical.optional(data_type.has_monotonicity().then_some(&monotonicity[..]));
        let mut identity = [0; 20];
        hasher
            .update(canonical.bytes())
            .finalize_xof()
            .fill(&mut identity);
        Ok(Identity(identity))
    }

    fn scope(&mut self, scope: u32) -> Result<&Begun, Malformed> {
        let known = match self.scope.take() {
            Some(known) if known.0 == scope => known,
            _ => (scope, self.begin_scope(scope)?),
        };
        Ok(&self.scope.insert(known).1)
    }

    fn begin_scope(&mut self, scope: u32) -> Result<Begun, Malformed> {
        let record = &self.walk.scopes[scope as usize];
        let begun = self.resource(record.resource)?.clone();
        let parts = self.walk.scope_parts(self.request, scope);
        if check_scope(&parts)? > MAX_VALUES {
            return Ok(begun.and(Err(InvalidIdentity::TooManyValues)));
        }
        let attributes = attributes(&parts, 3)?;
        let (name, version) = scope_names(&parts)?;
        Ok(begun.and_then(|mut hasher| {
            let mut canonical = Canonical::default();
            canonical.flag(!parts.is_empty());
            canonical.text(name)?;
            canonical.text(version)?;
            canonical.map(&attributes, MAX_VALUE_DEPTH)?;
            canonical.text(&self.request[record.schema_url.range()])?;
            hasher.update(canonical.bytes());
            Ok(hasher)
        }))
    }

    fn resource(&mut self, resource: u32) -> Result<&Begun, Malformed> {
        let known = match self.resource.take() {
            Some(known) if known.0 == resource => known,
            _ => (resource, self.begin_resource(resource)?),
        };
        Ok(&self.resource.insert(known).1)
    }

    fn begin_resource(&self, resource: u32) -> Result<Begun, Malformed> {
        let record = &self.walk.resources[resource as usize];
        let parts = self.walk.resource_parts(self.request, resource);
        if check_resource(&parts)? > MAX_VALUES {
            return Ok(Err(InvalidIdentity::TooManyValues));
        }
        let attributes = attributes(&parts, 1)?;
        let mut canonical = Canonical::default();
        let written = canonical
            .resource(!parts.is_empty(), &attributes, self.mode)
            .and_then(|()| canonical.text(&self.request[record.schema_url.range()]));
        Ok(written.map(|()| {
            let mut hasher = blake3::Hasher::new_derive_key(VERSION);
            hasher.update(canonical.bytes());
            hasher
        }))
    }
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
