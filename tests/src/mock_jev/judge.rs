//! What the mock thinks of a metric: a pure function of its name, which a test can override.
//!
//! The default opinion: a name containing `debug`, `noise` or `tmp` is to be dropped (keep 0.05..=0.20);
//! one containing `doubt` is uncertain (keep 0.40..=0.60, reduce); any other is to be kept (0.80..=0.95).
//! Within these ranges a hash of the name decides, so equal names get equal answers in every process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// A name with one of these is dropped under the default opinion and default thresholds.
pub const DROP_MARKERS: [&str; 3] = ["debug", "noise", "tmp"];
/// A name with this is uncertain under the default opinion.
pub const DOUBT_MARKER: &str = "doubt";

/// What to recommend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Store as it is.
    Keep,
    /// Store less of it.
    Reduce,
    /// Discard it.
    Drop,
}

impl Action {
    /// The option's name in the question.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reduce => "reduce",
            Self::Drop => "drop",
        }
    }
}

/// The answers to the data plane's four questions. Probabilities are rounded to two decimals when sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opinion {
    /// Probability of durable value.
    pub relevance: f64,
    /// Probability of being redundant.
    pub redundancy: f64,
    /// Probability that it should stay.
    pub keep: f64,
    /// Recommended action.
    pub action: Action,
}

impl Opinion {
    /// An opinion that agrees with itself, from the probability of keeping.
    pub fn with_keep(keep: f64) -> Self {
        let action = match keep {
            keep if keep >= 0.7 => Action::Keep,
            keep if keep <= 0.3 => Action::Drop,
            _ => Action::Reduce,
        };
        Self {
            relevance: keep,
            redundancy: 1.0 - keep,
            keep,
            action,
        }
    }

    /// The default opinion of `name`.
    pub fn of(name: &str) -> Self {
        let name = name.to_lowercase();
        // 0..=15 hundredths within the range of its kind.
        let hash = hash(&[&name]);
        let spread = f64::from(u8::try_from(hash % 16).unwrap_or(0)) / 100.0;
        if DROP_MARKERS.iter().any(|marker| name.contains(marker)) {
            let keep = 0.05 + spread;
            Self {
                relevance: keep + 0.02,
                redundancy: 0.95 - spread,
                keep,
                action: Action::Drop,
            }
        } else if name.contains(DOUBT_MARKER) {
            let keep = 0.42 + spread;
            Self {
                relevance: keep,
                redundancy: 0.5,
                keep,
                action: Action::Reduce,
            }
        } else {
            let keep = 0.80 + spread;
            Self {
                relevance: keep - 0.03,
                redundancy: 0.20 - spread / 2.0,
                keep,
                action: Action::Keep,
            }
        }
    }
}

/// FNV-1a over the parts: stable between processes and versions of Rust.
pub(super) fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

type Closure = dyn Fn(&str, &Value) -> Option<Opinion> + Send + Sync;

/// Opinions: by name, then by closure, then the default.
#[derive(Default)]
pub struct Judge {
    by_name: Mutex<BTreeMap<String, Opinion>>,
    closure: Mutex<Option<Arc<Closure>>>,
}

impl Judge {
    /// From now on thinks `opinion` of the metric `name`.
    pub fn set(&self, name: &str, opinion: Opinion) {
        self.by_name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), opinion);
    }

    /// From now on asks `closure` with the metric's name and the whole state; `None` leaves the default.
    pub fn set_closure(&self, closure: impl Fn(&str, &Value) -> Option<Opinion> + Send + Sync + 'static) {
        *self.closure.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(closure));
    }

    /// Back to the default opinion of everything.
    pub fn reset(&self) {
        self.by_name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        *self.closure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What it thinks of `name`.
    pub fn opinion(&self, name: &str, state: &Value) -> Opinion {
        let set = self
            .by_name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .copied();
        set.or_else(|| {
            let closure = self
                .closure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            closure.and_then(|closure| closure(name, state))
        })
        .unwrap_or_else(|| Opinion::of(name))
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge")
            .field("by_name", &self.by_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Judge, Opinion};
    use serde_json::Value;

    #[test]
    fn the_default_opinion_follows_the_markers() {
        for (name, lowest, highest, action) in [
            ("app.debug.queue", 0.05, 0.20, Action::Drop),
            ("TMP_files", 0.05, 0.20, Action::Drop),
            ("white.noise", 0.05, 0.20, Action::Drop),
            ("app.doubt.queue", 0.40, 0.60, Action::Reduce),
            ("http.server.request.duration", 0.80, 0.951, Action::Keep),
        ] {
            let opinion = Opinion::of(name);
            assert!((lowest..=highest).contains(&opinion.keep), "{name}: {opinion:?}");
            assert_eq!(opinion.action, action, "{name}");
            assert_eq!(opinion, Opinion::of(name));
        }
    }

    #[test]
    fn a_name_overrides_the_closure_which_overrides_the_default() {
        let judge = Judge::default();
        judge.set_closure(|name, _| (name != "c").then(|| Opinion::with_keep(0.5)));
        judge.set("a", Opinion::with_keep(0.1));
        let keep = |name| judge.opinion(name, &Value::Null).keep.to_string();
        assert_eq!([keep("a"), keep("b")], ["0.1", "0.5"]);
        assert_eq!(judge.opinion("c", &Value::Null), Opinion::of("c"));
    }
}
