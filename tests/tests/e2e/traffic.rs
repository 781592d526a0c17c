//! Load on a policy's Service, judged point by point.

use std::time::Duration;

use jevmetrics_testkit::poll;
use jevmetrics_testkit::steady::{Comparison, Counts, Options, Steady};
use k8s_openapi::api::core::v1::Service;
use kube::Api;

use crate::site::{POLICY, Place, WITHIN};

/// Goes on for so long when what was to happen has happened: what it broke shows up.
const AFTERWARDS: Duration = Duration::from_secs(3);
const METRICS: usize = 20;
const SOURCES: usize = 3;

/// A load under way.
pub(crate) struct Load<'a> {
    place: &'a Place,
    steady: Steady,
    /// Attempts that failed before anything was taken: the node learns of a ready pod a moment after we do.
    too_early: u64,
}

impl<'a> Load<'a> {
    /// Begins a steady load, and waits until it flows.
    pub(crate) async fn start(place: &'a Place) -> Self {
        Self::with(place, |_| {}).await
    }

    /// The same from sources that were never seen.
    pub(crate) async fn of_others(place: &'a Place, name: &str) -> Self {
        Self::with(place, |options| name.clone_into(&mut options.name)).await
    }

    /// More than the pods can take.
    pub(crate) async fn as_much_as_goes(place: &'a Place) -> Self {
        Self::with(place, |options| {
            options.requests_per_second = 2_000.0;
            options.metrics = 400;
        })
        .await
    }

    async fn with(place: &'a Place, adjust: impl FnOnce(&mut Options)) -> Self {
        let services: Api<Service> = Api::namespaced(place.client.clone(), &place.namespace);
        let service = services.get(&format!("{POLICY}-otlp")).await.unwrap();
        let address = service.spec.unwrap().cluster_ip.unwrap();
        let mut options = Options {
            requests_per_second: 60.0,
            metrics: METRICS,
            sources: SOURCES,
            // So that every pod has some: a Service divides connections at random.
            connections: 12,
            ..Options::new(&format!("http://{address}:4317"))
        };
        adjust(&mut options);
        let mut load = Self {
            place,
            steady: Steady::start(options).unwrap(),
            too_early: 0,
        };
        let flows = async || (load.steady.counts().points_acknowledged > 0).then_some(());
        let waited = poll::until_some("a point that is taken", WITHIN, flows).await;
        if let Err(error) = waited {
            panic!(
                "{error}: {:?}\n{}",
                load.steady.counts().causes,
                place.seen().await
            );
        }
        load.too_early = load.steady.counts().causes.values().sum();
        load
    }

    /// How many instruments it has.
    #[allow(clippy::unused_self, reason = "of this load")]
    pub(crate) fn instruments(&self) -> u64 {
        (METRICS * SOURCES) as u64
    }

    /// Waits until Jev was asked about every instrument of it.
    pub(crate) async fn judged(&self) {
        let instruments = self.instruments();
        let asked = poll::until("a question about each instrument", WITHIN, || {
            self.place.jev.counters().received >= instruments
        });
        asked.await.unwrap();
    }

    /// Ends it: every point that was sent has arrived, and no export had to be given up. Prints what it took.
    pub(crate) async fn delivered(self, through: &str) {
        let counts = self.loses_nothing(through).await;
        assert_eq!((counts.failed_exports, counts.rejected), (0, 0), "{through}");
    }

    /// Ends it: every point that was said to be taken has arrived.
    pub(crate) async fn loses_nothing(self, through: &str) -> Counts {
        tokio::time::sleep(AFTERWARDS).await;
        let counts = self.steady.stop().await;
        let found = Comparison::new(&counts, &self.place.sink.ledger());
        println!(
            "{through}: {found}; {} exports, {} sent again {:?}, {} failed before the first was taken, {} given up; the last cause: {}",
            counts.requests,
            counts.retries,
            counts.causes,
            self.too_early,
            counts.failed_exports,
            counts.last_cause.as_deref().unwrap_or("none")
        );
        assert!(found.is_complete(), "{through}: {found}");
        assert!(found.acknowledged > 0, "{through}: nothing was sent");
        counts
    }
}
