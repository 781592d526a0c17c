//! Scenario: an engine that knows all instruments gets a request of ten metrics and one of a thousand.
//!
//! Guarantee: both cost the same few allocations, those of the output; a request that is passed on as it came,
//! or that is dropped as a whole, costs none.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use allocation_counter::measure;
use bytes::Bytes;
use jevmetrics_api::live::LivePolicy;
use jevmetrics_dataplane::infer::rank::Rank;
use jevmetrics_dataplane::infer::{Item, Want};
use jevmetrics_dataplane::retain::answers::{Action, Answers, Percent};
use jevmetrics_dataplane::retain::assessments::Assessments;
use jevmetrics_dataplane::retain::engine::{Engine, EngineParts, Moment, Processed, Questions};
use jevmetrics_otlp::Keys;
use jevmetrics_otlp::identity::{ContextAttributes, IdentityMode};
use jevmetrics_testkit::source::{Generator, Shape};

/// Seconds for which assessments count.
const LIFETIME: u32 = 900;
const NOW: Moment = Moment {
    seconds: 10,
    unix_nanos: 1_000,
};
const FEW: usize = 10;
const MANY: usize = 1_000;

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

/// Allocations of a warm request of `metrics` metrics, and what became of it.
fn warm_request(mode: &str, metrics: usize, dropped_percent: usize) -> (u64, Processed) {
    let shape = Shape {
        metrics,
        points: 2,
        resources: 2,
        scopes: 2,
        droppable_percent: dropped_percent,
    };
    let mut generator = Generator::new(shape, 1);
    let droppable = generator.droppable_names();
    let request = generator.next_bytes();
    let asked = Arc::new(Asked::default());
    let engine = Engine::new(EngineParts {
        keys: Keys::new([1, 2, 3, 4, 5, 6]),
        identity: IdentityMode::Complete,
        context: ContextAttributes::default(),
        collector_id: "collector".into(),
        max_annotated_bytes: usize::MAX,
        assessments: Arc::new(Assessments::new(MANY, MANY, LIFETIME)),
        questions: asked.clone(),
    });
    let policy = format!("policy: {{schema: 1, mode: {mode}, retention: {{}}}}");
    engine.set_policy(&LivePolicy::from_yaml(&policy).unwrap());

    engine.process(&request, NOW).unwrap();
    for item in asked.0.lock().unwrap().drain(..) {
        let keep = if droppable.contains(&item.summary.name) {
            5
        } else {
            95
        };
        let answers = Answers {
            relevance: Percent::new(50).unwrap(),
            redundancy: Percent::new(50).unwrap(),
            keep: Percent::new(keep).unwrap(),
            action: Action::Reduce,
        };
        engine
            .assessments()
            .store(item.ticket, answers, "model-1", NOW.seconds + LIFETIME);
    }
    // The second request brings the memory that is used again to its size.
    let before = engine.process(&request, NOW).unwrap();
    assert_eq!(before.cache_hits, metrics as u64);

    let mut processed = None;
    let allocations = measure(|| processed = engine.process(&request, NOW).ok());
    let processed = processed.unwrap();
    assert_eq!(processed, before);
    (allocations.count_total, processed)
}

#[test]
fn the_counter_counts() {
    assert_eq!(measure(|| drop(Bytes::from(vec![0; 100]))).count_total, 1);
}

#[test]
fn reduce_with_half_dropped_allocates_the_output_alone() {
    let (few, _) = warm_request("Reduce", FEW, 50);
    let (many, processed) = warm_request("Reduce", MANY, 50);
    assert_eq!(processed.dropped_metrics, MANY as u64 / 2);
    assert_eq!((few, many), (1, 1));
}

#[test]
fn reduce_with_nothing_or_everything_dropped_allocates_nothing() {
    for dropped_percent in [0, 100] {
        let (few, _) = warm_request("Reduce", FEW, dropped_percent);
        let (many, processed) = warm_request("Reduce", MANY, dropped_percent);
        assert_eq!(processed.output.is_some(), dropped_percent == 0);
        assert_eq!((few, many), (0, 0), "{dropped_percent} % dropped");
    }
}

#[test]
fn annotate_allocates_the_output_and_one_list_of_companions() {
    let (few, _) = warm_request("Annotate", FEW, 50);
    let (many, processed) = warm_request("Annotate", MANY, 50);
    assert_eq!(processed.annotated_metrics, MANY as u64);
    assert_eq!((few, many), (2, 2));
}
