//! What must be remembered between two looks at the pods: since when they are as they are.
//!
//! After a restart it is empty. Then owners of the stored table stay, and everybody else settles anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jevmetrics_api::routing::RoutingTable;

use super::{DISTRUST, Moment, Observation, PACE, REMOVAL_WINDOW, change};

/// What membership remembers of one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The last table that was written, or found.
    table: Option<RoutingTable>,
    /// What it has changed, if it was written here.
    change: Option<String>,
    /// Since when pods have been ready without a break, by uid.
    ready_since: BTreeMap<String, Moment>,
    /// Since when owners have been unready or gone without having said that they leave, by uid.
    lost_since: BTreeMap<String, Moment>,
    /// Owners that were seen leaving, or seen to be deleted, by uid: they will not return, also if they are not seen any
    /// more.
    left: BTreeSet<String>,
    /// When lost owners were removed without a successor, although their slots were wanted.
    removals: Vec<Moment>,
    /// When pods have lost their slot because they were lost, by uid.
    given_up: BTreeMap<String, Moment>,
    /// Whether too few owners were alive at the last look.
    is_frozen: bool,
    /// When that last ended.
    thawed_at: Option<Moment>,
    /// When the last table was written.
    published_at: Option<Moment>,
    /// The size of the last table whose owners were all alive.
    whole: usize,
    /// Slots that were wanted at the last look.
    wanted: usize,
    /// Whether no pod was wanted since an owner of the table was last alive: it is of pods that were sent away.
    is_sent_away: bool,
}

impl Memory {
    /// Notes that `table` is in the live object since `now`, and what it has changed; says whether that is news.
    pub fn published(&mut self, table: &RoutingTable, change: Option<&str>, now: Moment) -> bool {
        if self.table.as_ref() == Some(table) {
            return false;
        }
        let slots: BTreeSet<u16> = table.owners().iter().map(|owner| owner.slot).collect();
        let before = self.table.iter().flat_map(RoutingTable::owners);
        let mut removed = 0;
        for owner in before.filter(|owner| self.lost_since.contains_key(&owner.uid)) {
            if !slots.contains(&owner.slot) {
                removed += 1;
            }
            if table.slot_of(&owner.uid).is_none() {
                self.given_up.insert(owner.uid.clone(), now);
            }
        }
        let unwanted = (slots.len() + removed).saturating_sub(self.wanted);
        let counted = removed.saturating_sub(unwanted);
        self.removals.extend(std::iter::repeat_n(now, counted));
        self.published_at = Some(now);
        let owners_before = self.table.as_ref().map(RoutingTable::owners);
        self.is_sent_away &= owners_before == Some(table.owners());
        self.table = Some(table.clone());
        self.change = change.map(str::to_owned);
        true
    }

    /// What `table` has changed, if it is the last one and was written here. A status is written later than a table.
    pub fn change_of(&self, table: &RoutingTable) -> Option<&str> {
        let is_known = self.table.as_ref() == Some(table);
        self.change.as_deref().filter(|_| is_known)
    }

    /// The last table that was written, or found.
    pub fn table(&self) -> Option<&RoutingTable> {
        self.table.as_ref()
    }

    /// What is remembered after a look at the pods, if `base` is the table to go on from and so many slots are wanted.
    pub(super) fn observe(
        &self,
        base: Option<&RoutingTable>,
        pods: &BTreeMap<&str, &Observation>,
        deleted: &BTreeSet<String>,
        wanted: usize,
        now: Moment,
    ) -> Self {
        let mut before = self.clone();
        if let Some(base) = base.filter(|_| self.table.is_some()) {
            // One that was not known to be written: the reply was lost, or another leader has written it.
            let change = change(self.table.as_ref(), base);
            before.published(base, Some(&change), now);
        }
        before.look(base, pods, deleted, wanted, now)
    }

    fn look(
        &self,
        base: Option<&RoutingTable>,
        pods: &BTreeMap<&str, &Observation>,
        deleted: &BTreeSet<String>,
        wanted: usize,
        now: Moment,
    ) -> Self {
        let is_living = |uid: &str| pods.get(uid).is_some_and(|pod| pod.living().is_some());
        let is_leaving = |uid: &str| pods.get(uid).is_some_and(|pod| pod.is_leaving);
        let owners = || base.into_iter().flat_map(RoutingTable::owners);
        let living = pods.keys().filter(|uid| is_living(uid));
        let is_deleted = |uid: &str| deleted.contains(uid) && !pods.contains_key(uid);
        let has_left = |uid: &str| self.left.contains(uid) || is_leaving(uid) || is_deleted(uid);
        // Whom somebody has taken out of the policy and put back has not left.
        let left = owners().filter(|owner| has_left(&owner.uid) && !is_living(&owner.uid));
        let left: BTreeSet<String> = left.map(|owner| owner.uid.clone()).collect();
        let lost = owners().filter(|owner| !is_living(&owner.uid) && !left.contains(&owner.uid));
        let size = owners().count();
        let is_anybody_living = owners().any(|owner| is_living(&owner.uid));
        let is_whole = owners().all(|owner| is_living(&owner.uid));
        Self {
            table: base.cloned(),
            change: base.and_then(|base| self.change_of(base)).map(str::to_owned),
            ready_since: since(&self.ready_since, living.copied(), now),
            lost_since: since(&self.lost_since, lost.map(|owner| owner.uid.as_str()), now),
            left,
            removals: self.recent_removals(now).collect(),
            given_up: self.recently_given_up(now),
            is_frozen: self.is_frozen,
            thawed_at: self.thawed_at,
            published_at: self.published_at,
            whole: if is_whole || self.whole == 0 {
                size
            } else {
                self.whole
            },
            wanted,
            is_sent_away: base.is_some() && !is_anybody_living && (wanted == 0 || self.is_sent_away),
        }
    }

    /// When a pod has settled or will have, if it stays ready. One that was given up waits for longer: else one that comes
    /// and goes would move its keys to and fro several times a minute.
    pub(super) fn settled_at(&self, uid: &str, settle: Duration) -> Option<Moment> {
        let settled_at = *self.ready_since.get(uid)? + settle;
        let trusted_at = self.given_up.get(uid).map(|&at| at + DISTRUST);
        Some(trusted_at.map_or(settled_at, |at| at.max(settled_at)))
    }

    /// Since when an owner has been lost.
    pub(super) fn lost_since(&self, uid: &str) -> Option<Moment> {
        self.lost_since.get(uid).copied()
    }

    /// Whether an owner has said that it leaves, or was deleted.
    pub(super) fn has_left(&self, uid: &str) -> bool {
        self.left.contains(uid)
    }

    /// Notes whether the table is frozen; says whether that has just ended.
    pub(super) fn frozen(&mut self, is_frozen: bool, now: Moment) -> bool {
        let has_thawed = self.is_frozen && !is_frozen;
        self.is_frozen = is_frozen;
        if has_thawed {
            self.thawed_at = Some(now);
        }
        has_thawed
    }

    /// Until when the lost are held after a thaw, however long ago they were lost: what many have lacked together comes
    /// back to all of them, but not in one moment.
    pub(super) fn thawing_until(&self, hold: Duration, now: Moment) -> Option<Moment> {
        let until = self.thawed_at? + hold;
        (until > now).then_some(until)
    }

    /// How many lost owners may be removed now of a table in which `size` slots are wanted.
    pub(super) fn removals_left(&self, size: usize, now: Moment) -> usize {
        let most = (size / 10).max(1);
        most.saturating_sub(self.recent_removals(now).count())
    }

    /// When the next ones may be, if as many as may be are removed now.
    pub(super) fn next_removal(&self, now: Moment) -> Moment {
        let earliest = self.recent_removals(now).min().unwrap_or(now);
        earliest + REMOVAL_WINDOW
    }

    /// Until when there is no other table; none if there may be one now.
    pub(super) fn paced_until(&self, now: Moment) -> Option<Moment> {
        let until = self.published_at? + PACE;
        (until > now).then_some(until)
    }

    /// The size of the last table whose owners were all alive.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }

    /// Whether the table is of pods that were sent away, and nobody has followed them yet.
    pub(super) fn is_sent_away(&self) -> bool {
        self.is_sent_away
    }

    fn recently_given_up(&self, now: Moment) -> BTreeMap<String, Moment> {
        let mut given_up = self.given_up.clone();
        given_up.retain(|_, &mut at| at + DISTRUST > now);
        given_up
    }

    fn recent_removals(&self, now: Moment) -> impl Iterator<Item = Moment> + '_ {
        let removals = self.removals.iter().copied();
        removals.filter(move |&at| at + REMOVAL_WINDOW > now)
    }
}

/// For each of `uids` the moment that is known, or this one.
fn since<'u>(
    known: &BTreeMap<String, Moment>,
    uids: impl Iterator<Item = &'u str>,
    now: Moment,
) -> BTreeMap<String, Moment> {
    uids.map(|uid| (uid.to_owned(), known.get(uid).copied().unwrap_or(now)))
        .collect()
}
