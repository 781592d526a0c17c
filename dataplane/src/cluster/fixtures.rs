//! Members and tables for tests.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use jevmetrics_api::member::{InferenceReport, Member, PolicyReport, State};
use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable};

/// When all of them speak, in unix nanoseconds.
pub(super) const NOW: i64 = 1_700_000_000_000_000_000;

/// Serving, with `uid-<id>`; `started` in seconds before or after [`NOW`].
pub(super) fn member(id: &str, started: i64) -> Member {
    Member {
        id: id.to_owned(),
        hostname: id.to_owned(),
        version: "0.1.0".to_owned(),
        started_at: NOW + started * 1_000_000_000,
        last_seen: NOW,
        is_this_pod: false,
        leader_locks: Vec::new(),
        pod: Some(format!("pod-{id}")),
        uid: Some(format!("uid-{id}")),
        node: None,
        epoch: None,
        routing_policy: None,
        slot: None,
        zone: None,
        state: State::Serving,
        settings_digest: String::new(),
        revision: "1".to_owned(),
        policy: PolicyReport::default(),
        inference: InferenceReport::default(),
        coordination: None,
        coverage: None,
        counters: None,
    }
}

/// The pods `pod-<id>` with the uids of [`member`], at 10.0.0.SLOT, from slot 0 on.
pub(super) fn table(epoch: u64, ids: &[impl AsRef<str>]) -> RoutingTable {
    table_with(epoch, Affinity::Forward, ids)
}

/// As [`table`].
pub(super) fn table_with(epoch: u64, affinity: Affinity, ids: &[impl AsRef<str>]) -> RoutingTable {
    let owners = ids.iter().zip(0_u8..).map(|(id, slot)| Owner {
        slot: slot.into(),
        uid: format!("uid-{}", id.as_ref()),
        name: format!("pod-{}", id.as_ref()),
        address: (Ipv4Addr::new(10, 0, 0, slot), 4319).into(),
        zone: Some(format!("zone-{}", slot % 3)),
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: "shop".to_owned(),
            policy: "uid-of-the-policy".to_owned(),
        },
        affinity,
        key: KeySource::Source,
    };
    RoutingTable::new(epoch, header, owners.collect()).unwrap()
}
