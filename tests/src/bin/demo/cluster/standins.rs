//! What is around the data plane, as pods: their manifests, and what they count.

use std::time::Duration;

use jevmetrics_testkit::poll;
use jevmetrics_testkit::sink::Ledger;
use jevmetrics_testkit::steady::{Comparison, Counts};
use serde::de::DeserializeOwned;

use super::person::Person;
use super::{NAMESPACE, PATIENCE};
use crate::Failure;

const AROUND: &str = include_str!("standins.yaml");
const SENDER: &str = include_str!("sender.yaml");

/// The mock of Jev and the backend.
pub(crate) fn around() -> String {
    versioned(AROUND)
}

/// The applications.
pub(crate) fn sender() -> String {
    versioned(SENDER)
}

fn versioned(manifests: &str) -> String {
    manifests.replace("VERSION", env!("CARGO_PKG_VERSION"))
}

/// Their control pages.
pub(crate) struct StandIns {
    sender: String,
    backend: String,
    client: reqwest::Client,
}

impl StandIns {
    /// Waits for the pods and finds their pages.
    pub(crate) async fn find(person: &Person<'_>) -> Result<Self, Failure> {
        person
            .quietly(&format!("rollout status deployment -n {NAMESPACE} --timeout=2m"))
            .await?;
        let service = async |name: &str, port: u16| -> Result<String, Failure> {
            let address = person
                .quietly(&format!(
                    "get service {name} -n {NAMESPACE} -o jsonpath={{.spec.clusterIP}}"
                ))
                .await?;
            Ok(format!("http://{address}:{port}"))
        };
        Ok(Self {
            sender: service("shop", 8082).await?,
            backend: service("otel-collector", 8081).await?,
            client: reqwest::Client::builder()
                .timeout(Duration::from_secs(10))
                .build()?,
        })
    }

    /// Waits until so many points have been taken.
    pub(crate) async fn delivered(&self, points: u64) -> Result<Counts, Failure> {
        let enough = async || match self.counts().await {
            Ok(counts) if counts.points_acknowledged >= points => Ok(counts),
            Ok(counts) => Err(format!("{} points", counts.points_acknowledged)),
            Err(error) => Err(error.to_string()),
        };
        Ok(poll::eventually("points taken", PATIENCE, enough).await?)
    }

    /// Stops the sender and holds its word against the backend's.
    pub(crate) async fn finish(&self) -> Result<(Counts, Comparison), Failure> {
        let stop = self
            .client
            .post(format!("{}/stop", self.sender))
            .timeout(PATIENCE);
        stop.send().await?.error_for_status()?;
        let counts = self.counts().await?;
        let ledger: Ledger = self.get(&format!("{}/ledger", self.backend)).await?;
        let comparison = Comparison::new(&counts, &ledger);
        Ok((counts, comparison))
    }

    async fn counts(&self) -> Result<Counts, Failure> {
        self.get(&format!("{}/counts", self.sender)).await
    }

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, Failure> {
        Ok(self
            .client
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?)
    }
}
