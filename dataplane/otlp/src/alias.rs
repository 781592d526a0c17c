//! The local alias of an instrument: a fast, randomly seeded hash over raw bytes.
//!
//! An alias only ever stands for identical raw identity bytes; what they mean is decided once, by
//! [`crate::identity`]. A second, independent hash ([`crate::Checks`]) guards drops, so that a collision of
//! one function, accidental or made, cannot drop the wrong instrument.

use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Which part of an identity is hashed. Each has a seed of its own, so equal bytes in two parts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Part {
    Resource,
    ResourceSchemaUrl,
    Scope,
    ScopeSchemaUrl,
    Metric,
    /// A metric whose name, description and unit do not stand side by side.
    ScatteredMetric,
}

const PARTS: usize = 6;

/// The random keys of one process.
#[derive(Debug, Clone)]
pub struct Keys {
    seeds: [u64; PARTS],
    check: RandomState,
}

impl Keys {
    /// `entropy` must come from the operating system; the check is keyed by the standard library.
    pub fn new(entropy: [u64; PARTS]) -> Self {
        Self {
            seeds: entropy,
            check: RandomState::new(),
        }
    }

    /// The alias hash of one part. `kind` tells apart what is not in `bytes`.
    #[inline]
    pub(crate) fn alias(&self, part: Part, kind: u64, bytes: &[u8]) -> u128 {
        let seed = self.seeds[part as usize] ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        xxh3_128_with_seed(bytes, seed)
    }

    /// The check hash (`SipHash`) of one part. `kind` leaves bits 16 to 31 free.
    pub(crate) fn check(&self, part: Part, kind: u64, bytes: &[u8]) -> u64 {
        let mut hasher = self.check.build_hasher();
        // In one word, which keeps the bytes aligned to the words that SipHash works on.
        hasher.write_u64((part as u64) << 16 ^ kind);
        hasher.write(bytes);
        hasher.finish()
    }
}
