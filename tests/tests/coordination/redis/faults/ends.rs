//! Replicas that start and stop without Redis.

use std::time::Instant;

use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::poll;

use super::super::group::{Group, Setup, droppable, message};
use super::super::replica::WITHIN;
use super::{Fault, is_skipped};

/// *Scenario*: a replica starts while there is no Redis; later there is.
/// *Guarantees*: it is ready and passes on what it gets; it shares as soon as it can.
#[tokio::test]
async fn a_replica_starts_without_redis() {
    if is_skipped() {
        return;
    }
    let mut group = Group::start(0, Setup::default()).await;
    group.redis.kill().await.unwrap();
    let message = message(&droppable("shop", 5));
    let replica = group.add(|_| ()).await;
    let named = poll::eventually("the state", WITHIN, async || {
        assert_eq!(replica.kept_of(&message).await, 5);
        let line = replica.coordination().await;
        if line.starts_with("failing, no connection") {
            Ok(())
        } else {
            Err(line)
        }
    });
    named.await.unwrap();
    assert_eq!(group.asked(), 0);
    group.restart_redis().await;
    group.replicas[0].drops(&message).await;
    assert_eq!(group.asked(), 5);
    group.finish().await;
}

/// *Scenario*: a replica is told to stop while it asks, and Redis is behind a black hole.
/// *Guarantees*: it ends well all the same: giving its lease back is tried for a bounded time.
#[tokio::test]
async fn a_stop_does_not_wait_for_redis() {
    if is_skipped() {
        return;
    }
    let setup = Setup {
        question: 20_000,
        call: 500,
        through_proxy: true,
        ..Setup::default()
    };
    let mut group = Group::start(1, setup).await;
    group.jev.script().always(Behaviour::Silent);
    group.replicas[0].deliver(&message(&droppable("shop", 5))).await;
    group.jev_is_asked(5).await;
    Fault::BlackHole.begin(&mut group).await;
    let mut stopped = group.replicas.remove(0);
    let begin = Instant::now();
    stopped.plane.signal("TERM").await.unwrap();
    assert!(stopped.plane.wait(WITHIN).await.unwrap().success());
    println!("stopped within {:?}, deadline of a call 500 ms", begin.elapsed());
    Fault::BlackHole.end(&mut group).await;
    group.finish().await;
}
