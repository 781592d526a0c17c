//! An engine whose questions a test answers by hand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use jevmetrics_api::live::LivePolicy;
use jevmetrics_dataplane::infer::rank::Rank;
use jevmetrics_dataplane::infer::{Enquiry, Item, Want};
use jevmetrics_dataplane::retain::answers::{Action, Answers, Percent};
use jevmetrics_dataplane::retain::assessments::Assessments;
use jevmetrics_dataplane::retain::engine::{Engine, EngineParts, Moment, Processed, Questions};
use jevmetrics_otlp::Keys;
use jevmetrics_otlp::identity::{ContextAttributes, IdentityMode};

pub(crate) const LIFETIME: u32 = 900;
pub(crate) const COLLECTOR: &str = "collector-1";
pub(crate) const NANOS: u64 = 1_700_000_000_000_000_000;

/// Everything that was offered and not yet answered.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) items: Mutex<Vec<Item>>,
    pub(crate) enquiries: Mutex<Vec<Enquiry>>,
    pub(crate) is_closed: AtomicBool,
    pub(crate) only_looks_up: AtomicBool,
    pub(crate) refuses_offers: AtomicBool,
    pub(crate) rejected: AtomicU64,
}

impl Questions for Asked {
    fn wants(&self, _rank: Rank) -> Want {
        if self.is_closed.load(Ordering::Relaxed) {
            Want::Nothing
        } else if self.only_looks_up.load(Ordering::Relaxed) {
            Want::Identity
        } else {
            Want::Summary
        }
    }

    fn offer(&self, item: Item) -> Result<(), Item> {
        if self.refuses_offers.load(Ordering::Relaxed) {
            return Err(item);
        }
        self.items.lock().unwrap().push(item);
        Ok(())
    }

    fn look_up(&self, enquiry: Enquiry) -> bool {
        self.enquiries.lock().unwrap().push(enquiry);
        true
    }

    fn count_rejected(&self, instruments: u64) {
        self.rejected.fetch_add(instruments, Ordering::Relaxed);
    }
}

pub(crate) struct Setup {
    pub(crate) engine: Engine,
    pub(crate) asked: Arc<Asked>,
    pub(crate) keys: Keys,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::with(IdentityMode::Complete, Assessments::new(1_000, 2_000, LIFETIME))
    }

    pub(crate) fn with(identity: IdentityMode, assessments: Assessments) -> Self {
        Self::with_room(identity, assessments, usize::MAX)
    }

    /// Companions may make a request as large as `max_annotated_bytes`.
    pub(crate) fn with_room(
        identity: IdentityMode,
        assessments: Assessments,
        max_annotated_bytes: usize,
    ) -> Self {
        let keys = Keys::new([1, 2, 3, 4, 5, 6]);
        let asked = Arc::new(Asked::default());
        let engine = Engine::new(EngineParts {
            keys: keys.clone(),
            identity,
            context: context(),
            collector_id: COLLECTOR.into(),
            max_annotated_bytes,
            assessments: Arc::new(assessments),
            questions: Arc::clone(&asked) as Arc<dyn Questions>,
        });
        Self { engine, asked, keys }
    }

    /// With a policy of 70 and 30 percent.
    pub(crate) fn in_mode(mode: &str) -> Self {
        let setup = Self::new();
        setup.set_policy(mode, 70, 30, "");
        setup
    }

    /// `protection`: further fields of `retention`.
    pub(crate) fn set_policy(&self, mode: &str, keep: u8, drop: u8, protection: &str) {
        let retention = format!("keepThresholdPercent: {keep}, dropThresholdPercent: {drop}{protection}");
        let yaml = format!("policy: {{schema: 1, mode: {mode}, retention: {{{retention}}}}}");
        self.engine.set_policy(&LivePolicy::from_yaml(&yaml).unwrap());
    }

    pub(crate) fn at(&self, seconds: u32, request: &Bytes) -> Processed {
        let moment = Moment {
            seconds,
            unix_nanos: NANOS,
        };
        self.engine.process(request, moment).unwrap()
    }

    /// Names of the instruments asked about since the last answer.
    pub(crate) fn pending(&self) -> Vec<String> {
        let items = self.asked.items.lock().unwrap();
        items.iter().map(|item| item.summary.name.clone()).collect()
    }

    /// Answers everything pending in second 0, by name; without a percentage it is a refusal.
    pub(crate) fn answer(&self, keep: impl Fn(&str) -> Option<u8>) {
        for item in self.asked.items.lock().unwrap().drain(..) {
            match keep(&item.summary.name) {
                Some(keep) => self
                    .engine
                    .assessments()
                    .store(item.ticket, answers(keep), "jev-1", LIFETIME),
                None => self.engine.assessments().store_refusal(item.ticket, LIFETIME),
            }
        }
    }

    /// Makes all instruments of a request known.
    pub(crate) fn teach(&self, request: &Bytes, keep: impl Fn(&str) -> Option<u8>) {
        self.at(0, request);
        self.answer(keep);
    }
}

/// Allow-listed resource attributes.
pub(crate) fn context() -> ContextAttributes {
    ContextAttributes::new(["service.name".to_owned()])
}

pub(crate) fn answers(keep: u8) -> Answers {
    let percent = |value| Percent::new(value).unwrap();
    Answers {
        relevance: percent(25),
        redundancy: percent(50),
        keep: percent(keep),
        action: Action::Reduce,
    }
}

/// "k42" is worth 42 percent to the test's model; other names it refuses.
pub(crate) fn by_name(name: &str) -> Option<u8> {
    name.strip_prefix('k').and_then(|percent| percent.parse().ok())
}
