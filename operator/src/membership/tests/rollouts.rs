//! Whole rollouts, as a Deployment with `maxUnavailable: 0` does them: what moves.

use std::collections::BTreeMap;

use super::world::{World, seconds};

const KEYS: u64 = 2_000;

/// The pod that owns each key.
fn owners_of_keys(world: &World) -> Vec<String> {
    let table = world.stored.as_ref().unwrap();
    let keys = (0..KEYS).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    keys.map(|key| table.owner(key).uid.clone()).collect()
}

/// Moves of each key on the way through all tables that were written.
struct Moves {
    owners: Vec<String>,
    moved: u64,
}

impl Moves {
    fn new(world: &World) -> Self {
        Self {
            owners: owners_of_keys(world),
            moved: 0,
        }
    }

    fn look(&mut self, world: &World) {
        let now = owners_of_keys(world);
        let changed = now.iter().zip(&self.owners).filter(|(now, before)| now != before);
        self.moved += changed.count() as u64;
        self.owners = now;
    }

    fn of_each(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let moves = self.moved as f64 / KEYS as f64;
        moves
    }
}

#[test]
fn a_rollout_moves_each_key_once() {
    for (slots, surge) in [(1, 1), (3, 1), (10, 1), (25, 3), (50, 5), (100, 25), (200, 50)] {
        let mut world = World::settled(slots);
        let mut moves = Moves::new(&world);
        let mut old: Vec<String> = (0..slots).map(|index| format!("p{index}")).collect();
        let mut new = 0;
        while !old.is_empty() {
            let batch: Vec<String> = old.drain(..surge.min(old.len())).collect();
            for _ in &batch {
                world.add(&format!("n{new}"));
                new += 1;
            }
            world.look();
            // Available after minReadySeconds; then old ones go, one after the other.
            world.pass(seconds(15));
            for name in &batch {
                world.leave(&[name]);
                world.pass(seconds(2));
                moves.look(&world);
            }
            world.pass(seconds(40));
            for name in &batch {
                world.vanish(&[name]);
            }
        }
        world.pass(seconds(120));
        moves.look(&world);
        assert_eq!(world.owners().len(), slots);
        assert!(world.owners().values().all(|name| name.starts_with('n')));
        println!("{slots} slots, surge {surge}: {:.3} moves a key", moves.of_each());
        assert!(
            (moves.of_each() - 1.0).abs() < 1e-9,
            "{slots} slots: {}",
            moves.of_each()
        );
        assert_eq!(world.written.len(), slots, "one epoch for each pod");
    }
}

#[test]
fn a_scale_down_in_the_middle_of_a_rollout_leaves_survivors_where_they_are() {
    let mut world = World::settled(10);
    for (new, old) in [("n0", "p0"), ("n1", "p1"), ("n2", "p2")] {
        world.come(&[new]);
        world.pass(seconds(15));
        world.leave(&[old]);
        world.pass(seconds(5));
        world.vanish(&[old]);
    }
    // A fourth new pod is a spare already.
    world.come(&["n3"]);
    world.pass(seconds(15));
    let before = world.owners();
    let written = world.written.len();
    world.desired.slots = 6;
    world.leave(&["p3", "p4", "p5", "p6", "p7"]);
    world.pass(seconds(60));
    // One of five slots is inherited, for six are wanted; four go.
    let expected: BTreeMap<u16, String> = before
        .into_iter()
        .filter(|(slot, _)| !(4..=7).contains(slot))
        .map(|(slot, name)| (slot, if slot == 3 { "n3".to_owned() } else { name }))
        .collect();
    assert_eq!(world.owners(), expected);
    assert_eq!(world.written.len(), written + 1);

    // The rollout goes on with the rest.
    for (new, old) in [("n4", "p8"), ("n5", "p9")] {
        let slot = world.slot(old);
        world.come(&[new]);
        world.pass(seconds(15));
        world.leave(&[old]);
        world.pass(seconds(5));
        assert_eq!(world.slot(new), slot);
    }
    assert_eq!(world.owners().len(), 6);
}

/// The watch of the Deployment may lag behind that of its pods.
#[test]
fn a_scale_down_of_which_pods_tell_before_the_deployment_waits_for_it() {
    let mut world = World::settled(10);
    world.leave(&["p4", "p5", "p6", "p7", "p8", "p9"]);
    assert!(world.written.is_empty(), "as if most of the pods were lost");
    world.desired.slots = 4;
    world.look();
    assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(world.written.len(), 1);
}

#[test]
fn a_rollout_that_is_rolled_back_touches_only_the_slots_that_it_had_reached() {
    let mut world = World::settled(4);
    let mut moves = Moves::new(&world);
    for (new, old) in [("n0", "p0"), ("n1", "p1"), ("o0", "n0"), ("o1", "n1")] {
        world.come(&[new]);
        world.pass(seconds(15));
        world.leave(&[old]);
        world.pass(seconds(5));
        moves.look(&world);
    }
    assert!(moves.of_each() <= 1.1, "{}", moves.of_each());
    let owners = world.owners().into_values().collect::<Vec<_>>();
    assert_eq!(owners, ["o0", "o1", "p2", "p3"]);
}
