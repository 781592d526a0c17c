//! Walks, identities, and comparison with what prost reads.

use jevmetrics_otlp::identity::{ContextAttributes, Identity, IdentityMode, InvalidIdentity, identify};
use jevmetrics_otlp::{Keys, Malformed, Walk};
use prost::Message;

use crate::build::Request;

pub(crate) fn keys() -> Keys {
    Keys::new([1, 2, 3, 4, 5, 6])
}

pub(crate) fn context(names: &[&str]) -> ContextAttributes {
    ContextAttributes::new(names.iter().map(|&name| name.to_owned()))
}

/// The walk over a request that can be read.
pub(crate) fn walk(bytes: &[u8]) -> Walk {
    let mut walk = Walk::default();
    walk.read(bytes, &keys()).unwrap();
    walk
}

/// Walks and identifies: everything that can refuse a request.
pub(crate) fn refusal(bytes: &[u8]) -> Option<Malformed> {
    let mut walk = Walk::default();
    if let Err(malformed) = walk.read(bytes, &keys()) {
        return Some(malformed);
    }
    (0..walk.metrics().len()).find_map(|metric| identify(bytes, &walk, metric, &IdentityMode::Complete).err())
}

/// Identity or cause, and number of points, of every metric.
pub(crate) fn all(bytes: &[u8]) -> Vec<(Result<Identity, InvalidIdentity>, u64)> {
    let walk = walk(bytes);
    let metrics = walk.metrics().iter().enumerate();
    metrics
        .map(|(index, metric)| {
            let identity = identify(bytes, &walk, index, &IdentityMode::Complete).unwrap();
            (identity, metric.points())
        })
        .collect()
}

/// The identity, or its cause, of the only metric.
pub(crate) fn only(request: &Request, mode: &IdentityMode) -> Result<Identity, InvalidIdentity> {
    let bytes = request.encode_to_vec();
    let walk = walk(&bytes);
    assert_eq!(walk.metrics().len(), 1);
    identify(&bytes, &walk, 0, mode).unwrap()
}

pub(crate) fn complete(request: &Request) -> Identity {
    only(request, &IdentityMode::Complete).unwrap()
}

/// Asserts that odd bytes mean what prost makes of them.
pub(crate) fn assert_reads_as_prost(odd: &[u8]) {
    let decoded = Request::decode(odd).expect("prost reads it");
    assert_eq!(all(odd), all(&decoded.encode_to_vec()));
}
