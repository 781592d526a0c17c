//! The list of members at one moment, as this process sees it. Pure: time and findings are arguments.
//!
//! Invariants: oldest first, and among those of one moment by id; no id twice; this process is always in it, marked, with
//! what it knows of itself; nobody else is marked as this one, whatever he says; every pod of the routing table is a row,
//! or silent with the reason, unless the source is down, or a list of heartbeats is cut, or read by a process that was not
//! told its own uid: then pods are not told theirs, and nobody can be missed.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::member::{Member, State};
use jevmetrics_api::routing::{Affinity, Owner, RoutingTable};
use tokio::time::Instant;

use super::found::{Found, Heard, Silent};
use super::stats::Counts;

/// Heartbeats come every 10 s ± 10 %: after this, one is missing.
pub(super) const STALE: Duration = Duration::from_secs(15);

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct View {
    /// This process.
    pub(super) self_id: String,
    pub(super) rows: Vec<Row>,
    pub(super) silent: Vec<Silent>,
    /// Documents that make no sense, left out.
    pub(super) unreadable: usize,
    /// Whether there are more members than the source told.
    pub(super) is_cut: bool,
    pub(super) source: Source,
    /// Why the own heartbeat is not written, if it is to be.
    pub(super) beat: Option<String>,
    /// The routing table of this process.
    pub(super) table: Option<Arc<RoutingTable>>,
    /// Why what the live object holds now is not that table.
    pub(super) refused: Option<Arc<String>>,
    /// When the source was asked.
    pub(super) read_at: Instant,
    /// The same by the wall clock of this process, in unix nanoseconds.
    pub(super) unix_nanos: i64,
}

/// Where the list comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Heartbeats in Redis, under this namespace; `Err` says why it cannot be read.
    Redis(String, Result<(), String>),
    /// The pods of the routing table were asked.
    Peers,
    /// Nobody else can be known.
    Alone,
}

/// A member.
#[derive(Debug)]
pub(super) struct Row {
    /// What it said; where it says no slot or zone, those of the routing table of this process, unless it is on another
    /// policy's.
    pub(super) member: Member,
    /// Time from its heartbeat to [`View::read_at`]; `None` for this process if it is not in the list.
    pub(super) age: Option<Duration>,
}

/// How the routing table that a member is on compares with that of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Current,
    /// An older one, or none.
    Behind,
    /// A newer one: this process is behind.
    Ahead,
    /// Another policy's, which counts by itself.
    Other,
}

/// What is known apart from what the source gave.
#[derive(Debug)]
pub(super) struct Own {
    /// The document of this process.
    pub(super) member: Member,
    pub(super) beat: Option<String>,
    pub(super) table: Option<Arc<RoutingTable>>,
    pub(super) refused: Option<Arc<String>>,
    pub(super) read_at: Instant,
}

impl View {
    pub(super) fn new(own: Own, source: Source, found: Found) -> Self {
        let Own {
            member,
            beat,
            table,
            refused,
            read_at,
        } = own;
        let self_id = member.id.clone();
        let is_told_uid = member.uid.is_some();
        let unix_nanos = member.last_seen;
        let owners: HashMap<&str, &Owner> = table
            .iter()
            .flat_map(|table| table.owners())
            .map(|owner| (owner.uid.as_str(), owner))
            .collect();
        let listed = found.heard.iter().find(|heard| heard.member.id == self_id);
        let own_age = match &source {
            // In a list it is as old as the others see it.
            Source::Redis(..) => listed.map(|heard| heard.age),
            Source::Peers | Source::Alone => Some(Duration::ZERO),
        };
        let others = found.heard.into_iter();
        let others = others.filter(|heard| heard.member.id != self_id);
        let mut rows: Vec<Row> = others
            .map(|Heard { member, age }| (member, Some(age)))
            .chain([(member, own_age)])
            .map(|(mut member, age)| {
                member.is_this_pod = member.id == self_id;
                if member.is_this_pod {
                    member.epoch = table.as_ref().map(|table| table.epoch());
                    member.routing_policy = table.as_deref().map(policy).map(str::to_owned);
                    (member.slot, member.zone) = (None, None);
                }
                let is_of_other = table.as_deref().is_some_and(|table| is_of_other(&member, table));
                let uid = member.uid.as_deref().filter(|_| !is_of_other);
                let owner = uid.and_then(|uid| owners.get(uid));
                member.slot = member.slot.or(owner.map(|owner| owner.slot));
                member.zone = member.zone.or_else(|| owner.and_then(|owner| owner.zone.clone()));
                Row { member, age }
            })
            .collect();
        rows.sort_by_cached_key(|row| (row.member.started_at, row.member.id.clone()));
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(row.member.id.clone()));
        let mut silent = found.silent;
        if is_told_uid && !found.is_cut && matches!(source, Source::Redis(_, Ok(()))) {
            silent.extend(without_heartbeat(table.as_deref(), &rows));
        }
        Self {
            self_id,
            rows,
            silent,
            unreadable: found.unreadable,
            is_cut: found.is_cut,
            source,
            beat,
            table,
            refused,
            read_at,
            unix_nanos,
        }
    }

    /// Epoch of the routing table of this process.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.table.as_ref().map(|table| table.epoch())
    }

    /// The part of all resources that one slot owns; `None` where nothing is routed by the table.
    pub(super) fn share(&self) -> Option<f64> {
        let table = self.table.as_ref()?;
        let slots = u32::try_from(table.owners().len()).unwrap_or(u32::MAX);
        (table.header().affinity == Affinity::Forward).then(|| 1.0 / f64::from(slots))
    }

    /// How old the list is.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.read_at)
    }

    /// Members by state when the list was read, as metrics count them: what heartbeats came since then is not known. `None`
    /// if members are not known; who is silent is not known either if the list is cut.
    pub(super) fn counts(&self) -> Option<Counts> {
        if matches!(self.source, Source::Redis(_, Err(_))) {
            return None;
        }
        let elapsed = Duration::ZERO;
        let count = |state: State| {
            let rows = self.rows.iter().filter(|row| !row.is_stale(elapsed));
            Some(rows.filter(|row| row.member.state == state).count())
        };
        let stale = self.rows.iter().filter(|row| row.is_stale(elapsed)).count();
        Some([
            ("starting", count(State::Starting)),
            ("serving", count(State::Serving)),
            ("draining", count(State::Draining)),
            ("unknown", count(State::Unknown)),
            ("stale", Some(stale)),
            ("silent", (!self.is_cut).then_some(self.silent.len())),
        ])
    }
}

impl Row {
    /// Time since the heartbeat, if `elapsed` has passed since the list was read.
    pub(super) fn age_after(&self, elapsed: Duration) -> Option<Duration> {
        self.age.map(|age| age + elapsed)
    }

    /// Whether a heartbeat is missing: by this process's reckoning, not by what the member says of the time. A process that
    /// looks at itself is there.
    pub(super) fn is_stale(&self, elapsed: Duration) -> bool {
        !self.member.is_this_pod && self.age_after(elapsed).is_none_or(|age| age > STALE)
    }

    /// How its routing table compares with that of this process; `None` if this process has none.
    pub(super) fn standing(&self, view: &View) -> Option<Standing> {
        let table = view.table.as_deref()?;
        if is_of_other(&self.member, table) {
            return Some(Standing::Other);
        }
        Some(match self.member.epoch.cmp(&view.epoch()) {
            Ordering::Less => Standing::Behind,
            Ordering::Equal => Standing::Current,
            Ordering::Greater => Standing::Ahead,
        })
    }

    /// The part of all resources that it owns; what is owned by another policy's table is not known here.
    pub(super) fn share(&self, view: &View) -> Option<f64> {
        let share = self.member.slot.and(view.share());
        share.filter(|_| self.standing(view) != Some(Standing::Other))
    }

    /// Seconds by which its clock is ahead of the reader's; a round trip is not told from a difference.
    pub(super) fn clock_offset(&self, view: &View) -> Option<i64> {
        let age = i64::try_from(self.age?.as_nanos()).unwrap_or(i64::MAX);
        let said_at = view.unix_nanos.saturating_sub(age);
        let offset = self.member.last_seen.saturating_sub(said_at);
        (!self.member.is_this_pod).then_some(offset / 1_000_000_000)
    }
}

/// Uid of the policy that `table` is of.
fn policy(table: &RoutingTable) -> &str {
    &table.header().cluster.policy
}

/// Whether `member` says that it is on the table of another policy than `table`: policies may share one list.
fn is_of_other(member: &Member, table: &RoutingTable) -> bool {
    let said = member.routing_policy.as_deref();
    said.is_some_and(|said| said != policy(table))
}

/// Pods of the table of whom there is no heartbeat in a list that can be read. By uid: somebody else may say that he has
/// their slot.
fn without_heartbeat(table: Option<&RoutingTable>, rows: &[Row]) -> Vec<Silent> {
    let uids = rows.iter().filter_map(|row| row.member.uid.as_deref());
    let there: HashSet<&str> = uids.collect();
    let owners = table.into_iter().flat_map(RoutingTable::owners);
    owners
        .filter(|owner| !there.contains(owner.uid.as_str()))
        .map(|owner| Silent {
            pod: owner.name.clone(),
            slot: owner.slot,
            reason: "no heartbeat".to_owned(),
        })
        .collect()
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
