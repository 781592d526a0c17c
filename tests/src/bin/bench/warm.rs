//! An engine that knows every instrument that it meets.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jevmetrics_api::live::LivePolicy;
use jevmetrics_dataplane::infer::rank::Rank;
use jevmetrics_dataplane::infer::{Item, Want};
use jevmetrics_dataplane::retain::answers::{Action, Answers, Percent};
use jevmetrics_dataplane::retain::assessments::Assessments;
use jevmetrics_dataplane::retain::engine::{Engine, EngineParts, Moment, Processed, Questions};
use jevmetrics_otlp::Keys;
use jevmetrics_otlp::identity::{ContextAttributes, IdentityMode};

use crate::error::BenchError;

/// The one moment in which everything happens: no assessment expires.
pub(crate) const NOW: Moment = Moment {
    seconds: 10,
    unix_nanos: 1_790_000_000_000_000_000,
};
const LIFETIME: u32 = 900;
const MODEL: &str = "jev-bench";

/// Fixed, so that two runs execute the same instructions.
pub(crate) fn keys() -> Keys {
    Keys::new([0x51, 0x52, 0x53, 0x54, 0x55, 0x56].map(|seed: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The engine, and the questions that it raised.
pub(crate) struct Warm {
    engine: Engine,
    asked: Arc<Asked>,
}

#[derive(Default)]
struct Asked(Mutex<Vec<Item>>);

impl Questions for Asked {
    fn wants(&self, _rank: Rank) -> Want {
        Want::Summary
    }

    fn offer(&self, item: Item) -> Result<(), Item> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        Ok(())
    }
}

impl Warm {
    /// An empty engine with room for `identities`, in Reduce, with `names` and `prefixes` protected.
    pub(crate) fn new(identities: usize, names: &[String], prefixes: &[String]) -> Result<Self, BenchError> {
        let asked = Arc::new(Asked::default());
        let engine = Engine::new(EngineParts {
            keys: keys(),
            identity: IdentityMode::Complete,
            context: ContextAttributes::default(),
            collector_id: "bench".to_owned(),
            max_annotated_bytes: usize::MAX,
            assessments: Arc::new(Assessments::new(identities, identities, LIFETIME)),
            questions: asked.clone(),
        });
        let policy = format!(
            "policy: {{schema: 1, mode: Reduce, retention: {{protectedMetrics: [{}], protectedPrefixes: [{}]}}}}",
            names.join(", "),
            prefixes.join(", ")
        );
        engine.set_policy(&LivePolicy::from_yaml(&policy)?);
        Ok(Self { engine, asked })
    }

    /// Meets the instruments of a request and learns the answers: drop what is in `droppable`.
    pub(crate) fn learn(&self, request: &Bytes, droppable: &HashSet<String>) -> Result<(), BenchError> {
        self.engine.process(request, NOW)?;
        let mut asked = self.asked.0.lock().unwrap_or_else(PoisonError::into_inner);
        for item in asked.drain(..) {
            let keep = if droppable.contains(&item.summary.name) {
                5
            } else {
                95
            };
            if let (Some(keep), Some(other)) = (Percent::new(keep), Percent::new(50)) {
                let answers = Answers {
                    relevance: other,
                    redundancy: other,
                    keep,
                    action: Action::Reduce,
                };
                self.engine
                    .assessments()
                    .store(item.ticket, answers, MODEL, NOW.seconds + LIFETIME);
            }
        }
        Ok(())
    }

    /// What is measured.
    #[inline]
    pub(crate) fn process(&self, request: &Bytes) -> Result<Processed, BenchError> {
        Ok(self.engine.process(request, NOW)?)
    }
}
