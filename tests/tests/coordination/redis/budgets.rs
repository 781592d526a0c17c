//! Budgets that contradict each other, and budgets that change.

use std::sync::atomic::{AtomicU32, Ordering};

use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Budget;
use jevmetrics_testkit::redis::{Admission, BudgetRecord, Evidence};
use jevmetrics_testkit::steady::{self, Comparison, Steady};

use super::evidence::assert_kept_to;
use super::group::{Group, SHORT, Setup, droppable, message};
use super::replica::{Replica, WITHIN};

/// A script reckons with the time at which it began; what it writes is recorded later, by less than these milliseconds.
const SCRIPT: u64 = 500;

/// Instruments that nobody has seen: asking about them uses the budget.
#[derive(Debug, Default)]
struct News(AtomicU32);

impl News {
    /// One more, for one replica.
    async fn bring(&self, replica: &Replica) -> String {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let name = format!("news.debug.{number}");
        replica.deliver(&message(&[&name])).await;
        name
    }
}

/// *Scenario*: two policies share a namespace by name, with different budgets. The first one is in use; then it is not.
/// *Guarantees*: the second one is refused and says both budgets; it asks nothing and drops nothing. When the first budget
/// has gone unused for twice its lease, the second one is taken up by itself.
#[tokio::test]
async fn a_contradicting_budget_is_refused_until_the_other_goes_unused() {
    let first = Budget {
        generation: 0,
        ..SHORT
    };
    let second = Budget {
        requests_per_second: 77,
        max_in_flight: 3,
        ..first
    };
    let setup = Setup {
        budget: first,
        ..Setup::hasty()
    };
    let mut group = Group::start(1, setup).await;
    let (news, mine) = (News::default(), droppable("mine", 3));
    news.bring(&group.replicas[0]).await;
    group.learn(&message(&mine[..1]), 1).await;
    let live = group.live(second);
    group.add(|options| options.live = Some(live)).await;
    let refused = poll::eventually("the refusal", WITHIN, async || {
        news.bring(&group.replicas[0]).await;
        assert_eq!(group.replicas[1].kept_of(&message(&mine)).await, 3);
        let line = group.replicas[1].coordination().await;
        if line.starts_with("mismatch") {
            Ok(line)
        } else {
            Err(line)
        }
    });
    let line = refused.await.unwrap();
    for number in ["77", "100", "3 in flight", "1 in flight"] {
        assert!(line.contains(number), "{line}");
    }
    // It stays so while the first one is used, for longer than twice its lease.
    let begun = group.evidence().await.budgets.last().unwrap().at;
    let used = poll::eventually("three leases of use", WITHIN, async || {
        news.bring(&group.replicas[0]).await;
        assert_eq!(group.replicas[1].kept_of(&message(&mine)).await, 3);
        let passed = group.evidence().await.budgets.last().unwrap().at - begun;
        if passed > 6_000 { Ok(()) } else { Err(passed) }
    });
    used.await.unwrap();
    group.replicas[1].is("mismatch").await;
    let asked = group.asked_about();
    assert!(!asked.contains(&mine[2]), "{asked:?}");

    group.replicas[1].drops(&message(&mine)).await;
    group.replicas[1].is("healthy").await;
    let evidence = group.evidence().await;
    let in_force = evidence.budgets.last().unwrap().current.clone();
    let taken_up = evidence
        .budgets
        .iter()
        .position(|record| record.current == in_force);
    let taken_up = taken_up.unwrap();
    let (unused_since, at) = (evidence.budgets[taken_up - 1].at, evidence.budgets[taken_up].at);
    println!(
        "taken up {} ms after the last use of the other",
        at - unused_since
    );
    assert!(at - unused_since >= u64::from(2 * first.lease_ttl_seconds) * 1000 - SCRIPT);
    let between = |admission: &Admission| admission.at > unused_since && admission.at < at - SCRIPT;
    assert!(
        !evidence.admissions.iter().any(between),
        "{:?}",
        evidence.admissions
    );
    assert_kept_to(&evidence, &[first, second]);
    group.finish_keys().await;
}

fn loads(group: &Group) -> Vec<Steady> {
    let load = |(number, replica): (usize, &Replica)| {
        Steady::start(steady::Options {
            requests_per_second: 30.0,
            name: format!("replica-{number}"),
            ..steady::Options::new(&replica.plane.grpc_endpoint())
        })
        .unwrap()
    };
    group.replicas.iter().enumerate().map(load).collect()
}

/// When the block of `generation` was first seen, and when it came into force, in milliseconds of Redis.
fn change_to(generation: u32, evidence: &Evidence) -> (u64, u64) {
    let of = |block: &str| block.starts_with(&format!("{generation} "));
    let seen = evidence.budgets.iter().find(|record| of(&record.next));
    let in_force = evidence.budgets.iter().find(|record| of(&record.current));
    (
        seen.expect("it was pending").at,
        in_force.expect("it came into force").at,
    )
}

/// *Scenario*: under load, the budget changes by the live file: of one replica, then of another, while a third stays behind
/// as in a rollout that is stuck. New instruments come all the time.
/// *Guarantees*: from the first sight of the new budget nobody is admitted for twice the old lease; then the new one holds.
/// Who is behind asks nothing and reads what is shared. It is said meanwhile. No point is lost, and nobody has to do
/// anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_budget_holds_after_twice_the_old_lease_and_loses_nothing() {
    let old = Budget {
        max_in_flight: 4,
        ..SHORT
    };
    let new = Budget {
        generation: 2,
        max_in_flight: 2,
        requests_per_second: 7,
        ..old
    };
    let setup = Setup {
        budget: old,
        ..Setup::hasty()
    };
    let group = Group::start(3, setup).await;
    let news = News::default();
    let loads = loads(&group);
    let everywhere = async || {
        for replica in &group.replicas {
            news.bring(replica).await;
        }
    };
    let under_way = poll::eventually("questions of all", WITHIN, async || {
        everywhere().await;
        match group.evidence().await.processes().len() {
            3 => Ok(()),
            some => Err(some),
        }
    });
    under_way.await.unwrap();

    group.replicas[0].plane.set_live(&group.live(new)).unwrap();
    let mut states = std::collections::BTreeSet::new();
    let mut is_second_changed = false;
    let changed = poll::eventually("the new budget in force", WITHIN, async || {
        everywhere().await;
        for replica in &group.replicas {
            let line = replica.coordination().await;
            states.insert(line.split(',').next().unwrap().to_owned());
        }
        if !is_second_changed && states.contains("pending") {
            group.replicas[1].plane.set_live(&group.live(new)).unwrap();
            is_second_changed = true;
        }
        let evidence = group.evidence().await;
        let is_in_force = |record: &&BudgetRecord| record.current.starts_with("2 ");
        match evidence.budgets.iter().find(is_in_force) {
            Some(_) if states.contains("superseded") => Ok(()),
            found => Err(format!("{found:?}, seen {states:?}")),
        }
    });
    changed.await.unwrap();
    println!("states seen: {states:?}");
    assert!(states.contains("pending"), "{states:?}");

    // The one that is behind reads what the others ask about.
    let name = news.bring(&group.replicas[0]).await;
    let shared = message(&[&name]);
    group.replicas[0].drops(&shared).await;
    group.replicas[2].drops(&shared).await;
    group.replicas[2].is("superseded").await;
    group.replicas[2].plane.set_live(&group.live(new)).unwrap();
    let all_ask = poll::eventually("questions of the last one", WITHIN, async || {
        everywhere().await;
        let evidence = group.evidence().await;
        let (_, in_force) = change_to(2, &evidence);
        let mut after = evidence;
        after.admissions.retain(|admission| admission.at >= in_force);
        match after.processes().len() {
            3 => Ok(()),
            some => Err(some),
        }
    });
    all_ask.await.unwrap();

    let evidence = group.evidence().await;
    let (seen, in_force) = change_to(2, &evidence);
    println!("in force {} ms after it was first seen", in_force - seen);
    assert!(
        in_force - seen >= u64::from(2 * old.lease_ttl_seconds) * 1000 - SCRIPT,
        "{seen} {in_force}"
    );
    let (mut before, mut after) = (evidence.clone(), evidence);
    before.admissions.retain(|admission| admission.at <= seen);
    after.admissions.retain(|admission| admission.at > seen);
    assert!(
        after
            .admissions
            .iter()
            .all(|admission| admission.at >= in_force - SCRIPT),
        "{after:?}"
    );
    assert_kept_to(&before, &[old]);
    assert_kept_to(&after, &[new]);

    for (load, replica) in loads.iter().zip(&group.replicas) {
        let told = load.stop().await;
        let found = Comparison::new(&told, &replica.sink.ledger());
        println!("{found}");
        assert!(
            told.failed_exports == 0 && found.is_complete() && found.unconfirmed == 0,
            "{found}"
        );
    }
    group.finish_keys().await;
}

/// *Scenario*: the lease of the live file is no longer than a question and two calls may take; then it is.
/// *Guarantees*: it is said what must hold; nothing is asked until it does, and no restart is needed then.
#[tokio::test]
async fn a_lease_that_is_too_short_is_refused_with_a_reason() {
    let setup = Setup {
        budget: Budget {
            lease_ttl_seconds: 1,
            ..SHORT
        },
        ..Setup::hasty()
    };
    let group = Group::start(1, setup).await;
    let replica = &group.replicas[0];
    let message = message(&droppable("shop", 3));
    let named = poll::eventually("the reason", WITHIN, async || {
        assert_eq!(replica.kept_of(&message).await, 3);
        let line = replica.coordination().await;
        let is_named =
            line.starts_with("failing") && line.contains("leaseTTLSeconds") && line.contains("1800 ms");
        if is_named { Ok(line) } else { Err(line) }
    });
    println!("{}", named.await.unwrap());
    assert_eq!(group.asked(), 0);
    replica.plane.set_live(&group.live(SHORT)).unwrap();
    replica.drops(&message).await;
    replica.is("healthy").await;
    group.finish().await;
}

/// *Scenario*: the generation in Redis is higher than any that is left: the object with it was lost, and the operator
/// counts from one again.
/// *Guarantees*: nobody is admitted for as long as the record lives, twice its lease, and then the new budget holds.
#[tokio::test]
async fn a_lost_generation_heals_by_itself() {
    let old = Budget {
        generation: 9,
        ..SHORT
    };
    let setup = Setup {
        budget: old,
        ..Setup::hasty()
    };
    let group = Group::start(2, setup).await;
    let mine = droppable("mine", 4);
    group.learn(&message(&mine[..2]), 2).await;
    let new = Budget {
        generation: 1,
        requests_per_second: 50,
        ..SHORT
    };
    for replica in &group.replicas {
        replica.plane.set_live(&group.live(new)).unwrap();
        let read = poll::eventually("the new budget", WITHIN, async || {
            match replica
                .plane
                .member()
                .await
                .unwrap()
                .coordination
                .unwrap()
                .generation
            {
                1 => Ok(()),
                other => Err(other),
            }
        });
        read.await.unwrap();
    }
    let superseded = poll::eventually("the state", WITHIN, async || {
        assert_eq!(group.replicas[0].kept_of(&message(&mine[2..])).await, 2);
        let line = group.replicas[0].coordination().await;
        if line.starts_with("superseded") {
            Ok(())
        } else {
            Err(line)
        }
    });
    superseded.await.unwrap();
    group.learn(&message(&mine), 4).await;
    let evidence = group.evidence().await;
    assert!(evidence.budgets.last().unwrap().current.starts_with("1 "));
    assert_kept_to(&evidence, &[old, new]);
    group.finish_keys().await;
}
