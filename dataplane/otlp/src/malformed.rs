//! Why a request cannot be read, and where.

use std::fmt;

/// The message in which the fault was found, as OTLP names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `ExportMetricsServiceRequest`.
    Request,
    /// `resource_metrics`.
    ResourceMetrics,
    /// `resource_metrics.resource`.
    Resource,
    /// `resource_metrics.scope_metrics`.
    ScopeMetrics,
    /// `resource_metrics.scope_metrics.scope`.
    Scope,
    /// `resource_metrics.scope_metrics.metrics`.
    Metric,
    /// `metrics.gauge`, `.sum`, `.histogram`, `.exponential_histogram` or `.summary`.
    Data,
    /// An attribute of a resource or scope, at any depth.
    Attribute,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Request => "the request",
            Self::ResourceMetrics => "resource_metrics",
            Self::Resource => "resource_metrics.resource",
            Self::ScopeMetrics => "resource_metrics.scope_metrics",
            Self::Scope => "resource_metrics.scope_metrics.scope",
            Self::Metric => "resource_metrics.scope_metrics.metrics",
            Self::Data => "resource_metrics.scope_metrics.metrics.data",
            Self::Attribute => "an attribute of a resource or scope",
        })
    }
}

/// What is wrong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A length or a value reaches beyond its message.
    #[error("the data end before the field does")]
    Truncated,
    /// Over ten bytes, or over 64 bits.
    #[error("a varint is longer than 64 bits")]
    VarintTooLong,
    /// A tag above 32 bits.
    #[error("a field tag is larger than 32 bits")]
    TagTooLarge,
    /// Wire types 6 and 7 do not exist.
    #[error("a field has a wire type that does not exist")]
    UnknownWireType,
    /// Field number 0 does not exist.
    #[error("a field has the number 0")]
    FieldNumberZero,
    /// A known field in another wire type than its own.
    #[error("field {field} has a wire type that it must not have")]
    WrongWireType {
        /// Field number.
        field: u32,
    },
    /// A group that ends with another number, or an end without a group.
    #[error("a group does not end as it began")]
    GroupEndMismatch,
    /// Messages or groups nested deeper than decoders accept.
    #[error("messages are nested deeper than 100 levels")]
    NestedTooDeep,
    /// Offsets are kept in 32 bits.
    #[error("the request is larger than 4 GiB")]
    RequestTooLarge,
    /// Beyond [`crate::MAX_ENTRIES`].
    #[error("the request holds more than 524288 resources, scopes and metrics")]
    TooManyEntries,
}

/// A request whose structure cannot be read. Nothing of it is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed OTLP in {place} at byte {offset}: {fault}")]
pub struct Malformed {
    /// Which message.
    pub place: Place,
    /// Offset in the unpacked request.
    pub offset: usize,
    /// What is wrong.
    pub fault: Fault,
}
