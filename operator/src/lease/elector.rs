//! Takes the Lease, keeps it, gives it back.

use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::record::{Record, Watched};
use super::{Fence, RENEW_DEADLINE, RETRY};

/// Where the Lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePlace {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A try that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// It was changed since it was read.
    #[error("the Lease was changed in the meantime")]
    Conflict,
    /// The API server did not do it.
    #[error("failed to {0} the Lease: {1}")]
    Request(&'static str, #[source] kube::Error),
}

/// Takes the Lease, keeps it, gives it back.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    place: LeasePlace,
    identity: String,
    fence: Fence,
    leads: watch::Sender<bool>,
    watched: Watched,
}

impl Elector {
    /// For `identity`, which nobody else has. `client` must have a short deadline.
    pub fn new(client: Client, place: LeasePlace, identity: String, fence: Fence) -> Self {
        Self {
            api: Api::namespaced(client, &place.namespace),
            place,
            identity,
            fence,
            leads: watch::Sender::new(false),
            watched: Watched::default(),
        }
    }

    /// Whether this process leads, and its changes.
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Tries until `stop`, then closes the fence and gives the Lease back. `tried` hears of every try, and whether the API
    /// server has answered.
    ///
    /// # Guarantees
    /// When subscribers hear that this process does not lead, the fence is closed.
    pub async fn run(mut self, stop: CancellationToken, tried: impl Fn(bool)) {
        loop {
            let began = Instant::now();
            let attempt = self.attempt(began).await;
            tried(matches!(attempt, Ok(_) | Err(LeaseError::Conflict)));
            match attempt {
                Ok(true) => {
                    self.fence.renewed(began, RENEW_DEADLINE);
                    self.set_leading(true);
                }
                Ok(false) => {
                    // Somebody else holds it: whatever we thought is over.
                    self.fence.close();
                    self.set_leading(false);
                }
                Err(error) => {
                    tracing::warn!(%error, "no renewal");
                    if !self.fence.is_open(Instant::now()) {
                        self.set_leading(false);
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RETRY) => {}
                // A term must end in time, also while a renewal hangs or is tried again.
                () = self.term_ends() => self.set_leading(false),
            }
        }
        self.release().await;
    }

    async fn term_ends(&self) {
        match self.fence.open_until().filter(|_| *self.leads.borrow()) {
            Some(end) => tokio::time::sleep_until(end.into()).await,
            None => std::future::pending().await,
        }
    }

    fn set_leading(&self, leads: bool) {
        let changed = self
            .leads
            .send_if_modified(|known| std::mem::replace(known, leads) != leads);
        if changed {
            tracing::info!(leads, identity = self.identity, "leadership has changed");
        }
    }

    /// Whether the Lease is held after one try.
    async fn attempt(&mut self, now: Instant) -> Result<bool, LeaseError> {
        let found = self.api.get_opt(&self.place.name).await;
        let Some(mut lease) = found.map_err(|error| LeaseError::Request("read", error))? else {
            return self.create().await;
        };
        let record = Record::of(lease.spec.as_ref());
        if !self.watched.may_hold(&record, &self.identity, now) {
            return Ok(false);
        }
        lease.spec = Some(record.held_by(&self.identity, Timestamp::now()));
        // With the version that was read: who comes second gets a conflict.
        let written = self
            .api
            .replace(&self.place.name, &PostParams::default(), &lease)
            .await;
        taken(written, "renew")
    }

    async fn create(&self) -> Result<bool, LeaseError> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.place.name.clone()),
                namespace: Some(self.place.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(Record::default().held_by(&self.identity, Timestamp::now())),
        };
        taken(self.api.create(&PostParams::default(), &lease).await, "create")
    }

    async fn release(&self) {
        let leads = *self.leads.borrow();
        self.fence.close();
        self.set_leading(false);
        if !leads {
            return;
        }
        let Ok(Some(mut lease)) = self.api.get_opt(&self.place.name).await else {
            return;
        };
        let record = Record::of(lease.spec.as_ref());
        if record.holder.as_deref() != Some(&self.identity) {
            return;
        }
        lease.spec = Some(record.released(Timestamp::now()));
        match self
            .api
            .replace(&lease.name_any(), &PostParams::default(), &lease)
            .await
        {
            Ok(_) => tracing::info!("the Lease is given back"),
            Err(error) => tracing::warn!(%error, "the Lease is not given back: it runs out by itself"),
        }
    }
}

fn taken(written: Result<Lease, kube::Error>, what: &'static str) -> Result<bool, LeaseError> {
    match written {
        Ok(_) => Ok(true),
        // Somebody was faster, or has annotated it: the next try reads what is there now.
        Err(kube::Error::Api(status)) if status.code == 409 => Err(LeaseError::Conflict),
        Err(error) => Err(LeaseError::Request(what, error)),
    }
}
