//! Scenario: generated, oddly encoded and broken requests go through the engine and through a plain prost
//! implementation of the same rules.
//!
//! Guarantees: what prost accepts is accepted; what prost refuses in the parts that we read is refused;
//! identities, decisions and counts agree; survivors are the same and byte-identical; no panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod messages;
mod odd;
mod oracle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fastrand::Rng;
use jevmetrics_api::live::LivePolicy;
use jevmetrics_dataplane::infer::rank::Rank;
use jevmetrics_dataplane::infer::{Item, Want};
use jevmetrics_dataplane::retain::answers::{Action, Answers, Percent};
use jevmetrics_dataplane::retain::assessments::Assessments;
use jevmetrics_dataplane::retain::decide::{Decision, Reason};
use jevmetrics_dataplane::retain::engine::{Engine, EngineParts, Moment, Processed, Questions};
use jevmetrics_otlp::identity::{ContextAttributes, Identity, IdentityMode, identify};
use jevmetrics_otlp::{Keys, Walk};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;

use crate::messages::{RawRequest, Request};
use crate::oracle::{Judged, judge, keep_percent, retain};

const REQUESTS: u32 = 200_000;
/// Seconds for which assessments count.
const LIFETIME: u32 = 900;
const NOW: Moment = Moment {
    seconds: 10,
    unix_nanos: 1_000,
};
const KEEP: u8 = 70;
const DROP: u8 = 30;

#[derive(Default)]
struct Asked(Mutex<Vec<Item>>);

impl Questions for Asked {
    fn wants(&self, _rank: Rank) -> Want {
        Want::Summary
    }

    fn offer(&self, item: Item) -> Result<(), Item> {
        self.0.lock().unwrap().push(item);
        Ok(())
    }
}

struct Harness {
    keys: Keys,
    asked: Arc<Asked>,
    engine: Engine,
    /// Oracle identity -> ours, over the whole run: one to one.
    identities: HashMap<String, Identity>,
    owners: HashMap<Identity, String>,
    seen: Seen,
}

/// What the run covered: a generator that never makes the interesting things would prove nothing.
#[derive(Debug, Default)]
struct Seen {
    accepted: u64,
    refused: u64,
    strict_accepted: u64,
    kept: u64,
    dropped: u64,
    rewritten: u64,
    emptied: u64,
    invalid: u64,
}

impl Harness {
    fn new(mode: &str) -> Self {
        let keys = Keys::new([1, 2, 3, 4, 5, 6]);
        let asked = Arc::new(Asked::default());
        let engine = Engine::new(EngineParts {
            keys: keys.clone(),
            identity: IdentityMode::Complete,
            context: ContextAttributes::default(),
            collector_id: "collector".into(),
            max_annotated_bytes: usize::MAX,
            assessments: Arc::new(Assessments::new(1 << 20, 1 << 20, LIFETIME)),
            questions: asked.clone(),
        });
        let live = format!(
            "policy: {{schema: 1, mode: {mode}, retention: {{keepThresholdPercent: {KEEP}, \
             dropThresholdPercent: {DROP}, protectedMetrics: [b], protectedPrefixes: [http.server.]}}}}"
        );
        engine.set_policy(&LivePolicy::from_yaml(&live).unwrap());
        Self {
            keys,
            asked,
            engine,
            identities: HashMap::new(),
            owners: HashMap::new(),
            seen: Seen::default(),
        }
    }

    fn check(&mut self, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let lenient = Request::decode(bytes.clone());
        let is_strictly_valid = ExportMetricsServiceRequest::decode(bytes.clone()).is_ok();
        let first = self.engine.process(&bytes, NOW);
        if is_strictly_valid {
            self.seen.strict_accepted += 1;
            assert!(first.is_ok(), "what stock prost accepts is accepted: {first:?}");
        }
        let (request, first) = match (lenient, first) {
            (Ok(request), Ok(first)) => (request, first),
            (Err(_), Err(_)) => {
                self.seen.refused += 1;
                return;
            }
            (lenient, ours) => panic!("prost says {lenient:?}, we say {ours:?}"),
        };
        self.seen.accepted += 1;
        let judged = judge(&request);
        self.check_identities(&bytes, &judged);
        Self::check_first(&bytes, &first, &judged);
        self.answer();
        let second = self.engine.process(&bytes, NOW).unwrap();
        self.check_second(&bytes, request, &second, &judged);
    }

    fn check_identities(&mut self, bytes: &[u8], judged: &[Judged]) {
        let mut walk = Walk::default();
        walk.read(bytes, &self.keys).unwrap();
        assert_eq!(walk.metrics().len(), judged.len());
        for (index, (metric, judged)) in walk.metrics().iter().zip(judged).enumerate() {
            assert_eq!(metric.name(bytes), judged.name);
            assert_eq!(metric.points(), judged.points);
            let ours = identify(bytes, &walk, index, &IdentityMode::Complete).unwrap();
            assert_eq!(
                ours.ok().is_some(),
                judged.identity.is_some(),
                "{ours:?} but {judged:?}"
            );
            let (Ok(ours), Some(theirs)) = (ours, &judged.identity) else {
                self.seen.invalid += 1;
                continue;
            };
            assert_eq!(
                *self.identities.entry(theirs.clone()).or_insert(ours),
                ours,
                "{theirs}"
            );
            assert_eq!(self.owners.entry(ours).or_insert_with(|| theirs.clone()), theirs);
        }
    }

    /// The first time, what is unknown is kept. (Identities may have been answered by an earlier request.)
    fn check_first(bytes: &Bytes, first: &Processed, judged: &[Judged]) {
        assert_eq!(
            first.received_points,
            judged.iter().map(|metric| metric.points).sum::<u64>()
        );
        assert_eq!(first.received_points, first.kept_points + first.dropped_points);
        if first.dropped_metrics == 0 && first.companion_points == 0 {
            assert_eq!(first.output.as_ref(), Some(bytes), "nothing to do: byte for byte");
        }
    }

    fn answer(&self) {
        for item in self.asked.0.lock().unwrap().drain(..) {
            let summary = &item.summary;
            let keep = keep_percent(
                summary.name.as_bytes(),
                summary.description.as_bytes(),
                summary.unit.as_bytes(),
            );
            let percent = Percent::new(keep).unwrap();
            let answers = Answers {
                relevance: percent,
                redundancy: percent,
                keep: percent,
                action: Action::Reduce,
            };
            self.engine
                .assessments()
                .store(item.ticket, answers, "model-1", NOW.seconds + LIFETIME);
        }
    }

    fn check_second(&mut self, bytes: &Bytes, mut request: Request, second: &Processed, judged: &[Judged]) {
        let expected: Vec<(Decision, Reason)> = judged.iter().map(expected).collect();
        for ((decision, reason), metric) in expected.iter().zip(judged) {
            match decision {
                Decision::Keep => self.seen.kept += 1,
                Decision::Drop => self.seen.dropped += 1,
            }
            let count = second.tally.get(*decision, *reason);
            assert!(
                count.instruments > 0,
                "{metric:?} should be {decision:?} {reason:?}: {second:?}"
            );
        }
        for (decision, reason, count) in second.tally.iter() {
            let instruments = expected
                .iter()
                .filter(|outcome| **outcome == (decision, reason))
                .count();
            assert_eq!(count.instruments, instruments as u64, "{decision:?} {reason:?}");
        }
        let dropped = |index: usize| expected[index].0 == Decision::Drop;
        let raw = RawRequest::decode(bytes.clone()).unwrap();
        retain(&mut request, dropped);
        let Some(output) = &second.output else {
            self.seen.emptied += 1;
            assert!(
                request.resource_metrics.is_empty(),
                "all is gone only if nothing is left"
            );
            return;
        };
        if second.dropped_metrics == 0 {
            assert_eq!(output, bytes, "nothing to drop: byte for byte");
            return;
        }
        self.seen.rewritten += 1;
        assert_eq!(
            Request::decode(output.clone()).unwrap(),
            request,
            "the survivors are the oracle's"
        );
        let survivors: Vec<Vec<u8>> = metrics_of(raw)
            .into_iter()
            .enumerate()
            .filter_map(|(index, metric)| (!dropped(index)).then_some(metric))
            .collect();
        let ours = metrics_of(RawRequest::decode(output.clone()).unwrap());
        assert_eq!(ours, survivors, "kept metrics are byte-identical");
    }
}

fn expected(metric: &Judged) -> (Decision, Reason) {
    let name = &metric.name[..];
    if name == b"b" || name.starts_with(b"http.server.") {
        return (Decision::Keep, Reason::Protected);
    }
    if metric.identity.is_none() {
        return (Decision::Keep, Reason::InvalidIdentity);
    }
    match metric.keep_percent {
        KEEP.. => (Decision::Keep, Reason::CachedScore),
        ..=DROP => (Decision::Drop, Reason::CachedScore),
        _ => (Decision::Keep, Reason::Uncertain),
    }
}

fn metrics_of(request: RawRequest) -> Vec<Vec<u8>> {
    let resources = request.resource_metrics.into_iter();
    resources
        .flat_map(|resource| resource.scope_metrics)
        .flat_map(|scope| scope.metrics)
        .collect()
}

#[test]
fn the_engine_agrees_with_plain_prost_on_odd_and_broken_requests() {
    let seed = std::env::var("JEVMETRICS_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| Rng::new().u64(..));
    println!("seed {seed}: run again with JEVMETRICS_TEST_SEED={seed}");
    let mut harness = Harness::new("Reduce");
    let mut rng = Rng::with_seed(seed);
    for number in 0..REQUESTS {
        let mut bytes = odd::request(&mut rng);
        if number % 3 == 0 {
            odd::mutate(&mut rng, &mut bytes);
        }
        harness.check(bytes);
    }
    let seen = &harness.seen;
    println!(
        "{REQUESTS} requests: {seen:?}, {} identities",
        harness.identities.len()
    );
    let covered = [
        seen.refused,
        seen.dropped,
        seen.rewritten,
        seen.invalid,
        seen.strict_accepted,
    ];
    let covers_enough = covered.iter().all(|count| *count > 1_000) && seen.emptied > 100;
    assert!(covers_enough, "the generator covers too little: {seen:?}");
}
