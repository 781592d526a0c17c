//! What is kept, dropped and added, by both modes.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jevmetrics_testkit::mock_jev::{Behaviour, Opinion};
use jevmetrics_testkit::otlp::{COMPANIONS, DataType, data_type, is_companion, metrics};
use jevmetrics_testkit::process::Mode;
use jevmetrics_testkit::source::everything;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use prost::Message as _;

use crate::messages::{
    SMALL_METRICS, SMALL_POINTS, attribute, bytes, gauges, points_of, small, without, without_companions,
};
use crate::support::{BOTH, Via, WITHIN, World};

const TYPES: [DataType; 5] = [
    DataType::Gauge,
    DataType::Sum,
    DataType::Histogram,
    DataType::ExponentialHistogram,
    DataType::Summary,
];

/// *Scenario*: `Annotate`, Jev never answers; requests with everything that OTLP has.
/// *Guarantees*: what leaves is byte for byte what came.
#[tokio::test]
async fn without_assessments_annotate_changes_no_byte() {
    let world = World::start(Mode::Annotate).await;
    world.jev.script().always(Behaviour::Silent);
    let mut sent: Vec<Bytes> = (0..3).map(|seed| bytes(&everything(seed))).collect();
    sent.extend((0..3).map(|_| small(50).next_bytes()));
    for (index, message) in sent.iter().enumerate() {
        world.deliver(BOTH[index % 2], message).await;
    }
    let received: Vec<Bytes> = world
        .sink
        .received()
        .into_iter()
        .map(|request| request.raw)
        .collect();
    assert_eq!(received, sent);
    let equation = world.settled().await;
    assert_eq!(equation.exported, 3 * 6 + 3 * SMALL_POINTS);
    assert_eq!((equation.dropped, equation.companions_added), (0, 0));
}

/// The point of a companion.
fn point(metric: &Metric) -> &NumberDataPoint {
    match &metric.data {
        Some(Data::Gauge(gauge)) if gauge.data_points.len() == 1 => &gauge.data_points[0],
        other => panic!("a companion is a gauge of one point: {other:?}"),
    }
}

fn hundredths(value: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "0 to 100")]
    let hundredths = (value * 100.0).round() as i64;
    hundredths
}

/// Shows that each instrument has its four companions beside it, in its own scope, and that there are no others. An
/// instrument without data has no identity, so nobody was asked about it.
fn assert_companions(request: &ExportMetricsServiceRequest, collector_id: &str) {
    let scopes = request
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics);
    for scope in scopes {
        let is_own = |metric: &&Metric| is_companion(&metric.name);
        let (companions, others): (Vec<&Metric>, Vec<&Metric>) = scope.metrics.iter().partition(is_own);
        let judged: Vec<&Metric> = others
            .into_iter()
            .filter(|metric| metric.data.is_some())
            .collect();
        assert_eq!(companions.len(), 4 * judged.len());
        for metric in judged {
            assert_companions_of(metric, &companions, collector_id);
        }
    }
}

fn assert_companions_of(metric: &Metric, companions: &[&Metric], collector_id: &str) {
    let opinion = Opinion::of(&metric.name);
    let values = [opinion.relevance, opinion.redundancy, opinion.keep, 1.0];
    for (name, value) in COMPANIONS.into_iter().zip(values) {
        let what = format!("{name} of {}", metric.name);
        let mut own = companions.iter().filter(|companion| {
            let of = attribute(&point(companion).attributes, "metric.name");
            companion.name == name && of == Some(&metric.name)
        });
        let companion = own.next().unwrap_or_else(|| panic!("no {what}"));
        assert!(own.next().is_none(), "{what} twice");
        let point = point(companion);
        let Some(Value::AsDouble(written)) = point.value else {
            panic!("{what}: {point:?}")
        };
        assert_eq!(hundredths(written), hundredths(value), "{what}");
        assert_eq!(companion.unit, "1");
        let action = (name == COMPANIONS[3]).then(|| opinion.action.as_str());
        for (key, value) in [
            ("jev.model", Some("jev-1.13.0")),
            ("jev.collector.id", Some(collector_id)),
            ("action", action),
        ] {
            assert_eq!(attribute(&point.attributes, key), value, "{what}");
        }
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(point.time_unix_nano);
        assert!(time.elapsed().is_ok_and(|age| age < WITHIN), "{what}: {point:?}");
    }
}

/// The id that the process printed when it was ready.
async fn collector_id(world: &World) -> String {
    let line = world.logged("collector_id=").await;
    let (_, id) = line.split_once("collector_id=\"").unwrap();
    id.split_once('"').unwrap().0.to_owned()
}

/// *Scenario*: `Annotate`, all instruments assessed, half of them not worth keeping.
/// *Guarantees*: all input is passed on, each instrument has its four companions with the right values and
/// attributes, the counters say what `Reduce` would do, and companions are counted apart.
#[tokio::test]
async fn annotate_keeps_all_adds_companions_and_counts_what_reduce_would_do() {
    let world = World::start(Mode::Annotate).await;
    let mut generator = small(50);
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    let before = world.settled().await;
    let drops =
        "jevmetrics_policy_datapoints_total{mode=\"annotate\",decision=\"drop\",reason=\"cached_score\"}";
    assert_eq!(world.count(drops).await, 0);

    for via in BOTH {
        world.sink.reset();
        let request = generator.next_request();
        world.deliver(via, &bytes(&request)).await;
        let received = world.sink.received();
        let [received] = received.as_slice() else {
            panic!("{} requests", received.len())
        };
        assert_eq!(without_companions(&received.message), request);
        assert_companions(&received.message, &collector_id(&world).await);
        let accepted = world.sink.counts().accepted;
        assert_eq!(
            (accepted.others.points, accepted.companions.points),
            (SMALL_POINTS, 4 * SMALL_METRICS)
        );
    }
    let after = world.settled().await;
    assert_eq!(after.received - before.received, 2 * SMALL_POINTS);
    assert_eq!(after.exported - before.exported, 2 * SMALL_POINTS);
    assert_eq!(after.dropped, 0);
    assert_eq!(after.companions_added, 2 * 4 * SMALL_METRICS);
    assert_eq!(after.companions_exported, after.companions_added);
    assert_eq!(world.count(drops).await, SMALL_POINTS);
}

/// *Scenario*: `Annotate`, an assessed request with everything that OTLP has.
/// *Guarantees*: without its companions, what leaves is what came, odd and empty parts included.
#[tokio::test]
async fn companions_disturb_nothing_of_an_odd_request() {
    let world = World::start(Mode::Annotate).await;
    let request = everything(1);
    world.learn(&bytes(&request), 8).await;
    world.deliver(Via::Http, &bytes(&request)).await;
    let received = &world.sink.received()[0].message;
    assert_eq!(without_companions(received), request);
    assert_companions(received, &collector_id(&world).await);
}

/// *Scenario*: what a data plane before this one has annotated arrives here.
/// *Guarantees*: its companions are kept, counted as input, never asked about and get no companions of their own.
#[tokio::test]
async fn companions_of_a_data_plane_before_are_kept_and_not_judged() {
    let world = World::start(Mode::Reduce).await;
    let request = bytes(&gauges(
        &[COMPANIONS.as_slice(), &["shop.debug.orders"]].concat(),
        1,
        "",
    ));
    world.learn(&request, 5).await;
    world.deliver(Via::Grpc, &request).await;
    let names: Vec<String> = world.sink.counts().accepted.by_name.into_keys().collect();
    let mut expected = COMPANIONS.map(str::to_owned);
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(world.jev.counters().received, 1);
    assert_eq!(world.decision(COMPANIONS[0]).await["reason"], "protected");
    assert_eq!(world.settled().await.received, 10);
}

/// *Scenario*: `Reduce`, all instruments assessed, half of them not worth keeping.
/// *Guarantees*: exactly that half is missing, nothing is added, and the equation holds to the point.
#[tokio::test]
async fn reduce_drops_exactly_the_droppable_half() {
    let world = World::start(Mode::Reduce).await;
    let mut generator = small(50);
    let droppable = generator.droppable_names();
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    let before = world.settled().await;
    assert_eq!(before.dropped, 0, "unknown is kept");
    for via in BOTH {
        world.sink.reset();
        let request = generator.next_request();
        world.deliver(via, &bytes(&request)).await;
        let expected = without(&request, |metric| droppable.contains(&metric.name));
        assert_eq!(world.sink.received()[0].raw, expected.encode_to_vec(), "{via:?}");
    }
    let after = world.settled().await;
    assert_eq!(after.received - before.received, 2 * SMALL_POINTS);
    assert_eq!(after.dropped - before.dropped, SMALL_POINTS);
    assert_eq!(after.exported - before.exported, SMALL_POINTS);
    assert_eq!(after.companions_added, 0);
    let drops =
        "jevmetrics_policy_datapoints_total{mode=\"reduce\",decision=\"drop\",reason=\"cached_score\"}";
    assert_eq!(world.count(drops).await, SMALL_POINTS);
    assert_eq!(
        world.count("jevmetrics_metrics_dropped_total").await,
        SMALL_METRICS
    );
}

/// A request with everything in which the instruments of one type are not worth keeping.
fn with_droppable(of: DataType, case: usize) -> (ExportMetricsServiceRequest, impl Fn(&Metric) -> bool) {
    let mut request = everything(1);
    let scopes = request
        .resource_metrics
        .iter_mut()
        .flat_map(|resource| &mut resource.scope_metrics);
    for metric in scopes.flat_map(|scope| &mut scope.metrics) {
        let mark = if data_type(metric) == of { "debug" } else { "plain" };
        metric.name = format!("case{case}.{mark}.{}", metric.name);
    }
    (request, |metric: &Metric| metric.name.contains(".debug."))
}

/// *Scenario*: `Reduce`; in turn, all instruments of one of the five data types are not worth keeping.
/// *Guarantees*: exactly those go with all their points, parents left empty go too, empty ones that came stay.
#[tokio::test]
async fn instruments_of_every_data_type_can_be_dropped() {
    let world = World::start(Mode::Reduce).await;
    let mut dropped = 0;
    for (case, of) in TYPES.into_iter().enumerate() {
        let (request, goes) = with_droppable(of, case);
        world.learn(&bytes(&request), 8 * (case as u64 + 1)).await;
        for via in BOTH {
            world.sink.reset();
            world.deliver(via, &bytes(&request)).await;
            let expected = without(&request, &goes);
            assert_ne!(metrics(&expected).count(), metrics(&request).count());
            assert_eq!(world.sink.received()[0].message, expected, "{of:?} {via:?}");
            dropped += points_of(&request, &goes);
        }
    }
    assert_eq!(world.settled().await.dropped, dropped);
}

/// *Scenario*: `Reduce`; no instrument of the request is worth keeping.
/// *Guarantees*: the sender sees success without a partial success, and nothing is sent.
#[tokio::test]
async fn all_dropped_is_a_success_and_sends_nothing() {
    let world = World::start(Mode::Reduce).await;
    let mut generator = small(100);
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    for via in BOTH {
        world.deliver(via, &generator.next_bytes()).await;
    }
    assert_eq!(world.sink.counts().arrived, 0);
    let equation = world.settled().await;
    assert_eq!(
        (equation.received, equation.dropped),
        (3 * SMALL_POINTS, 2 * SMALL_POINTS)
    );
}

/// *Scenario*: `Reduce`; instruments that Jev is sure of, unsure of, and that the policy protects.
/// *Guarantees*: only the sure drop goes; protected instruments are never asked about.
#[tokio::test]
async fn doubt_and_protection_keep() {
    let world = World::start(Mode::Reduce).await;
    world.jev.judge().set("exactly.at.drop", Opinion::with_keep(0.30));
    world.jev.judge().set("just.above.drop", Opinion::with_keep(0.31));
    let names = [
        "exactly.at.drop",
        "just.above.drop",
        "some.doubt",
        "up",
        "scrape_debug",
        "worth.it",
    ];
    let request = bytes(&gauges(&names, 1, ""));
    world.learn(&request, 6).await;
    world.deliver(Via::Grpc, &request).await;
    let kept: Vec<String> = world.sink.counts().accepted.by_name.into_keys().collect();
    assert_eq!(
        kept,
        ["just.above.drop", "scrape_debug", "some.doubt", "up", "worth.it"]
    );
    assert_eq!(world.jev.counters().received, 4);
    for (name, reason) in [
        ("just.above.drop", "uncertain"),
        ("up", "protected"),
        ("worth.it", "cached_score"),
    ] {
        assert_eq!(world.decision(name).await["reason"], reason, "{name}");
    }
}
