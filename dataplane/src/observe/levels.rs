//! What is read every ten seconds, or when somebody looks: coverage, live instruments, the budget for them.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jevmetrics_api::member::BudgetState;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::coverage::{Coverage, INTERVAL_SECONDS};
use super::flow::Flow;
use super::sufficiency::{Change, Sufficiency};
use crate::clock::Clock;
use crate::retain::engine::Engine;

/// The levels of this process.
#[derive(Debug, Default)]
pub struct Levels {
    coverage: Mutex<Coverage>,
    sufficiency: Mutex<Sufficiency>,
}

impl Levels {
    /// Share of the data points of the last minute that had a fresh assessment; `None` without traffic.
    pub fn coverage(&self) -> Option<f64> {
        lock(&self.coverage).ratio()
    }

    /// Whether the budget suffices, as the heartbeat says it.
    pub fn budget(&self, now: Instant) -> BudgetState {
        lock(&self.sufficiency).state(now)
    }

    /// Reads again and again. `refreshable` tells how many instruments can be asked about in one lifetime of
    /// assessments, `is_full` whether more wait than have a place.
    pub(crate) async fn follow(
        self: Arc<Self>,
        flow: Flow,
        engine: Arc<Engine>,
        clock: Clock,
        refreshable: impl Fn() -> u64,
        is_full: impl Fn() -> bool,
    ) {
        let mut interval = tokio::time::interval(Duration::from_secs(INTERVAL_SECONDS));
        loop {
            let now = interval.tick().await.into_std();
            let (covered, received) = flow.covered();
            lock(&self.coverage).read(covered, received);
            let Some(policy) = engine.policy() else { continue };
            let live = engine.assessments().live(policy.generation(), clock.seconds());
            let refreshable = refreshable();
            let change = lock(&self.sufficiency).read(live, refreshable, is_full(), now);
            match change {
                Some(Change::TooSmall) => tracing::warn!(
                    live,
                    refreshable,
                    "BudgetTooSmall: more instruments are live, here or in the group, than can be asked about in one \
                     scoreTTLSeconds: those with few data points are kept without an assessment"
                ),
                Some(Change::Enough) => {
                    tracing::info!(live, refreshable, "the budget suffices again for what is live");
                }
                None => {}
            }
        }
    }

    /// Registers gauges; what is returned brings them up to date.
    pub(crate) fn register(
        self: Arc<Self>,
        registry: &mut Registry,
        engine: Arc<Engine>,
    ) -> Box<dyn Fn() + Send + Sync> {
        let [known, not_admitted, live, refreshable] = [
            ("jevmetrics_identities", "Instruments with a place in the table"),
            (
                "jevmetrics_identities_not_admitted",
                "How often an instrument found no place since the start",
            ),
            (
                "jevmetrics_identities_live",
                "Instruments seen within one scoreTTLSeconds that may be asked about",
            ),
            (
                "jevmetrics_identities_refreshable",
                "Instruments that the budget can ask about within one scoreTTLSeconds",
            ),
        ]
        .map(|(name, help)| {
            let gauge = Gauge::<i64>::default();
            registry.register(name, help, gauge.clone());
            gauge
        });
        let ratio = Gauge::<f64, AtomicU64>::default();
        registry.register(
            "jevmetrics_coverage_ratio",
            "Share of the data points of the last minute that had a fresh assessment",
            ratio.clone(),
        );
        Box::new(move || {
            let assessments = engine.assessments();
            known.set(i64::try_from(assessments.fill().0).unwrap_or(i64::MAX));
            not_admitted.set(signed(assessments.not_admitted()));
            let reading = lock(&self.sufficiency).reading();
            live.set(signed(reading.0));
            refreshable.set(signed(reading.1));
            // No traffic is no coverage of nothing: not a number.
            ratio.set(self.coverage().unwrap_or(f64::NAN));
        })
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn lock<T>(level: &Mutex<T>) -> MutexGuard<'_, T> {
    level.lock().unwrap_or_else(PoisonError::into_inner)
}
