//! The routing table: which pod owns which resources. The key `routing` of the live object.
//!
//! ```text
//! resource -> affinity key (64 bits) -> slot with the highest score -> the pod that holds it
//! ```
//! A table holds slots, small numbers that each are held by one pod. Keys belong to slots, so a pod that takes over the
//! slot of another takes exactly its keys, and one that leaves scatters them over all others.
//!
//! Invariants:
//! - A [`RoutingTable`] has at least one owner; no slot and no pod is in it twice; owners are sorted by slot.
//! - Equal tables look up equally, in whatever order their owners came, and are written with equal bytes.
//! - Of one epoch there is one table. Who makes tables sees to it; who reads them may rely on it.

mod rendezvous;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use self::rendezvous::NAME as HASH_NAME;
pub(crate) use self::table::MAX_ATTRIBUTE_BYTES;
pub use self::table::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable, TableError};

/// The version of the table's form.
pub const SCHEMA: u32 = 1;
/// The version of the affinity key: of what it is made and how that is hashed.
pub const KEY_SCHEMA: u32 = 1;
/// The highest epoch: what every reader of numbers can tell apart.
pub const MAX_EPOCH: u64 = (1 << 53) - 1;
/// The highest epoch that is believed to a pod, a status or a stranger's table. Nobody comes so far by counting: what is
/// above it is a mistake, and what is not can be outdone for good.
pub const MAX_TOLD_EPOCH: u64 = MAX_EPOCH - (1 << 40);
/// The highest epoch of a table that comes into force: so far above what is believed that all that outdoes it does.
pub const MAX_EPOCH_IN_FORCE: u64 = MAX_EPOCH - (1 << 39);
/// Most owners in one table.
pub const MAX_OWNERS: usize = 1000;
/// Most names in `keyAttributes`.
pub const MAX_KEY_ATTRIBUTES: usize = 32;
