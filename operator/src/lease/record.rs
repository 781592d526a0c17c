//! What a Lease says, and what follows from it. Pure.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::LEASE_DURATION;

/// What a Lease says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Record {
    pub(super) holder: Option<String>,
    pub(super) duration: Duration,
    renewed: Option<MicroTime>,
    acquired: Option<MicroTime>,
    pub(super) transitions: i32,
}

impl Record {
    pub(super) fn of(spec: Option<&LeaseSpec>) -> Self {
        let Some(spec) = spec else {
            return Self::default();
        };
        let seconds = spec.lease_duration_seconds.unwrap_or(0).max(0);
        Self {
            holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            renewed: spec.renew_time.clone(),
            acquired: spec.acquire_time.clone(),
            transitions: spec.lease_transitions.unwrap_or(0),
        }
    }

    /// What `identity` writes to take or to keep the Lease.
    pub(super) fn held_by(&self, identity: &str, now: Timestamp) -> LeaseSpec {
        let now = MicroTime(now);
        let is_mine = self.holder.as_deref() == Some(identity);
        LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: self
                .acquired
                .clone()
                .filter(|_| is_mine)
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if is_mine {
                self.transitions
            } else {
                self.transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }

    /// What a leader writes when it stops: anybody may follow at once.
    pub(super) fn released(&self, now: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(now)),
            acquire_time: self.acquired.clone(),
            lease_transitions: Some(self.transitions),
            ..LeaseSpec::default()
        }
    }
}

/// What was seen of a Lease, and since when.
#[derive(Debug, Default)]
pub(super) struct Watched {
    seen: Option<(Record, Instant)>,
}

impl Watched {
    /// Whether `identity` may take or keep the Lease that now says `record`.
    pub(super) fn may_hold(&mut self, record: &Record, identity: &str, now: Instant) -> bool {
        let since = match &self.seen {
            Some((known, since)) if known == record => *since,
            _ => {
                self.seen = Some((record.clone(), now));
                now
            }
        };
        match &record.holder {
            None => true,
            Some(holder) if holder == identity => true,
            Some(_) => now.saturating_duration_since(since) > record.duration,
        }
    }
}
