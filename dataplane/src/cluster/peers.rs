//! Asks the pods of the routing table who they are: where no list is kept, this makes one.
//!
//! Invariants: every pod of the table is in what comes back, heard or silent with the reason; one that answers under
//! another's uid is not the pod of the table, nor is one that says none where pods are told theirs; a bounded number is
//! asked at a time.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::member::Member;
use jevmetrics_api::routing::{Owner, RoutingTable};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::found::{Found, Heard, Silent};
use crate::peer::ask::ask;
use crate::tls::client::WatchedClient;

/// Pods that are asked at a time.
const AT_A_TIME: usize = 64;

/// An answer on its way, or why there is none.
pub(super) type Asking = Pin<Box<dyn Future<Output = Result<Member, String>> + Send>>;

/// See the head of the module.
#[derive(Clone)]
pub(crate) struct Peers {
    ask: Arc<dyn Fn(SocketAddr) -> Asking + Send + Sync>,
}

impl Peers {
    /// Over `tls`, if peer ports speak it.
    pub(crate) fn new(tls: Option<WatchedClient>) -> Self {
        Self::asking(move |address| {
            let tls = tls.clone();
            Box::pin(async move {
                let answer = ask(address, tls.as_ref()).await;
                answer.map_err(|error| error.to_string())
            })
        })
    }

    /// By `ask`, which bounds its own time.
    pub(super) fn asking(ask: impl Fn(SocketAddr) -> Asking + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask) }
    }

    /// Asks every pod of the table but the one with the uid `own`.
    pub(super) async fn ask_all(&self, table: &RoutingTable, own: Option<&str>) -> Found {
        let must_say = own.is_some();
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        let mut asking = JoinSet::new();
        for owner in others(table, own).cloned() {
            let (ask, places) = (Arc::clone(&self.ask), Arc::clone(&places));
            asking.spawn(async move {
                let _place = places.acquire_owned().await;
                let answer = ask(owner.address).await;
                (judge(&owner, answer, must_say), owner, Instant::now())
            });
        }
        let mut found = Found::default();
        let mut answers = Vec::new();
        while let Some(answer) = asking.join_next().await {
            answers.extend(answer);
        }
        for (answer, owner, at) in answers {
            match answer {
                Ok(member) => found.heard.push(Heard {
                    member,
                    age: at.elapsed(),
                }),
                Err(reason) => found.silent.push(Silent {
                    pod: owner.name,
                    slot: owner.slot,
                    reason,
                }),
            }
        }
        found.silent.sort_by_key(|silent| silent.slot);
        found
    }
}

fn others<'a>(table: &'a RoutingTable, own: Option<&str>) -> impl Iterator<Item = &'a Owner> {
    let owners = table.owners().iter();
    owners.filter(move |owner| Some(owner.uid.as_str()) != own)
}

/// What is known if the time was over before all have answered.
pub(super) fn nobody_in_time(table: &RoutingTable, own: Option<&str>) -> Found {
    let silent = others(table, own).map(|owner| Silent {
        pod: owner.name.clone(),
        slot: owner.slot,
        reason: "not asked in time".to_owned(),
    });
    Found {
        silent: silent.collect(),
        ..Found::default()
    }
}

/// Addresses are given to other pods: who answers must be the one that was asked. `must_say` if this pod was told its uid:
/// then all pods of the table were.
fn judge(owner: &Owner, answer: Result<Member, String>, must_say: bool) -> Result<Member, String> {
    let member = answer?;
    match &member.uid {
        Some(uid) if *uid == owner.uid => Ok(member),
        Some(_) => Err("another pod has its address".to_owned()),
        None if must_say => Err("whoever has its address does not say which pod it is".to_owned()),
        None => Ok(member),
    }
}

/// All that asking so many takes, if nobody answers: waves of the deadline of a question.
pub(super) fn longest(pods: usize) -> Duration {
    let waves = pods.div_ceil(AT_A_TIME);
    Duration::from_secs(4) * u32::try_from(waves).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{member, table};
    use super::*;

    /// Pod 1 does not answer, the address of pod 2 has somebody else, the others are well.
    fn peers() -> Peers {
        Peers::asking(|address| {
            let SocketAddr::V4(address) = address else {
                return Box::pin(std::future::pending());
            };
            let number = address.ip().octets()[3];
            Box::pin(std::future::ready(match number {
                1 => Err("no connection".to_owned()),
                2 => Ok(member("9", 1)),
                number => Ok(member(&number.to_string(), 1)),
            }))
        })
    }

    #[tokio::test]
    async fn everybody_of_the_table_is_heard_or_silent_with_the_reason() {
        let pods: Vec<String> = (0..200).map(|number: u8| number.to_string()).collect();
        let table = table(1, &pods);
        let found = peers().ask_all(&table, Some("uid-0")).await;
        assert_eq!(found.heard.len(), 197);
        let silent: Vec<_> = found
            .silent
            .iter()
            .map(|silent| (silent.slot, silent.reason.as_str()))
            .collect();
        assert_eq!(silent, [(1, "no connection"), (2, "another pod has its address")]);
    }

    #[test]
    fn one_that_does_not_say_who_it_is_counts_only_where_nobody_was_told() {
        let table = table(1, &["a"]);
        let answer = || {
            Ok(Member {
                uid: None,
                ..member("a", 1)
            })
        };
        assert!(judge(&table.owners()[0], answer(), false).is_ok());
        assert!(judge(&table.owners()[0], answer(), true).is_err());
    }

    #[test]
    fn the_bound_grows_with_the_waves() {
        assert_eq!(longest(1), Duration::from_secs(4));
        assert_eq!(longest(65), Duration::from_secs(8));
    }
}
