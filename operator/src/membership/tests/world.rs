//! Pods, a clock and a live object, played through in no time. Whoever makes a pod change looks at once, as a watch
//! would; otherwise only the wakes of decisions lead to another look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, RoutingTable};

use super::super::{
    Decision, Desired, MemberState, Memory, Moment, Observation, Previous, Rules, change, next_table,
};

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) struct World {
    pub(super) now: Moment,
    pub(super) pods: BTreeMap<String, Observation>,
    pub(super) desired: Desired,
    pub(super) memory: Memory,
    pub(super) stored: Option<RoutingTable>,
    /// The highest epoch that status and pods know; follows the live object.
    pub(super) told: u64,
    /// What one more pod says, whatever the others do.
    pub(super) claim: Option<u64>,
    /// Whether pods were asked.
    pub(super) is_asked: bool,
    /// Pods that were seen to be deleted, by uid.
    pub(super) deleted: BTreeSet<String>,
    /// The latest decision.
    pub(super) decision: Option<Decision>,
    /// Every table that was written, with its time.
    pub(super) written: Vec<(Moment, RoutingTable)>,
    wake: Option<Moment>,
    made: u32,
}

impl World {
    /// Without pods and without a table.
    pub(super) fn new(slots: usize) -> Self {
        let header = Header {
            cluster: ClusterIdentity {
                namespace: "ns".to_owned(),
                policy: "policy-uid".to_owned(),
            },
            affinity: Affinity::Forward,
            key: KeySource::Source,
        };
        Self {
            now: seconds(1_000),
            pods: BTreeMap::new(),
            desired: Desired {
                header,
                slots,
                rules: Rules::default(),
            },
            memory: Memory::default(),
            stored: None,
            told: 0,
            claim: None,
            is_asked: true,
            deleted: BTreeSet::new(),
            decision: None,
            written: Vec::new(),
            wake: None,
            made: 0,
        }
    }

    /// With this many pods, all of which own a slot: `p0` slot 0, and so on. Nothing counts as written yet.
    pub(super) fn settled(slots: usize) -> Self {
        let mut world = Self::new(slots);
        for index in 0..slots {
            world.add(&format!("p{index}"));
        }
        world.look();
        world.pass(seconds(100));
        assert_eq!(world.owners().len(), slots);
        world.written.clear();
        world
    }

    /// A ready pod, not looked at yet.
    pub(super) fn add(&mut self, name: &str) {
        self.made += 1;
        let [_, a, b, c] = self.made.to_be_bytes();
        let pod = Observation {
            uid: format!("uid-{:06}", self.made),
            name: name.to_owned(),
            address: Some(([10, a, b, c], 4319).into()),
            node: Some("node".to_owned()),
            zone: None,
            revision: Some("1".to_owned()),
            is_ready: true,
            is_leaving: false,
            has_ended: false,
        };
        let before = self.pods.insert(name.to_owned(), pod);
        assert_eq!(before, None, "{name} is there already");
    }

    pub(super) fn pod(&mut self, name: &str) -> &mut Observation {
        self.pods.get_mut(name).unwrap_or_else(|| panic!("no pod {name}"))
    }

    /// Ready pods come.
    pub(super) fn come(&mut self, names: &[&str]) {
        for name in names {
            self.add(name);
        }
        self.look();
    }

    /// Pods are deleted: they leave, and are still there.
    pub(super) fn leave(&mut self, names: &[&str]) {
        for name in names {
            self.pod(name).is_leaving = true;
        }
        self.look();
    }

    /// Pods are deleted, and gone before anybody has seen them leave.
    pub(super) fn delete(&mut self, names: &[&str]) {
        for name in names {
            self.remove(name);
        }
        self.look();
    }

    /// A pod is deleted and gone, not looked at yet.
    pub(super) fn remove(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap_or_else(|| panic!("no pod {name}"));
        self.deleted.insert(pod.uid);
    }

    /// Pods are not there any more.
    pub(super) fn vanish(&mut self, names: &[&str]) {
        for name in names {
            self.pods.remove(*name).unwrap_or_else(|| panic!("no pod {name}"));
        }
        self.look();
    }

    pub(super) fn ready(&mut self, names: &[&str], is_ready: bool) {
        for name in names {
            self.pod(name).is_ready = is_ready;
        }
        self.look();
    }

    /// Decides without writing.
    pub(super) fn decide(&self) -> Decision {
        let observed: Vec<Observation> = self.pods.values().cloned().collect();
        let told: Vec<u64> = [self.told].into_iter().chain(self.claim).collect();
        let previous = Previous {
            memory: &self.memory,
            stored: self.stored.as_ref(),
            told: &told,
            is_asked: self.is_asked,
            deleted: &self.deleted,
        };
        next_table(previous, &observed, &self.desired, self.now).unwrap()
    }

    /// Decides, and writes what is to be written.
    pub(super) fn look(&mut self) {
        let decision = self.decide();
        self.memory = decision.memory.clone();
        if let Some(table) = &decision.table {
            if self.stored.as_ref() != Some(table) {
                self.written.push((self.now, table.clone()));
            }
            let change = change(self.stored.as_ref(), table);
            self.memory.published(table, Some(&change), self.now);
            self.stored = Some(table.clone());
            self.told = self.told.max(table.epoch());
        }
        self.wake = decision.look_again.map(|after| {
            assert!(after > Duration::ZERO, "looks without end");
            self.now + after
        });
        self.decision = Some(decision);
    }

    /// Lets time pass; nothing happens but what decisions have asked to be woken for.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(wake) = self.wake.filter(|&wake| wake <= end) {
            self.now = wake;
            self.look();
        }
        self.now = end;
    }

    /// Whether time alone may change something.
    pub(super) fn is_awake(&self) -> bool {
        self.wake.is_some()
    }

    /// When the latest decision wants to be looked at again.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.wake
    }

    /// Who owns what in the live object.
    pub(super) fn owners(&self) -> BTreeMap<u16, String> {
        let owners = self.stored.iter().flat_map(RoutingTable::owners);
        owners.map(|owner| (owner.slot, owner.name.clone())).collect()
    }

    pub(super) fn slot(&self, name: &str) -> Option<u16> {
        let owners = self.owners();
        owners
            .iter()
            .find(|(_, owner)| *owner == name)
            .map(|(slot, _)| *slot)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.stored.as_ref().map_or(0, RoutingTable::epoch)
    }

    pub(super) fn state(&self, name: &str) -> MemberState {
        let members = &self.decision.as_ref().unwrap().members;
        let found = members.iter().find(|member| member.name == name);
        found.unwrap_or_else(|| panic!("no member {name}")).state
    }

    /// This process starts anew.
    pub(super) fn restart(&mut self) {
        self.memory = Memory::default();
        self.deleted.clear();
        self.look();
    }
}
