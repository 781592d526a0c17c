//! One operator of several leads, and only that one writes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jevmetrics_testkit::cluster::{Effect, Mark, Operator, OperatorOptions, Request};
use jevmetrics_testkit::poll;

use crate::policies::with_replicas;
use crate::site::leads;
use crate::stage::{Stage, WITHIN, changed};

/// Policies that a leader is at when it is paused.
const AT_HAND: usize = 8;
/// A leader that stops gives work at hand 15 s; one that has none needs none of it.
const NOTHING_AT_HAND: Duration = Duration::from_secs(10);

impl Stage {
    /// Another operator of the same namespace and Lease, with a user of its own.
    pub(crate) async fn rival(&self, name: &str) -> Operator {
        let mut options = OperatorOptions::for_namespace(&self.namespace);
        options.user = format!("{}-{name}", options.user);
        self.plane.operator(&options).await.unwrap()
    }

    fn lease_requests(&self, operator: &Operator, mark: Mark) -> Vec<Request> {
        let mut requests = self.plane.requests_of(operator.user(), mark).unwrap();
        requests.retain(|request| request.resource == "leases");
        requests
    }

    /// All that an operator asked to be changed, its Lease and events included.
    fn all_writes(&self, operator: &Operator, mark: Mark) -> Vec<Request> {
        let mut requests = self.plane.requests_of(operator.user(), mark).unwrap();
        requests.retain(Request::is_write);
        requests
    }

    /// Waits until an operator has looked at the Lease so often since `mark`.
    async fn looked_at_lease(&self, operator: &Operator, mark: Mark, times: usize) {
        let looks = || {
            self.lease_requests(operator, mark)
                .iter()
                .filter(|request| request.verb == "get")
                .count()
        };
        poll::until("looks at the Lease", WITHIN, || looks() >= times)
            .await
            .unwrap();
    }
}

/// *Scenario*: a leader and a follower; the leader is killed, a policy is applied; then the new leader is asked to stop.
/// *Guarantees*: the follower writes nothing; it takes over when the Lease has run out and serves what was applied
/// meanwhile; a leader that stops hands over at once.
#[tokio::test]
async fn a_follower_writes_nothing_until_it_takes_over() {
    let stage = Stage::new("leader").await;
    let mark = stage.plane.audit_mark().unwrap();
    let first = stage.rival("first").await;
    leads(&first).await;
    let second = stage.rival("second").await;
    stage.apply("before", &with_replicas(1)).await;
    stage.rolled_out("before").await;
    stage.looked_at_lease(&second, mark, 3).await;
    assert!(!second.leads().await);
    assert_eq!(stage.all_writes(&second, mark), []);

    let killed = Instant::now();
    drop(first);
    stage.apply("meanwhile", &with_replicas(1)).await;
    leads(&second).await;
    println!("after kill -9 the follower leads after {:?}", killed.elapsed());
    stage.rolled_out("meanwhile").await;
    println!(
        "a policy that was applied meanwhile is served after {:?}",
        killed.elapsed()
    );

    let third = stage.rival("third").await;
    let waits = stage.plane.audit_mark().unwrap();
    stage.looked_at_lease(&third, waits, 2).await;
    assert_eq!(stage.all_writes(&third, waits), []);
    let stopped = Instant::now();
    assert!(second.stop().await.unwrap().success());
    println!("a leader has stopped after {:?}", stopped.elapsed());
    assert!(
        stopped.elapsed() < NOTHING_AT_HAND,
        "it waited for work that was not there"
    );
    leads(&third).await;
    println!(
        "after its graceful stop the follower leads after {:?}",
        stopped.elapsed()
    );
    stage.apply("after", &with_replicas(1)).await;
    stage.rolled_out("after").await;
}

/// *Scenario*: a leader is paused while it is at several policies; another takes over; the paused one wakes.
/// *Guarantees*: once awake it writes nothing, whatever it was at; it follows, and can take over later.
#[tokio::test]
async fn a_leader_that_overslept_writes_nothing_when_it_wakes() {
    let stage = Stage::new("asleep").await;
    let mut first = stage.rival("first").await;
    leads(&first).await;
    let second = stage.rival("second").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;

    let (mark, names) = (stage.plane.audit_mark().unwrap(), names());
    let spec = with_replicas(1);
    join_all(names.iter().map(|name| stage.apply(name, &spec))).await;
    let began = || !stage.writes(&first, mark).is_empty();
    poll::until("work at hand", WITHIN, began).await.unwrap();
    first.pause().unwrap();
    let paused = Instant::now();
    println!(
        "paused after {} writes of {}",
        stage.writes(&first, mark).len(),
        AT_HAND * 8
    );
    leads(&second).await;
    println!("another leads {:?} after the pause", paused.elapsed());
    for name in &names {
        stage.rolled_out(name).await;
    }
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;

    let woken = stage.plane.audit_mark().unwrap();
    first.resume().unwrap();
    stage.apply("jm", &with_replicas(3)).await;
    stage.looked_at_lease(&first, woken, 3).await;
    stage.rolled_out("jm").await;
    let follows = async || (!first.leads().await).then_some(());
    poll::until_some("following", WITHIN, follows).await.unwrap();
    // Longer than a deadline of a call: whatever it was at is over.
    stage.looked_at_lease(&first, woken, 8).await;
    let writes = stage.all_writes(&first, woken);
    let (lease, others): (Vec<_>, Vec<_>) = writes
        .into_iter()
        .partition(|request| request.resource == "leases");
    // What was on its way when it was paused may end now, in vain, of each policy one call at most: its time is over, or it
    // was to create what the other has created.
    let (in_vain, written): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|request| matches!(request.code, 409 | 504) && request.effect == Effect::Refused);
    assert_eq!(written, [], "written after it woke");
    assert!(in_vain.len() <= AT_HAND + 1, "{in_vain:#?}");
    assert!(
        lease.iter().all(|request| request.effect == Effect::Refused),
        "{lease:?}"
    );
    println!("awake: 0 writes, {} refused attempts at the Lease", lease.len());
    let held_back = first.printed().matches("this replica does not lead").count();
    println!("its log speaks {held_back} times of writes that it held back");

    drop(second);
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    assert!(first.leads().await);
}

fn names() -> Vec<String> {
    (0..AT_HAND).map(|index| format!("at-hand-{index}")).collect()
}

/// *Scenario*: while no operator runs, a policy is changed, one is applied, one is deleted.
/// *Guarantees*: all of that is taken up when one starts; what did not change is not written.
#[tokio::test]
async fn what_changes_without_an_operator_is_taken_up_by_the_next() {
    let (stage, operator) = Stage::with_operator("absent").await;
    for name in ["changed", "deleted", "same"] {
        stage.apply(name, &with_replicas(1)).await;
        stage.rolled_out(name).await;
    }
    stage.calm(&operator).await;
    assert!(operator.stop().await.unwrap().success());
    stage.apply("changed", &with_replicas(2)).await;
    stage.apply("new", &with_replicas(1)).await;
    let deleted = stage.uid("deleted").await;
    stage.delete("deleted").await;
    let mark = stage.plane.audit_mark().unwrap();
    let operator = stage.operator().await;
    for name in ["changed", "new", "same"] {
        stage.rolled_out(name).await;
    }
    let gone = async || match stage.owned(&deleted).await.len() {
        0 => Ok(()),
        left => Err(format!("{left} objects are left")),
    };
    poll::eventually("the end of what was deleted", WITHIN, gone)
        .await
        .unwrap();
    let mut writes = stage.settled_objects(&operator, mark).await;
    writes.retain(|request| request.name.starts_with("same"));
    assert_eq!(changed(&writes), [""; 0]);
}
