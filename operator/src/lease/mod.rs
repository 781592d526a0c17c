//! One operator leads. A Lease says which.
//!
//! ```text
//! follower ──(nobody holds it, or the holder was silent for its whole duration)──▶ leader
//! leader ──(no renewal for RENEW_DEADLINE, or somebody else holds it)──▶ follower
//! ```
//! Invariants:
//! - Clocks of machines are never compared: a rival's silence is measured by our own monotonic clock, since we last
//!   saw its record change.
//! - A leader's [`Fence`] closes before anybody else may lead: `RENEW_DEADLINE` < `LEASE_DURATION`, counted from
//!   before the request of the last renewal. Whoever was paused meanwhile finds it closed when it wakes.

mod elector;
mod fence;
mod record;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::elector::{Elector, LeaseError, LeasePlace};
pub use self::fence::Fence;

/// How long others wait for a silent leader.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader leads without a renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Between two tries.
pub const RETRY: Duration = Duration::from_secs(2);
