//! What came in and what was refused, as Prometheus counters.
//!
//! Handles are resolved once: a request costs atomic additions, no look-up by label.
//! No label carries anything a sender chose.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;

/// The protocol that a request spoke, whichever port it came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// OTLP/gRPC.
    Grpc,
    /// OTLP/HTTP.
    Http,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Grpc, Self::Http];

    fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }
}

/// Declares [`Cause`] with its labels in one place, so that none can be forgotten.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Why a request was refused before or while it was read. The labels are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Cause { $($(#[$doc])* $name,)* }

        impl Cause {
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Value of the label `cause`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

causes! {
    /// Above `maxRequestBytes`.
    TooLarge = "too_large",
    /// Above `maxUnpackedBytes`.
    UnpackedTooLarge = "unpacked_too_large",
    /// Not exactly one gRPC message.
    MalformedFraming = "malformed_framing",
    /// Broken gzip.
    MalformedCompression = "malformed_compression",
    /// A compression that is not supported.
    BadEncoding = "bad_encoding",
    /// A content type that is not supported.
    UnsupportedMediaType = "unsupported_media_type",
    /// The structure of the metrics cannot be read.
    MalformedProtobuf = "malformed_protobuf",
    /// `grpc-timeout` cannot be read.
    MalformedTimeout = "malformed_timeout",
    /// Unknown path or method.
    NotFound = "not_found",
    /// Not POST.
    WrongMethod = "wrong_method",
    /// gRPC over HTTP/1.1.
    NeedsHttp2 = "needs_http2",
    /// The body did not arrive in time.
    TooSlow = "too_slow",
    /// Other requests took all the memory for requests.
    NoRoom = "no_room",
    /// The sender went away.
    Aborted = "aborted",
    /// A fault of ours, answered `INTERNAL`.
    Panic = "panic",
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TransportLabel {
    transport: Transport,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    transport: Transport,
    cause: Cause,
}

impl EncodeLabelValue for Transport {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

impl EncodeLabelValue for Cause {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

/// Counters of one transport.
#[derive(Debug)]
pub(super) struct TransportStats {
    pub(super) requests: Counter,
    pub(super) bytes: Counter,
    pub(super) unpacked_bytes: Counter,
    refused: Box<[Counter]>,
}

impl TransportStats {
    pub(super) fn refused(&self, cause: Cause) {
        self.refused[cause as usize].inc();
    }
}

#[derive(Debug)]
struct Inner {
    transports: [TransportStats; 2],
    connections: Gauge,
    refused_connections: Counter,
    failed_handshakes: Counter,
}

/// Shared by all listeners of a process.
#[derive(Debug, Clone)]
pub struct Stats(Arc<Inner>);

impl Stats {
    /// Registers `jevmetrics_receive_*`.
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::<TransportLabel, Counter>::default();
        let bytes = Family::<TransportLabel, Counter>::default();
        let unpacked = Family::<TransportLabel, Counter>::default();
        let refused = Family::<RefusalLabels, Counter>::default();
        let inner = Inner {
            transports: Transport::ALL.map(|transport| TransportStats {
                requests: requests.get_or_create_owned(&TransportLabel { transport }),
                bytes: bytes.get_or_create_owned(&TransportLabel { transport }),
                unpacked_bytes: unpacked.get_or_create_owned(&TransportLabel { transport }),
                refused: Cause::ALL
                    .iter()
                    .map(|&cause| refused.get_or_create_owned(&RefusalLabels { transport, cause }))
                    .collect(),
            }),
            connections: Gauge::default(),
            refused_connections: Counter::default(),
            failed_handshakes: Counter::default(),
        };
        let prefix = registry.sub_registry_with_prefix("jevmetrics_receive");
        prefix.register("requests", "Requests whose headers arrived", requests);
        prefix.register("bytes", "Bytes of messages as they came over the wire", bytes);
        prefix.register(
            "unpacked_bytes",
            "Bytes of messages after decompression",
            unpacked,
        );
        prefix.register(
            "refused_requests",
            "Requests refused before their metrics were judged",
            refused,
        );
        prefix.register(
            "connections",
            "Open connections of senders",
            inner.connections.clone(),
        );
        prefix.register(
            "refused_connections",
            "Connections closed at once because maxConnections were open",
            inner.refused_connections.clone(),
        );
        prefix.register(
            "failed_handshakes",
            "Connections closed because TLS was not agreed on",
            inner.failed_handshakes.clone(),
        );
        Self(Arc::new(inner))
    }

    pub(super) fn transport(&self, transport: Transport) -> &TransportStats {
        &self.0.transports[transport as usize]
    }

    /// Requests refused for `cause` so far.
    pub fn refused_requests(&self, transport: Transport, cause: Cause) -> u64 {
        self.transport(transport).refused[cause as usize].get()
    }

    /// Requests whose headers arrived so far.
    pub fn requests(&self, transport: Transport) -> u64 {
        self.transport(transport).requests.get()
    }

    /// Unpacked bytes of all requests so far.
    pub fn unpacked_bytes(&self) -> u64 {
        self.0
            .transports
            .iter()
            .map(|transport| transport.unpacked_bytes.get())
            .sum()
    }

    /// Connections closed at once so far because too many were open.
    pub fn refused_connections(&self) -> u64 {
        self.0.refused_connections.get()
    }

    /// Open connections.
    pub fn connections(&self) -> i64 {
        self.0.connections.get()
    }

    /// Connections closed so far because TLS was not agreed on.
    pub fn failed_handshakes(&self) -> u64 {
        self.0.failed_handshakes.get()
    }

    pub(super) fn fail_handshake(&self) {
        self.0.failed_handshakes.inc();
    }

    pub(super) fn refuse_connection(&self) {
        self.0.refused_connections.inc();
    }

    /// Counts a connection for as long as the guard lives.
    pub(super) fn open_connection(&self) -> OpenConnection {
        self.0.connections.inc();
        OpenConnection(self.0.connections.clone())
    }
}

/// One open connection.
#[derive(Debug)]
pub(super) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_cause_is_exposed_under_its_own_label() {
        let mut registry = Registry::default();
        let stats = Stats::register(&mut registry);
        for &cause in Cause::ALL {
            stats.transport(Transport::Http).refused(cause);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for cause in Cause::ALL {
            let line = format!(
                "jevmetrics_receive_refused_requests_total{{transport=\"http\",cause=\"{}\"}} 1",
                cause.as_str()
            );
            assert!(text.contains(&line), "{line}");
        }
    }
}
