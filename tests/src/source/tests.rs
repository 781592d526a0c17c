#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use prost::Message as _;

use super::{Generator, Shape, everything, gzip, shape_a, shape_b, shape_d};
use crate::mock_jev::Opinion;
use crate::otlp::{DataType, data_points, data_type, metrics, request_points};

#[test]
fn the_shapes_have_their_size() {
    for (shape, points, bytes_per_point) in [(shape_a(), 1_000, 200), (shape_b(), 1_000, 295)] {
        let request = Generator::new(shape, 7).next_request();
        assert_eq!(metrics(&request).count(), shape.metrics);
        assert_eq!(request_points(&request), points);
        let measured = request.encoded_len() / points;
        assert!(
            measured.abs_diff(bytes_per_point) * 20 <= bytes_per_point,
            "{shape:?}: {measured} bytes a point"
        );
    }
    assert_eq!(request_points(&Generator::new(shape_d(), 7).next_request()), 10);
}

#[test]
fn the_shapes_compress_like_real_telemetry() {
    for shape in [shape_a(), shape_b()] {
        let bytes = Generator::new(shape, 7).next_bytes();
        let ratio = bytes.len() * 10 / gzip(&bytes).unwrap().len();
        assert!((40..=70).contains(&ratio), "{shape:?}: {ratio} tenths");
    }
}

#[test]
fn names_are_unique_and_the_droppable_share_is_exact() {
    for percent in [0, 10, 25, 50, 100] {
        let shape = Shape {
            metrics: 2_200,
            points: 1,
            resources: 3,
            scopes: 2,
            droppable_percent: percent,
        };
        let mut generator = Generator::new(shape, 1);
        let names = generator.names();
        let sent: Vec<String> = metrics(&generator.next_request())
            .map(|metric| metric.name.clone())
            .collect();
        assert_eq!(sent, names);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 2_200);
        let dropped: Vec<String> = names
            .into_iter()
            .filter(|name| Opinion::of(name).keep <= 0.3)
            .collect();
        assert_eq!(dropped, generator.droppable_names());
        assert_eq!(dropped.len(), 22 * percent);
    }
    let every_second = (0..10).map(|index| shape_a().is_droppable(index));
    assert!(every_second.eq([false, true].into_iter().cycle().take(10)));
}

#[test]
fn a_seed_gives_the_same_requests_and_another_seed_other_identities() {
    let requests = |seed| {
        let mut generator = Generator::new(shape_a(), seed);
        [generator.next_request(), generator.next_request()]
    };
    assert_eq!(requests(3), requests(3));
    let [first, second] = requests(3);
    assert_ne!(first, second);
    assert_eq!(
        first.resource_metrics[0].resource,
        second.resource_metrics[0].resource
    );
    assert_ne!(
        first.resource_metrics[0].resource,
        requests(4)[0].resource_metrics[0].resource
    );
}

#[test]
fn all_five_types_are_in_the_shapes_and_in_everything() {
    let all = [
        DataType::Gauge,
        DataType::Sum,
        DataType::Histogram,
        DataType::ExponentialHistogram,
        DataType::Summary,
    ];
    for request in [Generator::new(shape_a(), 1).next_request(), everything(1)] {
        let types: BTreeSet<DataType> = metrics(&request)
            .filter(|m| data_points(m) > 0)
            .map(data_type)
            .collect();
        assert_eq!(types, BTreeSet::from(all));
    }
    assert_eq!(request_points(&everything(1)), 6);
}
