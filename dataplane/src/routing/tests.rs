#![allow(clippy::unwrap_used)]

use jevmetrics_api::routing::{
    Affinity, ClusterIdentity, Header, KeySource, MAX_EPOCH, MAX_EPOCH_IN_FORCE, MAX_TOLD_EPOCH, Owner,
};

use super::*;

fn table_of(policy: &str, namespace: &str, epoch: u64, pods: &[&str]) -> RoutingTable {
    let owners = pods.iter().zip(0..).map(|(pod, slot)| Owner {
        slot,
        uid: format!("uid-{pod}"),
        name: format!("pod-{pod}"),
        address: ([10, 0, 0, 1], 4319).into(),
        zone: None,
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: namespace.to_owned(),
            policy: policy.to_owned(),
        },
        affinity: Affinity::Forward,
        key: KeySource::Source,
    };
    RoutingTable::new(epoch, header, owners.collect()).unwrap()
}

fn table(epoch: u64, pods: &[&str]) -> RoutingTable {
    table_of("ours", "shop", epoch, pods)
}

/// A process, and what it shows.
struct World {
    routing: Routing,
    registry: Registry,
}

impl World {
    fn told(policy_uid: Option<&str>) -> Self {
        let mut registry = Registry::default();
        Self {
            routing: Routing::new(policy_uid.map(str::to_owned), &mut registry),
            registry,
        }
    }

    fn reads(&self, said: Said) {
        self.routing.take_in("live object shop/a-live", said);
    }

    /// Epoch in force, and what is said of the object.
    fn state(&self) -> (Option<u64>, String) {
        let problem = self.routing.problem();
        let problem = problem.map(|problem| problem.as_str().to_owned());
        (self.routing.epoch(), problem.unwrap_or_default())
    }

    fn refused(&self, reason: &str) -> usize {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let series = format!("jevmetrics_routing_refused_tables_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

#[test]
fn a_higher_epoch_comes_into_force_and_the_same_table_changes_nothing() {
    let world = World::told(None);
    assert_eq!(
        (world.state(), world.routing.line()),
        ((None, String::new()), None)
    );
    world.reads(Said::Table(table(7, &["a", "b"])));
    let first = world.routing.table().unwrap();
    world.reads(Said::Table(table(7, &["a", "b"])));
    assert!(Arc::ptr_eq(&first, &world.routing.table().unwrap()));
    assert_eq!(world.state(), (Some(7), String::new()));
    world.reads(Said::Table(table(9, &["a"])));
    assert_eq!(world.routing.line().unwrap(), "epoch 9, slots 1, Forward");
    assert_eq!(first.owners().len(), 2, "who looks keeps what was there");
}

#[test]
fn what_is_broken_or_absent_leaves_the_last_good_table() {
    let world = World::told(None);
    world.reads(Said::Broken("routing.epoch: must be given".to_owned()));
    assert_eq!(
        world.routing.line().unwrap(),
        "no table yet, live object shop/a-live: routing.epoch: must be given"
    );
    world.reads(Said::Table(table(7, &["a"])));
    world.reads(Said::Nothing);
    assert_eq!(world.state(), (Some(7), String::new()));
    world.reads(Said::Broken("routing.schema: must be 1, is 2".to_owned()));
    assert_eq!(
        world.routing.line().unwrap(),
        "epoch 7, slots 1, Forward, live object shop/a-live: routing.schema: must be 1, is 2"
    );
    world.reads(Said::Table(table(7, &["a"])));
    assert_eq!(world.state(), (Some(7), String::new()));
}

#[test]
fn an_epoch_never_goes_back_nor_has_two_tables() {
    let world = World::told(None);
    world.reads(Said::Table(table(7, &["a"])));
    world.reads(Said::Table(table(6, &["a"])));
    let lower = "live object shop/a-live: routing.epoch: must be at least 7, which is in force, is 6";
    assert_eq!(world.state(), (Some(7), lower.to_owned()));
    world.reads(Said::Table(table(7, &["b"])));
    let (epoch, problem) = world.state();
    assert!(
        epoch == Some(7) && problem.contains("another table of epoch 7"),
        "{problem}"
    );
    assert_eq!(world.routing.table().unwrap().slot_of("uid-a"), Some(0));
    world.reads(Said::Table(table(8, &["b"])));
    assert_eq!(world.state(), (Some(8), String::new()));
    assert_eq!(
        (world.refused("lower_epoch"), world.refused("epoch_twice")),
        (1, 1)
    );
}

/// Else one edited table would keep out all that come after it.
#[test]
fn an_absurd_epoch_never_comes_into_force() {
    for is_first in [true, false] {
        let world = World::told(Some("ours"));
        if !is_first {
            world.reads(Said::Table(table(7, &["a"])));
        }
        let before = world.routing.epoch();
        for absurd in [MAX_EPOCH_IN_FORCE + 1, MAX_EPOCH - 1, MAX_EPOCH] {
            world.reads(Said::Table(table(absurd, &["b"])));
            let (epoch, problem) = world.state();
            assert_eq!(epoch, before);
            assert!(problem.contains("routing.epoch: must be at most"), "{problem}");
        }
        assert_eq!(world.refused("broken"), 3);
        // What outdoes the highest that is believed is not absurd.
        world.reads(Said::Table(table(MAX_TOLD_EPOCH + 1, &["b"])));
        assert_eq!(world.state(), (Some(MAX_TOLD_EPOCH + 1), String::new()));
    }
}

#[test]
fn a_strangers_table_is_refused_whatever_its_epoch() {
    let strangers = [
        table_of("theirs", "shop", 90, &["x"]),
        table_of("ours", "elsewhere", 90, &["x"]),
    ];
    // Who is told nothing takes the first for its own.
    let pinned = World::told(None);
    pinned.reads(Said::Table(table(7, &["a"])));
    for stranger in strangers.clone() {
        pinned.reads(Said::Table(stranger));
        let (epoch, problem) = pinned.state();
        assert!(
            epoch == Some(7) && problem.contains("must be policy ours in namespace shop"),
            "{problem}"
        );
    }
    // Who is told does not.
    let told = World::told(Some("ours"));
    let [stranger, _] = strangers;
    told.reads(Said::Table(stranger));
    let (epoch, problem) = told.state();
    assert!(epoch.is_none() && problem.contains("must be ours"), "{problem}");
    assert!(!problem.contains("theirs"), "{problem}");
    told.reads(Said::Table(table(1, &["a"])));
    assert_eq!(told.state(), (Some(1), String::new()));
    assert_eq!((pinned.refused("stranger"), told.refused("stranger")), (1, 1));
}

#[test]
fn the_same_refused_table_counts_once_however_often_it_is_read() {
    let world = World::told(None);
    world.reads(Said::Table(table(7, &["a"])));
    for _ in 0..3 {
        world.reads(Said::Table(table(5, &["a"])));
    }
    assert_eq!(world.refused("lower_epoch"), 1);
    world.reads(Said::Table(table(4, &["a"])));
    world.reads(Said::Nothing);
    world.reads(Said::Table(table(4, &["a"])));
    assert_eq!(world.refused("lower_epoch"), 3);
    world.reads(Said::Broken("x".to_owned()));
    assert_eq!((world.refused("broken"), world.state().0), (1, Some(7)));
}

#[test]
fn metrics_show_the_table_in_force() {
    let world = World::told(None);
    let shown = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &world.registry).unwrap();
        text
    };
    assert!(shown().contains("jevmetrics_routing_epoch NaN"), "{}", shown());
    world.reads(Said::Table(table(7, &["a", "b"])));
    for line in ["jevmetrics_routing_epoch 7", "jevmetrics_routing_slots 2"] {
        assert!(shown().contains(line), "{line}: {}", shown());
    }
}
