//! Redis is away, silent, slow, read-only, full, or has other rights: traffic goes on, what is known stays in force,
//! nobody asks on his own, and all is well again when Redis is.
//!
//! These do things to a server that are only done to one of the test's own.

mod borne;
mod cost;
mod ends;
mod slow;

use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Budget;
use jevmetrics_testkit::redis::{Missing, Passage, own_server};
use jevmetrics_testkit::steady::{self, Comparison, Steady};

use super::group::{AMPLE, Group, Setup};
use super::replica::{Replica, WITHIN};

/// Instruments of the steady load.
const STEADY: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Paused,
    BlackHole,
    Cut,
    Demoted,
    OutOfMemory,
    Password,
    Rights,
}

impl Fault {
    async fn begin(self, group: &mut Group) {
        let redis = &mut group.redis;
        match self {
            Self::Killed => redis.kill().await,
            Self::Paused => redis.pause().await,
            Self::Demoted => redis.demote().await,
            Self::OutOfMemory => redis.limit_memory(1).await,
            Self::Password => redis.change_password("another").await,
            Self::Rights => redis.change_user(&["-hset"]).await,
            Self::BlackHole => {
                group.proxy.as_ref().unwrap().set(Passage::BlackHole);
                Ok(())
            }
            Self::Cut => {
                group.proxy.as_ref().unwrap().set(Passage::Cut);
                Ok(())
            }
        }
        .unwrap();
    }

    async fn end(self, group: &mut Group) {
        let redis = &mut group.redis;
        match self {
            Self::Killed => {
                group.restart_redis().await;
                Ok(())
            }
            Self::Paused => redis.resume().await,
            Self::Demoted => redis.promote().await,
            Self::OutOfMemory => redis.limit_memory(0).await,
            Self::Password => redis.write_password("another"),
            Self::Rights => redis.change_user(&["+hset"]).await,
            Self::BlackHole | Self::Cut => {
                group.proxy.as_ref().unwrap().set(Passage::Open);
                Ok(())
            }
        }
        .unwrap();
    }

    /// Parts of the line in `/readyz`, one of which must be there.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Killed | Self::Cut => &["no connection", "the connection broke"],
            Self::Paused | Self::BlackHole => &["no answer in time"],
            Self::Demoted => &["read-only"],
            Self::OutOfMemory => &["out of memory"],
            Self::Password => &["user or password"],
            Self::Rights => &["lacks a right"],
        }
    }

    /// Whether what is shared can still be read.
    fn is_readable(self) -> bool {
        matches!(self, Self::Demoted | Self::OutOfMemory | Self::Rights)
    }
}

fn is_skipped() -> bool {
    let foreign = own_server() == Err(Missing::Foreign);
    if foreign {
        println!("skipped: faults are not done to a server that was there before");
    }
    foreign
}

/// A deadline of calls that faults are soon beyond, in milliseconds.
const HASTY: u32 = 500;

/// Two replicas behind a proxy with this deadline of a call, each with a steady load all of which is assessed.
async fn loaded(call: u32) -> (Group, Vec<Steady>) {
    const QUESTION: u32 = 3_000;
    // As short as it may be: an admission that a fault catches on its way blocks its instrument for so long at the most.
    let budget = Budget {
        lease_ttl_seconds: (QUESTION + 2 * call) / 1000 + 1,
        ..AMPLE
    };
    let setup = Setup {
        budget,
        question: QUESTION,
        call,
        through_proxy: true,
        ..Setup::default()
    };
    let group = Group::start(2, setup).await;
    let load = |(number, replica): (usize, &Replica)| {
        Steady::start(steady::Options {
            requests_per_second: 50.0,
            metrics: STEADY,
            name: format!("replica-{number}"),
            ..steady::Options::new(&replica.plane.grpc_endpoint())
        })
        .unwrap()
    };
    let loads: Vec<Steady> = group.replicas.iter().enumerate().map(load).collect();
    for replica in &group.replicas {
        let known = poll::eventually("assessments", WITHIN, async || match replica.identities().await {
            (known, false) if known >= STEADY as u64 => Ok(()),
            other => Err(format!("{other:?}")),
        });
        known.await.unwrap();
    }
    more_exports(&loads, 5).await;
    (group, loads)
}

/// So many exports of each load that begin from now on.
async fn more_exports(loads: &[Steady], exports: u64) {
    // What is in flight may have been decided before.
    let wanted: Vec<u64> = loads
        .iter()
        .map(Steady::counts)
        .map(|counts| counts.requests + counts.in_flight + exports)
        .collect();
    poll::until("more exports", WITHIN, || {
        loads
            .iter()
            .zip(&wanted)
            .all(|(load, wanted)| load.counts().requests >= *wanted)
    })
    .await
    .unwrap();
}

/// Points that could have been dropped and were not.
fn reappeared(group: &Group, loads: &[Steady]) -> u64 {
    let each = loads.iter().zip(&group.replicas);
    each.map(|(load, replica)| Comparison::new(&load.counts(), &replica.sink.ledger()).droppable_delivered)
        .sum()
}

/// Ends the loads and holds what they were told against what arrived.
async fn nothing_lost(group: &Group, loads: &[Steady]) {
    for (load, replica) in loads.iter().zip(&group.replicas) {
        let told = load.stop().await;
        let found = Comparison::new(&told, &replica.sink.ledger());
        assert_eq!(told.failed_exports, 0, "{told:?}");
        assert!(found.is_complete() && found.unconfirmed == 0, "{found}");
    }
}
