//! How metrics come in: limits, and TLS.

use std::time::Duration;

use super::tls::ServerTls;
use crate::document::{Fields, Read};

/// How metrics come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingest {
    max_request_bytes: usize,
    max_unpacked_bytes: usize,
    max_connections: usize,
    connection_age: Duration,
    tls: Option<ServerTls>,
}

impl Ingest {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let request = fields.integer("maxRequestBytes", 16 << 20, 1024..=256 << 20);
        let unpacked = fields.integer("maxUnpackedBytes", 32 << 20, 1024..=1 << 30);
        let connections = fields.integer("maxConnections", 128, 1..=65_536);
        let age = fields.integer("connectionAgeSeconds", 300, 1..=86_400);
        let tls = fields.optional_section("tls", ServerTls::read);
        let (request, unpacked) = (request?, unpacked?);
        if unpacked < request {
            let rule = format!("must be at least maxRequestBytes ({request}), is {unpacked}");
            return Err(fields.refuse("maxUnpackedBytes", rule));
        }
        Ok(Self {
            max_request_bytes: request as usize,
            max_unpacked_bytes: unpacked as usize,
            max_connections: connections? as usize,
            connection_age: Duration::from_secs(age?.into()),
            tls: tls?,
        })
    }

    /// Longest request as it comes over the wire, in bytes.
    pub fn max_request_bytes(&self) -> usize {
        self.max_request_bytes
    }

    /// Longest request after decompression, in bytes; never less than [`Self::max_request_bytes`].
    pub fn max_unpacked_bytes(&self) -> usize {
        self.max_unpacked_bytes
    }

    /// Connections at a time.
    pub fn max_connections(&self) -> usize {
        self.max_connections
    }

    /// How long a connection lives before its client is asked to make a new one.
    pub fn connection_age(&self) -> Duration {
        self.connection_age
    }

    /// TLS of both ports; without it they speak plaintext.
    pub fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }
}
