//! What the model may know: metadata and shape, bounded, never a value.

use jevmetrics_otlp::summary::{
    DataType, Description, MAX_ATTRIBUTE_KEYS, MAX_TEXT_BYTES, Summaries, Summary,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, Summary as SummaryData, SummaryDataPoint,
};
use prost::Message;

use crate::build::{
    Request, array, attribute, attributes, full, gauge, in_resource, in_scope, int, metric, number, request,
    resource, scope, simple, sum, text, value,
};
use crate::read::{context, walk};
use crate::wire::{cat, int as int_field, key, len};

fn of_bytes(bytes: &[u8], allowed: &[&str]) -> (Option<Summary>, Description) {
    let (walk, context) = (walk(bytes), context(allowed));
    let mut summaries = Summaries::new(bytes, &walk, &context);
    (summaries.summarize(0).unwrap(), summaries.describe(0).unwrap())
}

fn of(request: &Request, allowed: &[&str]) -> Summary {
    of_bytes(&request.encode_to_vec(), allowed).0.unwrap()
}

fn of_metric(metric: Metric) -> Summary {
    of(
        &request(vec![in_resource(None, vec![in_scope(None, vec![metric])])]),
        &[],
    )
}

#[test]
fn a_summary_tells_all_that_the_model_may_know() {
    let mut request = full();
    let histogram = Data::Histogram(Histogram {
        aggregation_temporality: 2,
        data_points: [&[("path", "/a"), ("code", "200")][..], &[("path", "/b")], &[]]
            .map(|pairs| HistogramDataPoint {
                attributes: attributes(pairs),
                ..HistogramDataPoint::default()
            })
            .to_vec(),
    });
    request.resource_metrics[0].scope_metrics[0].metrics[0].data = Some(histogram);
    let expected = Summary {
        name: "http.server.duration".into(),
        description: "how long requests take".into(),
        unit: "ms".into(),
        data_type: DataType::Histogram,
        temporality: Some(2),
        monotonic: None,
        data_points: 3,
        attribute_sets: 3,
        attribute_keys: vec!["code".into(), "path".into()],
        resource: vec![
            ("region".into(), "eu".into()),
            ("service.name".into(), "shop".into()),
        ],
        scope_name: "library".into(),
        scope_version: "1.2.3".into(),
    };
    assert_eq!(
        of(&request, &["service.name", "region", "cloud.region"]),
        expected
    );
}

#[test]
fn temporality_and_monotonicity_are_told_of_the_types_that_have_them() {
    let told = |metric| {
        let summary = of_metric(metric);
        (summary.temporality, summary.monotonic)
    };
    assert_eq!(told(simple("m")), (None, None));
    assert_eq!(told(metric("m", sum(1, true))), (Some(1), Some(true)));
    assert_eq!(told(metric("m", sum(0, false))), (Some(0), Some(false)));
    assert_eq!(told(metric("m", crate::build::histogram(2))), (Some(2), None));
    assert_eq!(
        told(metric("m", crate::build::exponential_histogram(1))),
        (Some(1), None)
    );
    assert_eq!(told(metric("m", crate::build::summary())), (None, None));
}

#[test]
fn attribute_keys_are_found_in_the_points_of_every_type() {
    let pairs = || attributes(&[("b", "1"), ("a", "2")]);
    let of = |data: Data| of_metric(metric("m", data)).attribute_keys;
    let number = NumberDataPoint {
        attributes: pairs(),
        ..NumberDataPoint::default()
    };
    let histogram = HistogramDataPoint {
        attributes: pairs(),
        bucket_counts: vec![1, 2],
        explicit_bounds: vec![3.0],
        ..HistogramDataPoint::default()
    };
    let exponential = ExponentialHistogramDataPoint {
        attributes: pairs(),
        ..Default::default()
    };
    let summary = SummaryDataPoint {
        attributes: pairs(),
        ..SummaryDataPoint::default()
    };
    for data in [
        gauge(vec![number]),
        Data::Histogram(Histogram {
            data_points: vec![histogram],
            aggregation_temporality: 1,
        }),
        Data::ExponentialHistogram(ExponentialHistogram {
            data_points: vec![exponential],
            aggregation_temporality: 1,
        }),
        Data::Summary(SummaryData {
            data_points: vec![summary],
        }),
    ] {
        assert_eq!(of(data), ["a", "b"]);
    }
}

#[test]
fn attribute_sets_are_counted_whatever_their_order() {
    let points = [
        number(1.0, &[("a", "1"), ("b", "2")]),
        number(2.0, &[("b", "2"), ("a", "1")]),
        number(3.0, &[("a", "2"), ("b", "1")]),
        number(4.0, &[("a", "1")]),
        number(5.0, &[]),
        number(6.0, &[]),
    ];
    let summary = of_metric(metric("m", gauge(points.to_vec())));
    assert_eq!((summary.data_points, summary.attribute_sets), (6, 4));
}

#[test]
fn of_many_attribute_keys_the_first_sixty_four_are_told() {
    let keys: Vec<String> = (0..200).map(|number| format!("k{number:03}")).collect();
    let points = keys.iter().rev().map(|key| number(1.0, &[(key, "v")])).collect();
    let summary = of_metric(metric("m", gauge(points)));
    assert_eq!(summary.attribute_keys, keys[..MAX_ATTRIBUTE_KEYS]);
    assert_eq!(summary.attribute_sets, 200);
}

#[test]
fn texts_are_cut_at_whole_characters() {
    let long = format!("{}{}", "x".repeat(MAX_TEXT_BYTES - 1), "ü".repeat(200));
    let mut metric = metric(
        &long,
        gauge(vec![number(1.0, &[(&long, "v"), (&format!("{long}!"), "v")])]),
    );
    (metric.description, metric.unit) = (long.clone(), long.clone());
    let mut scope = scope(&long);
    scope.version = long.clone();
    let resource = resource(attributes(&[(&long, &long)]));
    let request = request(vec![in_resource(resource, vec![in_scope(scope, vec![metric])])]);
    let summary = of(&request, &[&long]);
    let cut = &long[..MAX_TEXT_BYTES - 1];
    assert_eq!(summary.attribute_keys, [cut], "distinct after the cut");
    assert_eq!(summary.resource, [(cut.to_owned(), cut.to_owned())]);
    let texts = [
        summary.name,
        summary.description,
        summary.unit,
        summary.scope_name,
        summary.scope_version,
    ];
    assert!(texts.iter().all(|text| text == cut), "{texts:?}");
    let exact = "x".repeat(MAX_TEXT_BYTES);
    assert_eq!(of_metric(simple(&exact)).name, exact);
}

#[test]
fn numbers_and_flags_of_the_context_are_shown_as_text_and_nothing_else() {
    let values = vec![
        attribute("bool", value(Value::BoolValue(true))),
        attribute("int", int(-5)),
        attribute("large", value(Value::DoubleValue(f64::MAX))),
        attribute("small", value(Value::DoubleValue(5e-324))),
        attribute("bytes", value(Value::BytesValue(b"x".to_vec()))),
        attribute("list", array(vec![text("x")])),
        attribute("absent", None),
        attribute("secret", text("not listed")),
    ];
    let request = request(vec![in_resource(
        resource(values),
        vec![in_scope(None, vec![simple("m")])],
    )]);
    let summary = of(
        &request,
        &["bool", "int", "large", "small", "bytes", "list", "absent"],
    );
    let shown: Vec<(&str, &str)> = summary
        .resource
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let expected = [
        ("bool", "true"),
        ("int", "-5"),
        ("large", "1.7976931348623157e308"),
        ("small", "5e-324"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn values_of_points_never_get_into_a_summary() {
    let mut point = number(424_242.0, &[("key", "SECRET")]);
    point.exemplars = vec![Exemplar {
        filtered_attributes: attributes(&[("SECRET", "SECRET")]),
        trace_id: b"SECRET".to_vec(),
        ..Exemplar::default()
    }];
    point
        .attributes
        .push(attribute("list", array(vec![text("SECRET")])));
    let mut metric = metric("m", gauge(vec![point]));
    metric.metadata = attributes(&[("SECRET", "SECRET")]);
    let resource = resource(attributes(&[("service.name", "shop"), ("host", "SECRET")]));
    let request = request(vec![in_resource(resource, vec![in_scope(None, vec![metric])])]);
    let shown = format!("{:?}", of(&request, &["service.name"]));
    assert!(!shown.contains("SECRET") && !shown.contains("424242"), "{shown}");
}

#[test]
fn points_that_cannot_be_read_are_left_out_with_all_that_they_say() {
    let good = len(1, len(7, len(1, "good")));
    let cut_short = len(1, cat(&[len(7, len(1, "bad")), key(7, 2), vec![50]]));
    let broken_attribute = len(1, cat(&[len(7, len(1, "worse")), len(7, [0x0a, 0x7f])]));
    let data = len(5, cat(&[cut_short, good, broken_attribute]));
    let bytes = len(1, len(2, len(2, cat(&[len(1, "m"), data]))));
    let summary = of_bytes(&bytes, &[]).0.unwrap();
    assert_eq!(summary.attribute_keys, ["good"]);
    assert_eq!((summary.data_points, summary.attribute_sets), (3, 1));
}

#[test]
fn keys_that_are_no_text_are_left_out() {
    let point = len(
        1,
        cat(&[len(7, len(1, b"\xff")), len(7, len(2, "")), len(7, len(1, "k"))]),
    );
    let bytes = len(1, len(2, len(2, cat(&[len(1, "m"), len(5, point)]))));
    assert_eq!(of_bytes(&bytes, &[]).0.unwrap().attribute_keys, ["k"]);
}

#[test]
fn data_that_another_type_replaced_is_not_summarized() {
    let gauge = |name: &str| len(5, len(1, len(7, len(1, name))));
    let sum = len(7, cat(&[len(1, len(7, len(1, "sum"))), int_field(2, 1)]));
    let of = |data: &[Vec<u8>]| {
        let bytes = len(1, len(2, len(2, cat(&[len(1, "m"), cat(data)]))));
        let summary = of_bytes(&bytes, &[]).0.unwrap();
        (
            summary.attribute_keys,
            summary.data_points,
            summary.attribute_sets,
        )
    };
    assert_eq!(
        of(&[gauge("a"), sum.clone(), gauge("b")]),
        (vec!["b".into()], 1, 1)
    );
    assert_eq!(
        of(&[gauge("a"), gauge("b")]),
        (vec!["a".into(), "b".into()], 2, 2),
        "one type is joined"
    );
    assert_eq!(of(&[gauge("a"), sum]), (vec!["sum".into()], 1, 1));
}

#[test]
fn a_metric_without_data_has_no_summary_but_a_description() {
    let bytes = request(vec![in_resource(
        None,
        vec![in_scope(scope("s"), vec![metric("m", None)])],
    )]);
    let (summary, description) = of_bytes(&bytes.encode_to_vec(), &[]);
    assert_eq!(summary, None);
    assert_eq!(
        (
            &description.name[..],
            description.data_type,
            &description.scope_name[..]
        ),
        ("m", None, "s")
    );
}

#[test]
fn a_description_tells_instruments_of_one_name_apart() {
    let attributes: Vec<_> = (0..100)
        .rev()
        .map(|number| attribute(&format!("a{number:02}"), int(number)))
        .collect();
    let mut scope = scope("s");
    scope.version = "v".into();
    let mut metric = metric("m", sum(2, true));
    metric.unit = "By".into();
    let request = request(vec![in_resource(
        resource(attributes),
        vec![in_scope(scope, vec![metric])],
    )]);
    let description = of_bytes(&request.encode_to_vec(), &[]).1;
    let resource = (0..MAX_ATTRIBUTE_KEYS)
        .map(|number| (format!("a{number:02}"), number.to_string()))
        .collect();
    let expected = Description {
        name: "m".into(),
        unit: "By".into(),
        data_type: Some(DataType::Sum),
        scope_name: "s".into(),
        scope_version: "v".into(),
        resource,
    };
    assert_eq!(description, expected);
}
