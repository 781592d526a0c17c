//! Whether a table comes into force. Pure.
//!
//! The operator publishes above the highest epoch that a pod has told it. So a lower epoch is an old copy, and another
//! table of the same epoch is the work of a second writer: the next one is above both.

use std::cmp::Ordering;

use jevmetrics_api::routing::{ClusterIdentity, MAX_EPOCH_IN_FORCE, RoutingTable};

/// What becomes of a table that can be in force.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It comes into force.
    New,
    /// It is.
    InForce,
}

/// Why a table does not come into force. Of a refused table only numbers are shown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// It cannot be read.
    #[error("{0}")]
    Broken(String),
    /// It is of another policy than this process is told.
    #[error("routing.cluster.policy: must be {0}, the policy of this process: the table is another's")]
    OtherPolicy(String),
    /// It is of another policy than the table in force.
    #[error("routing.cluster: must be policy {} in namespace {}, as before: the table is another's", .0.policy, .0.namespace)]
    OtherCluster(ClusterIdentity),
    /// Nobody has made so many tables. In force it could hardly be followed by another.
    #[error("routing.epoch: must be at most {MAX_EPOCH_IN_FORCE}, is {0}")]
    AbsurdEpoch(u64),
    /// It is older than the one in force.
    #[error("routing.epoch: must be at least {in_force}, which is in force, is {offered}")]
    LowerEpoch { in_force: u64, offered: u64 },
    /// Its epoch is taken.
    #[error("routing: there is another table of epoch {0} in force: must be the same, or of a higher epoch")]
    EpochTwice(u64),
}

impl Refusal {
    /// Its name in metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Broken(_) | Self::AbsurdEpoch(_) => "broken",
            Self::OtherPolicy(_) | Self::OtherCluster(_) => "stranger",
            Self::LowerEpoch { .. } => "lower_epoch",
            Self::EpochTwice(_) => "epoch_twice",
        }
    }
}

/// Whether `offered` follows `in_force` in a process that was told to work for the policy `policy_uid`.
pub(super) fn judge(
    in_force: Option<&RoutingTable>,
    policy_uid: Option<&str>,
    offered: &RoutingTable,
) -> Result<Verdict, Refusal> {
    let cluster = &offered.header().cluster;
    if let Some(uid) = policy_uid
        && uid != cluster.policy
    {
        return Err(Refusal::OtherPolicy(uid.to_owned()));
    }
    if offered.epoch() > MAX_EPOCH_IN_FORCE {
        return Err(Refusal::AbsurdEpoch(offered.epoch()));
    }
    let Some(in_force) = in_force else {
        return Ok(Verdict::New);
    };
    if *cluster != in_force.header().cluster {
        return Err(Refusal::OtherCluster(in_force.header().cluster.clone()));
    }
    match offered.epoch().cmp(&in_force.epoch()) {
        Ordering::Greater => Ok(Verdict::New),
        Ordering::Equal if offered == in_force => Ok(Verdict::InForce),
        Ordering::Equal => Err(Refusal::EpochTwice(in_force.epoch())),
        Ordering::Less => Err(Refusal::LowerEpoch {
            in_force: in_force.epoch(),
            offered: offered.epoch(),
        }),
    }
}
