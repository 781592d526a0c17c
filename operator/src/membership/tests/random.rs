//! Random events, and what must hold whatever happens. Seeds are fixed: what fails once fails again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jevmetrics_api::routing::{Affinity, MAX_EPOCH, MAX_EPOCH_IN_FORCE, MAX_TOLD_EPOCH, RoutingTable};

use super::super::{HEARSAY_LAG, MemberState, Memory, Moment, PACE, Standing};
use super::world::{World, seconds};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % bound.max(1)
    }
}

/// What the test knows of the pods by itself.
#[derive(Debug, Default)]
struct Truth {
    /// Since when pods are alive without a break.
    alive_since: BTreeMap<String, Moment>,
    /// Since when owners are not alive.
    down_since: BTreeMap<String, Moment>,
    /// Pods that have said that they leave.
    left: BTreeSet<String>,
    /// Slots that were given up with nobody having said that he leaves.
    removals: Vec<Moment>,
    /// The size of the last table whose owners were all alive.
    whole: usize,
    /// No pod was wanted since an owner was last alive.
    is_sent_away: bool,
}

impl Truth {
    fn see(&mut self, world: &World, last: Option<&RoutingTable>) {
        let alive: BTreeSet<&str> = world
            .pods
            .values()
            .filter(|pod| pod.is_ready && !pod.is_leaving && pod.address.is_some())
            .map(|pod| pod.uid.as_str())
            .collect();
        let leaving = world.pods.values().filter(|pod| pod.is_leaving);
        self.left.extend(leaving.map(|pod| pod.uid.clone()));
        self.left.extend(world.deleted.iter().cloned());
        self.alive_since.retain(|uid, _| alive.contains(uid.as_str()));
        for uid in alive {
            self.alive_since.entry(uid.to_owned()).or_insert(world.now);
        }
        let owners = last.map_or(&[][..], RoutingTable::owners);
        if self.whole == 0 || owners.iter().all(|owner| self.is_alive(&owner.uid)) {
            self.whole = owners.len();
        }
        let is_anybody_alive = owners.iter().any(|owner| self.is_alive(&owner.uid));
        let is_nobody_wanted = world.desired.slots == 0 || self.is_sent_away;
        self.is_sent_away = !owners.is_empty() && !is_anybody_alive && is_nobody_wanted;
        self.see_owners(world.now, last);
    }

    fn see_owners(&mut self, now: Moment, last: Option<&RoutingTable>) {
        let owners = last.map_or(&[][..], RoutingTable::owners).iter();
        let down = owners.filter(|owner| !self.is_alive(&owner.uid)).map(|owner| {
            let since = self.down_since.get(&owner.uid).copied();
            (owner.uid.clone(), since.unwrap_or(now))
        });
        self.down_since = down.collect();
    }

    /// Whether an owner may keep a slot that is not wanted: it is alive, or held.
    fn is_there(&self, uid: &str, now: Moment) -> bool {
        let is_held = |since: &Moment| now < *since + seconds(15) && !self.left.contains(uid);
        self.is_alive(uid) || self.down_since.get(uid).is_some_and(is_held)
    }

    fn is_alive(&self, uid: &str) -> bool {
        self.alive_since.contains_key(uid)
    }
}

/// Plays on, and holds what is written to the invariants.
struct Game {
    world: World,
    truth: Truth,
    random: Random,
    made: usize,
    checked: usize,
    /// The last table and its time.
    last: Option<(Moment, RoutingTable)>,
    highest: u64,
    /// A stranger has written since the last look: his table is outdone without delay.
    is_touched: bool,
}

impl Game {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let slots = 1 + random.below(30);
        Self {
            world: World::new(slots),
            truth: Truth::default(),
            random,
            made: 0,
            checked: 0,
            last: None,
            highest: 0,
            is_touched: false,
        }
    }

    fn some_pods(&mut self) -> Vec<String> {
        let names: Vec<String> = self.world.pods.keys().cloned().collect();
        let count = match self.random.below(10) {
            0 => names.len(),
            1 => names.len() / 2,
            2 | 3 => 2,
            _ => 1,
        };
        (0..count.min(names.len()))
            .map(|_| names[self.random.below(names.len())].clone())
            .collect()
    }

    fn event(&mut self) {
        match self.random.below(20) {
            0..=4 => {
                for _ in 0..=self.random.below(4) {
                    // A Deployment makes no more than these.
                    if self.world.pods.len() < self.world.desired.slots + 4 {
                        self.world.add(&format!("r{}", self.made));
                        self.made += 1;
                    }
                }
            }
            5..=7 => {
                for name in self.some_pods() {
                    self.world.pod(&name).is_ready = false;
                }
            }
            8..=12 => {
                for name in self.some_pods() {
                    self.world.pod(&name).is_ready = true;
                }
            }
            13..=14 => {
                for name in self.some_pods() {
                    self.world.pod(&name).is_leaving = true;
                }
            }
            15 => {
                let is_seen = self.random.below(2) == 0;
                for name in self.some_pods() {
                    if is_seen && self.world.pods.contains_key(&name) {
                        self.world.remove(&name);
                    } else {
                        self.world.pods.remove(&name);
                    }
                }
            }
            16 => {
                let leaving: Vec<String> = self
                    .world
                    .pods
                    .values()
                    .filter(|pod| pod.is_leaving)
                    .map(|pod| pod.name.clone())
                    .collect();
                for name in leaving {
                    self.world.pods.remove(&name);
                }
            }
            17 => self.world.desired.slots = self.random.below(30),
            18 => {
                let affinities = [Affinity::Forward, Affinity::Upstream, Affinity::None];
                self.world.desired.header.affinity = affinities[self.random.below(3)];
            }
            _ => match self.random.below(9) {
                3 => self.all_but_old_hearsay_is_lost(),
                4 => self.somebody_tells(),
                5 => self.a_stranger_writes(),
                6 => self.another_leader_writes(),
                0 => self.world.stored = None,
                // An earlier table, put back. Nobody can tell it from the last one if hearsay is older.
                1 if self.world.told == self.highest => {
                    let earlier = self.random.below(self.world.written.len());
                    if let Some((_, table)) = self.world.written.get(earlier) {
                        self.world.stored = Some(table.clone());
                    }
                }
                _ => {
                    if self.world.stored.is_some() {
                        self.world.memory = Memory::default();
                        self.world.deleted.clear();
                        self.truth = Truth::default();
                        // Who starts anew does not know when the last table was written.
                        if let Some((at, _)) = &mut self.last {
                            *at -= PACE;
                        }
                    }
                }
            },
        }
    }

    /// The live object and what this process remembers; the status has missed some of the last tables, and pods are silent.
    fn all_but_old_hearsay_is_lost(&mut self) {
        if self.world.told == 0 {
            return;
        }
        let missed = self.random.below(usize::try_from(HEARSAY_LAG).unwrap() + 1) as u64;
        self.world.told = self.highest.saturating_sub(missed).max(1);
        self.world.stored = None;
        self.world.memory = Memory::default();
        self.world.deleted.clear();
        self.truth = Truth::default();
    }

    /// An epoch that nobody can have been told, or one that somebody may have been: seldom one of the last.
    fn some_epoch(&mut self) -> u64 {
        let ahead = self.random.below(50) as u64;
        match self.random.below(6) {
            0 => MAX_EPOCH - ahead.min(1),
            1 => MAX_EPOCH_IN_FORCE + 1 + ahead,
            2 if self.highest < MAX_TOLD_EPOCH / 2 && self.random.below(10) == 0 => MAX_TOLD_EPOCH - 100_000,
            _ => self.highest + ahead,
        }
    }

    fn somebody_tells(&mut self) {
        self.world.claim = match self.random.below(4) {
            0 => None,
            1 => Some(u64::MAX),
            _ => Some(self.some_epoch()),
        };
    }

    fn a_stranger_writes(&mut self) {
        let epoch = self.some_epoch().max(1);
        if let Some(stored) = self.world.stored.clone() {
            let mut header = stored.header().clone();
            header.cluster.policy = "another".to_owned();
            let strange = RoutingTable::new(epoch, header, stored.owners().to_vec());
            self.world.stored = Some(strange.unwrap());
            self.is_touched = true;
        }
    }

    /// A later table, without one of the living; or one with an epoch that is none.
    fn another_leader_writes(&mut self) {
        self.look();
        let Some(stored) = self.world.stored.clone() else {
            return;
        };
        let epoch = self.some_epoch();
        let mut owners = stored.owners().to_vec();
        let alive: Vec<usize> = (0..owners.len())
            .filter(|&place| self.truth.is_alive(&owners[place].uid))
            .collect();
        if owners.len() > 1 && !alive.is_empty() {
            owners.remove(alive[self.random.below(alive.len())]);
        }
        if epoch > self.highest {
            let edited = RoutingTable::new(epoch, stored.header().clone(), owners).unwrap();
            self.world.stored = Some(edited.clone());
            if epoch <= MAX_EPOCH_IN_FORCE {
                self.world.told = self.world.told.max(epoch);
                self.highest = epoch;
                self.last = Some((self.world.now, edited));
            }
        }
        self.look();
    }

    fn look(&mut self) {
        let last = self.last.as_ref().map(|(_, table)| table);
        if self.world.memory == Memory::default() && self.world.stored.as_ref() != last {
            // Nobody remembers what was in force. Only epochs still count.
            self.last = None;
        }
        self.truth
            .see(&self.world, self.last.as_ref().map(|(_, table)| table));
        self.world.look();
        self.check();
        let last = self.last.as_ref().map(|(_, table)| table);
        self.truth.see_owners(self.world.now, last);
        self.is_touched = false;
        let again = self.world.decide();
        // Before the first table that of a stranger stays where it is: nobody takes it for ours.
        let cluster = &self.world.desired.header.cluster;
        let stored = self.world.stored.as_ref();
        let ours = stored.filter(|table| table.header().cluster == *cluster || again.table.is_some());
        assert_eq!(again.table.as_ref(), ours, "looking again changes the table");
        self.check_size();
        self.check_alarm();
    }

    /// Where pods were sent away nobody calls it frozen, and no member is a pod that is gone. Else nobody gathers who has a
    /// table.
    fn check_alarm(&self) {
        let decision = self.world.decision.as_ref().unwrap();
        match decision.standing {
            Standing::Frozen { of: 0, .. } => assert_eq!(self.world.desired.slots, 0),
            Standing::Frozen { .. } => assert!(!self.truth.is_sent_away, "an alarm"),
            Standing::Gathering { .. } => {
                assert!(self.truth.is_sent_away || self.last.is_none(), "no alarm");
            }
            Standing::Current => {}
        }
        if self.truth.is_sent_away {
            for member in &decision.members {
                assert!(
                    self.world.pods.contains_key(&member.name),
                    "{} is gone",
                    member.name
                );
            }
        }
    }

    /// As `World::pass`, with checks at each wake.
    fn pass(&mut self, span: Duration) {
        let end = self.world.now + span;
        while let Some(wake) = self.world.next_wake().filter(|&wake| wake <= end) {
            self.world.now = wake;
            self.look();
        }
        self.world.now = end;
    }

    fn check(&mut self) {
        let written: Vec<(Moment, RoutingTable)> = self.world.written[self.checked..].to_vec();
        self.checked = self.world.written.len();
        for (at, next) in written {
            let last = self.last.take();
            let is_news = last.as_ref().is_none_or(|(_, before)| *before != next);
            if !is_news {
                // Written again, for somebody had touched it.
                self.last = last;
                continue;
            }
            assert!(next.epoch() > self.highest, "an epoch went back");
            self.highest = next.epoch();
            if let Some((before_at, before)) = last {
                self.truth.is_sent_away &= before.owners() == next.owners();
                self.check_step((before_at, &before), (at, &next));
            }
            self.last = Some((at, next));
        }
    }

    /// Slots are not more than wanted, unless their pods are there, or held.
    fn check_size(&self) {
        let Some((at, table)) = &self.last else {
            return;
        };
        let decision = self.world.decision.as_ref().unwrap();
        let may_change = decision.standing == Standing::Current && self.world.now >= *at + PACE;
        if may_change && table.owners().len() > self.world.desired.slots {
            for owner in table.owners() {
                let is_there = self.truth.is_there(&owner.uid, self.world.now);
                assert!(is_there, "{} keeps a slot that nobody wants", owner.name);
            }
        }
    }

    fn check_step(
        &mut self,
        (before_at, before): (Moment, &RoutingTable),
        (at, next): (Moment, &RoutingTable),
    ) {
        assert!(!next.owners().is_empty(), "a table is empty");
        let slots_wanted = self.world.desired.slots;
        let size = next.owners().len();
        assert!(
            size <= slots_wanted.max(before.owners().len()),
            "more slots than wanted, and more than before"
        );
        let mut removed = 0_usize;
        for owner in before.owners() {
            let is_kept = next.slot_of(&owner.uid) == Some(owner.slot);
            if self.truth.is_alive(&owner.uid) {
                assert!(
                    is_kept,
                    "{} is alive and has lost slot {}",
                    owner.name, owner.slot
                );
            } else if !is_kept && !self.truth.left.contains(&owner.uid) {
                let since = self.truth.down_since.get(&owner.uid);
                // After a restart of ours the test does not know either since when.
                if let Some(since) = since {
                    assert!(at >= *since + seconds(15), "{} was not held", owner.name);
                }
                let is_inherited = next.owners().iter().any(|next| next.slot == owner.slot);
                if !is_inherited {
                    removed += 1;
                }
            }
        }
        // Those that nobody wants are no matter of caution.
        let unwanted = (size + removed).saturating_sub(slots_wanted);
        let counted = removed.saturating_sub(unwanted);
        self.truth.removals.extend(std::iter::repeat_n(at, counted));
        let recent = self
            .truth
            .removals
            .iter()
            .filter(|&&removal| removal + seconds(60) > at);
        let most = (before.owners().len().min(slots_wanted) / 10).max(1);
        let removed_now = self
            .truth
            .removals
            .iter()
            .filter(|&&removal| removal == at)
            .count();
        assert!(
            removed_now == 0 || recent.count() <= most,
            "lost pods are removed too fast"
        );
        for owner in next.owners() {
            if before.slot_of(&owner.uid).is_none() {
                let since = self.truth.alive_since.get(&owner.uid).copied();
                let since = since.unwrap_or_else(|| panic!("{} joined and is not alive", owner.name));
                assert!(at >= since + seconds(10), "{} has not settled", owner.name);
            }
        }
        if next.owners() != before.owners() {
            let living = next
                .owners()
                .iter()
                .filter(|owner| self.truth.is_alive(&owner.uid));
            let of = self.truth.whole.min(slots_wanted);
            assert!(living.count() * 2 >= of, "too few are left of {of}");
        }
        assert!(
            at >= before_at + PACE || self.is_touched,
            "two tables within a second"
        );
    }

    /// Everybody who is there becomes ready, and time passes.
    fn calm(&mut self) {
        self.world.desired.slots = self.world.desired.slots.max(1);
        self.world.pods.retain(|_, pod| !pod.is_leaving);
        for pod in self.world.pods.values_mut() {
            pod.is_ready = true;
        }
        while self.world.pods.len() < self.world.desired.slots {
            self.world.add(&format!("r{}", self.made));
            self.made += 1;
        }
        self.world.claim = None;
        self.look();
        // Whom nobody trusts waits for a minute.
        self.pass(seconds(120));
        let decision = self.world.decision.as_ref().unwrap();
        assert_eq!(decision.standing, Standing::Current);
        assert_eq!(self.world.next_wake(), None, "restless");
        let owners = self.world.owners().len();
        // Slots are not taken from pods that are there, so there may be more than wanted, but never fewer.
        assert!(owners >= self.world.desired.slots);
        let active = decision
            .members
            .iter()
            .filter(|member| member.state == MemberState::Active);
        assert_eq!(active.count(), owners, "{:?}", decision.members);
        let spare = decision
            .members
            .iter()
            .filter(|member| member.state == MemberState::Spare);
        assert_eq!(
            spare.count() + owners,
            self.world.pods.len(),
            "{:?}",
            decision.members
        );
    }
}

#[test]
fn whatever_happens_the_invariants_hold_and_calm_ends_in_a_whole_table() {
    let mut tables = 0;
    for seed in 1..=300 {
        let mut game = Game::new(seed);
        for _ in 0..120 {
            let events = 1 + game.random.below(2);
            for _ in 0..events {
                game.event();
            }
            game.look();
            let span = match game.random.below(5) {
                0 => Duration::from_millis(300),
                1 => seconds(1),
                2 => seconds(5),
                3 => seconds(12),
                _ => seconds(40),
            };
            game.pass(span);
        }
        game.calm();
        tables += game.checked;
    }
    // Many seeds that never come to a table would prove nothing.
    assert!(tables > 3_000, "{tables} tables");
}
