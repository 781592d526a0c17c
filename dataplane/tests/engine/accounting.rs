//! Numbers that add up, whatever the policy, the answers and the order of events.

use jevmetrics_dataplane::retain::decide::Decision;
use jevmetrics_dataplane::retain::engine::Processed;
use proptest::prelude::*;

use crate::requests::{decode, encode, gauge, of_resource};
use crate::setup::{LIFETIME, Setup, by_name};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Policy {
        is_reducing: bool,
        keep: u8,
        drop: u8,
        protects: u8,
    },
    Request(Vec<(usize, u8, usize)>),
    Answers,
    Later(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let metrics = prop::collection::vec((0..3_usize, 0..=100_u8, 0..4_usize), 0..20);
    prop_oneof![
        (any::<bool>(), 0..=100_u8, 0..=100_u8, 0..=100_u8).prop_map(
            |(is_reducing, one, other, protects)| {
                Event::Policy {
                    is_reducing,
                    keep: one.max(other),
                    drop: one.min(other),
                    protects,
                }
            }
        ),
        metrics.clone().prop_map(Event::Request),
        metrics.prop_map(Event::Request),
        Just(Event::Answers),
        (1..LIFETIME).prop_map(Event::Later),
    ]
}

fn points(metrics: &[opentelemetry_proto::tonic::metrics::v1::Metric]) -> (u64, u64) {
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    let (mut own, mut companions) = (0, 0);
    for metric in metrics {
        let Some(Data::Gauge(gauge)) = &metric.data else {
            continue;
        };
        let count = gauge.data_points.len() as u64;
        if metric.name.starts_with("jev.metric.") {
            companions += count;
        } else {
            own += count;
        }
    }
    (own, companions)
}

fn assert_adds_up(processed: &Processed, received: (u64, u64)) {
    let sent = processed
        .output
        .as_ref()
        .map(|output| points(&decode(output)))
        .unwrap_or_default();
    assert_eq!(processed.received_points, received.0);
    assert_eq!(processed.received_metrics, received.1);
    assert_eq!(
        processed.received_points,
        processed.kept_points + processed.dropped_points
    );
    assert_eq!(sent, (processed.kept_points, processed.companion_points));
    assert_eq!(processed.companion_points, 4 * processed.annotated_metrics);
    let counted = processed.tally.iter().fold((0, 0), |sum, (_, _, count)| {
        (sum.0 + count.points, sum.1 + count.instruments)
    });
    assert_eq!(counted, received, "every instrument has one outcome");
    let dropping = processed
        .tally
        .iter()
        .filter(|(decision, _, _)| *decision == Decision::Drop);
    let would_drop: u64 = dropping.map(|(_, _, count)| count.points).sum();
    assert!(processed.dropped_points == 0 || processed.dropped_points == would_drop);
    assert!(
        processed.companion_points == 0 || processed.dropped_points == 0,
        "one mode at a time"
    );
    assert!(processed.cache_hits <= processed.received_metrics);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn received_is_kept_and_dropped_at_any_time(events in prop::collection::vec(event(), 1..40)) {
        let setup = Setup::new();
        let mut now = 0;
        for event in events {
            match event {
                Event::Policy { is_reducing, keep, drop, protects } => {
                    let mode = if is_reducing { "Reduce" } else { "Annotate" };
                    setup.set_policy(mode, keep, drop, &format!(", protectedMetrics: [k{protects}]"));
                }
                Event::Request(metrics) => {
                    let received: u64 = metrics.iter().map(|(_, _, points)| *points as u64).sum();
                    let count = metrics.len() as u64;
                    let resources = ["a", "b", "c"].iter().enumerate().map(|(number, service)| {
                        let own = metrics.iter().filter(|(resource, _, _)| *resource == number);
                        let metrics = own.map(|(_, keep, points)| gauge(&format!("k{keep}"), *points)).collect();
                        of_resource(&[("service.name", service)], metrics)
                    });
                    let processed = setup.at(now, &encode(resources.collect()));
                    assert_adds_up(&processed, (received, count));
                }
                Event::Answers => setup.answer(by_name),
                Event::Later(seconds) => now += seconds,
            }
        }
    }
}
