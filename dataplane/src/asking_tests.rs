#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! Decisions and asking together, over many lifetimes of assessments, under a paused clock.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jevmetrics_api::live::LivePolicy;
use jevmetrics_otlp::Keys;
use jevmetrics_otlp::identity::{ContextAttributes, IdentityMode};
use jevmetrics_otlp::summary::Summary;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use prometheus_client::registry::Registry;
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::coordinate::Local;
use crate::infer::ask::{Ask, Asking};
use crate::infer::failure::Cause;
use crate::infer::reply::Reply;
use crate::infer::{Inference, Pace};
use crate::observe::sufficiency::{Change, Sufficiency};
use crate::outcomes::StoredOutcomes;
use crate::retain::answers::{Action, Answers, Percent};
use crate::retain::assessments::Assessments;
use crate::retain::engine::{Engine, EngineParts};

const TTL: u32 = 300;
const SECOND: Duration = Duration::from_secs(1);

/// Says "drop" to everything, after 100 ms.
struct Jev;

impl Ask for Jev {
    fn obstacle(&self) -> Option<Cause> {
        None
    }

    fn ask<'a>(&'a self, _summary: &'a Summary) -> Asking<'a> {
        let percent = |value| Percent::new(value).unwrap();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Reply {
                answers: Answers {
                    relevance: percent(5),
                    redundancy: percent(95),
                    keep: percent(3),
                    action: Action::Drop,
                },
                model: "jev-1".to_owned(),
                usage: None,
            })
        })
    }
}

/// A process that asks so often in a second, and the instruments that it is sent: the later, the more data points.
struct Process {
    engine: Engine,
    clock: Clock,
    request: Bytes,
    instruments: u64,
}

fn process(per_second: u32, instruments: u64) -> Process {
    let clock = Clock::start();
    let assessments = Arc::new(Assessments::new(1_000, 1_000, TTL));
    let per_second = NonZeroU32::new(per_second).unwrap();
    let ttl = Duration::from_secs(TTL.into());
    let (inference, _task) = Inference::start_asking(
        Arc::new(Jev),
        Pace {
            queue_size: NonZeroUsize::new(16).unwrap(),
            workers: NonZeroUsize::new(2).unwrap(),
            ttl,
        },
        Arc::new(Local::new(per_second, NonZeroU32::MIN, ttl)),
        Arc::new(StoredOutcomes::new(Arc::clone(&assessments), clock)),
        &mut Registry::default(),
        CancellationToken::new(),
    );
    let engine = Engine::new(EngineParts {
        keys: Keys::new([1, 2, 3, 4, 5, 6]),
        identity: IdentityMode::Complete,
        context: ContextAttributes::new([]),
        collector_id: "c".to_owned(),
        max_annotated_bytes: usize::MAX,
        assessments,
        questions: inference,
    });
    engine.set_policy(&LivePolicy::from_yaml("policy: {schema: 1, mode: Reduce}").unwrap());
    Process {
        engine,
        clock,
        request: request(instruments),
        instruments,
    }
}

fn points_of(number: u64) -> usize {
    usize::try_from(1 + number / 50).unwrap()
}

fn request(instruments: u64) -> Bytes {
    let metrics = (1..=instruments)
        .map(|number| Metric {
            name: number.to_string(),
            data: Some(Data::Gauge(Gauge {
                data_points: vec![NumberDataPoint::default(); points_of(number)],
            })),
            ..Metric::default()
        })
        .collect();
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            scope_metrics: vec![ScopeMetrics {
                metrics,
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    };
    request.encode_to_vec().into()
}

impl Process {
    /// Sends all instruments once a second; tells which were dropped.
    async fn run(&self, seconds: u32, mut look: impl FnMut(u32, &BTreeSet<u64>)) {
        for second in 0..seconds {
            let processed = self.engine.process(&self.request, self.clock.moment()).unwrap();
            let mut dropped: BTreeSet<u64> = (1..=self.instruments).collect();
            let kept = processed.output.unwrap_or_default();
            let kept = ExportMetricsServiceRequest::decode(kept).unwrap();
            let scopes = kept
                .resource_metrics
                .iter()
                .flat_map(|resource| &resource.scope_metrics);
            for metric in scopes.flat_map(|scope| &scope.metrics) {
                dropped.remove(&metric.name.parse().unwrap());
            }
            look(second, &dropped);
            tokio::time::sleep(SECOND).await;
        }
    }
}

/// *Guarantees*: what is dropped stays dropped without a gap, for the answer is renewed before it ends.
#[tokio::test(start_paused = true)]
async fn nothing_dropped_comes_back_in_ten_lifetimes() {
    let process = process(5, 200);
    let learnt = 45;
    process
        .run(learnt + 10 * TTL, |second, dropped| {
            if second >= learnt {
                assert_eq!(dropped.len(), 200, "second {second}");
            }
        })
        .await;
}

/// *Guarantees*: a budget for half of what is live is said, and spent on the largest.
#[tokio::test(start_paused = true)]
async fn with_a_budget_too_small_the_largest_stay_fresh() {
    let (per_second, instruments) = (1, 600);
    let refreshable = u64::from(per_second * TTL);
    let process = process(per_second, instruments);
    let largest = instruments - 200..=instruments;
    let mut most = 0;
    process
        .run(5 * TTL, |second, dropped| {
            if second >= 2 * TTL {
                let lost: Vec<_> = largest
                    .clone()
                    .filter(|number| !dropped.contains(number))
                    .collect();
                assert!(lost.is_empty(), "second {second}: {lost:?}");
                most = most.max(dropped.len() as u64);
            }
        })
        .await;
    assert!(most <= refreshable, "no more than the budget: {most}");
    let policy = process.engine.policy().unwrap().generation();
    let live = process.engine.assessments().live(policy, process.clock.seconds());
    assert_eq!(live, instruments);
    let now = tokio::time::Instant::now().into_std();
    let change = Sufficiency::default().read(live, refreshable, false, now);
    assert_eq!(change, Some(Change::TooSmall));
}
