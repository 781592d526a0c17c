#![allow(clippy::unwrap_used)]
//! Identities for tests.

use jevmetrics_otlp::identity::{Identity, IdentityMode, identify};
use jevmetrics_otlp::{Keys, Walk};

/// The identity of a gauge with this name, without resource and scope.
pub(crate) fn identity(name: &str) -> Identity {
    let field = |tag: u8, payload: &[u8]| [&[tag, u8::try_from(payload.len()).unwrap()], payload].concat();
    let metric = [field(0x0a, name.as_bytes()), field(0x2a, b"")].concat();
    let request = field(0x0a, &field(0x12, &field(0x12, &metric)));
    let mut walk = Walk::default();
    walk.read(&request, &Keys::new([0; 6])).unwrap();
    identify(&request, &walk, 0, &IdentityMode::Complete)
        .unwrap()
        .unwrap()
}
