//! What a point costs while Redis is away.

use jevmetrics_testkit::poll;
use jevmetrics_testkit::steady::Steady;

use super::super::group::{Group, droppable, message};
use super::super::replica::{Replica, WITHIN};
use super::{Fault, HASTY, is_skipped, loaded, more_exports, nothing_lost};

/// Rounds of the same that lie further apart say nothing.
const MOST_APART: f64 = 1.15;

/// Milliseconds of CPU that a process has used.
fn cpu(replica: &Replica) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", replica.plane.pid())).unwrap();
    let behind_name = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<&str> = behind_name.split(' ').collect();
    // utime and stime, in ticks of 10 ms.
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

/// Milliseconds of CPU for a point, over so many exports of each load.
#[allow(clippy::cast_precision_loss, reason = "small")]
async fn cost_of_a_point(group: &Group, loads: &[Steady], exports: u64) -> f64 {
    let spent = || group.replicas.iter().map(cpu).sum::<u64>();
    let points = || {
        loads
            .iter()
            .map(|load| load.counts().points_acknowledged)
            .sum::<u64>()
    };
    let (spent_before, points_before) = (spent(), points());
    more_exports(loads, exports).await;
    (spent() - spent_before) as f64 / (points() - points_before) as f64
}

/// *Scenario*: the same steady load with a healthy Redis and with one behind a black hole, in turns, with some
/// instruments that are never known.
/// *Guarantees*: none but that nothing is lost; `redis_down_cpu_ratio` is printed: CPU a point without Redis by CPU a
/// point with it, each the least of its rounds, and how far the rounds with it lie apart.
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_lost_redis_is_measured() {
    if is_skipped() {
        return;
    }
    let (mut group, loads) = loaded(HASTY).await;
    for load in &loads {
        load.set_rate(200.0);
    }
    let (mut healthy, mut lost) = (Vec::new(), Vec::new());
    for round in 0..3 {
        more_exports(&loads, 20).await;
        healthy.push(cost_of_a_point(&group, &loads, 400).await);
        Fault::BlackHole.begin(&mut group).await;
        let unknown = message(&droppable(&format!("unknown.{round}"), 20));
        for replica in &group.replicas {
            let named = poll::eventually("the state", WITHIN, async || {
                replica.deliver(&unknown).await;
                let line = replica.coordination().await;
                if line.starts_with("failing") {
                    Ok(())
                } else {
                    Err(line)
                }
            });
            named.await.unwrap();
        }
        lost.push(cost_of_a_point(&group, &loads, 400).await);
        Fault::BlackHole.end(&mut group).await;
        for replica in &group.replicas {
            replica.drops(&unknown).await;
        }
    }
    let least = |rounds: &[f64]| rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = healthy.iter().copied().fold(0.0, f64::max);
    let (ratio, apart) = (least(&lost) / least(&healthy), most / least(&healthy));
    if apart <= MOST_APART {
        println!("redis_down_cpu_ratio={ratio:.3}, rounds with Redis lie {apart:.3} apart");
    } else {
        println!(
            "redis_down_cpu_ratio not shown: rounds with Redis lie {apart:.3} apart; run this test alone"
        );
    }
    nothing_lost(&group, &loads).await;
    group.finish().await;
}
