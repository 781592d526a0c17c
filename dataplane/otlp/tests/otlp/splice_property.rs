//! Random requests and random drops, against retaining with prost.

use jevmetrics_otlp::companion::{Companion, Stamp};
use jevmetrics_otlp::{Plan, Spliced, splice};
use proptest::prelude::*;
use prost::Message;

use crate::build::{
    Request, attributes, gauge, in_resource, in_scope, metric, number, request, resource, scope, simple,
};
use crate::read::walk;

const STAMP: Stamp<'_> = Stamp {
    collector_id: "c",
    time_unix_nano: 1,
};

/// Scopes per resource, metrics per scope with the number of their points; resource and scope come and go.
fn any_request() -> impl Strategy<Value = Request> {
    let scope_metrics = (
        prop::option::of("[a-c]{0,3}"),
        prop::collection::vec(0..40_usize, 0..5),
    );
    let resource_metrics = (
        prop::option::of("[a-c]{0,200}"),
        prop::collection::vec(scope_metrics, 0..4),
    );
    prop::collection::vec(resource_metrics, 0..5).prop_map(|resources| {
        let resources = resources.into_iter().map(|(value, scopes)| {
            let scopes = scopes.into_iter().map(|(name, points)| {
                let metrics = points.into_iter().map(|points| {
                    let points = (0..points)
                        .map(|point| number(point as f64, &[("k", "v")]))
                        .collect();
                    metric("m", gauge(points))
                });
                in_scope(name.map(|name| scope(&name)), metrics.collect())
            });
            let resource = value.map(|value| resource(attributes(&[("service.name", &value)])));
            in_resource(resource, scopes.collect())
        });
        request(resources.collect())
    })
}

/// The rule, the plain way.
fn retain(mut request: Request, mut is_dropped: impl FnMut() -> bool) -> Request {
    request.resource_metrics.retain_mut(|resource| {
        let arrived_empty = resource.scope_metrics.is_empty();
        resource.scope_metrics.retain_mut(|scope| {
            let arrived_empty = scope.metrics.is_empty();
            scope.metrics.retain(|_| !is_dropped());
            arrived_empty || !scope.metrics.is_empty()
        });
        arrived_empty || !resource.scope_metrics.is_empty()
    });
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_left_is_what_prost_retains(
        request in any_request(),
        drops in prop::collection::vec(any::<bool>(), 100),
        keeps_all in prop::bool::weighted(0.1),
    ) {
        let bytes = request.encode_to_vec();
        let walk = walk(&bytes);
        let mut plan = Plan::default();
        plan.reset(walk.metrics().len());
        let is_dropped = |index: usize| !keeps_all && drops[index];
        (0..walk.metrics().len()).filter(|index| is_dropped(*index)).for_each(|index| plan.drop_metric(index));

        let mut index = 0..;
        let expected = retain(request.clone(), || is_dropped(index.next().unwrap()));
        match splice(&bytes, &walk, &mut plan, &[], STAMP) {
            Spliced::Unchanged => prop_assert_eq!(request, expected),
            Spliced::Nothing => prop_assert!(expected.resource_metrics.is_empty()),
            // Input as prost writes it, so that all lengths are minimal: byte for byte.
            Spliced::Rewritten(out) => prop_assert_eq!(out, expected.encode_to_vec()),
        }
    }

    #[test]
    fn companions_add_to_their_scopes_alone_whatever_is_dropped(
        request in any_request(),
        drops in prop::collection::vec(prop::bool::weighted(0.3), 100),
        sets in prop::collection::vec(0..3_usize, 100),
    ) {
        let bytes = request.encode_to_vec();
        let walk = walk(&bytes);
        let metrics = walk.metrics();
        // In the order of the request, for some metrics; also of scopes that lose all of theirs.
        let companions: Vec<Companion<'_>> = metrics.iter().zip(&sets).filter(|(_, sets)| **sets == 1).map(|(metric, _)| {
            Companion {
                scope: metric.scope(),
                metric_name: "m",
                model: "model",
                relevance: 0.1,
                redundancy: 0.2,
                keep_probability: 0.3,
                action: "keep",
            }
        }).collect();
        if companions.is_empty() {
            return Ok(());
        }
        let mut plan = Plan::default();
        plan.reset(metrics.len());
        (0..metrics.len()).filter(|index| drops[*index]).for_each(|index| plan.drop_metric(index));
        let Spliced::Rewritten(out) = splice(&bytes, &walk, &mut plan, &companions, STAMP) else {
            return Err(TestCaseError::fail("companions must be written"));
        };

        // The same with stand-ins: four metrics for each set, before and after, differ in nothing but themselves.
        let mut index = 0..;
        let mut scope_index = 0..;
        let mut expected = request;
        for scope in expected.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics) {
            let number = scope_index.next().unwrap();
            let had_metrics = !scope.metrics.is_empty();
            scope.metrics.retain(|_| !drops[index.next().unwrap()]);
            let sets = companions.iter().filter(|companion| companion.scope == number).count();
            scope.metrics.extend((0..4 * sets).map(|_| simple("companion")));
            if had_metrics && scope.metrics.is_empty() {
                scope.schema_url = "goes".into();
            }
        }
        for resource in &mut expected.resource_metrics {
            let had_scopes = !resource.scope_metrics.is_empty();
            resource.scope_metrics.retain(|scope| scope.schema_url != "goes");
            if had_scopes && resource.scope_metrics.is_empty() {
                resource.schema_url = "goes".into();
            }
        }
        expected.resource_metrics.retain(|resource| resource.schema_url != "goes");

        let mut decoded = Request::decode(&out[..]).unwrap();
        let scopes = decoded.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
        for metric in scopes.flat_map(|scope| &mut scope.metrics) {
            if metric.name.starts_with("jev.metric.") {
                *metric = simple("companion");
            }
        }
        prop_assert_eq!(decoded, expected);
    }
}
