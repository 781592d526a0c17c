//! How other pods and the operator are spoken with.

use super::tls::PeerTls;
use crate::document::{Fields, Read};

/// How other pods and the operator are spoken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    tls: Option<PeerTls>,
}

impl Peer {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let tls = fields.optional_section("tls", PeerTls::read)?;
        Ok(Self { tls })
    }

    /// Mutual TLS; without it the peer port speaks plaintext.
    pub fn tls(&self) -> Option<&PeerTls> {
        self.tls.as_ref()
    }
}
