//! The life of one hollow pod, as kubelet lives it.
//!
//! ```text
//! what it mounts is there ─▶ its process runs ─▶ ready ─▶ orders … deletion asked for ─▶ process ends ─▶ object goes
//! ```
//!
//! Invariants: the process runs before the pod is ready, and ends before its object goes; while the API server is
//! away, what has to be written is tried again.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::references::required;
use super::script::{Process, Script, Scripts, Start};
use super::status::{State, status};

/// Between two looks for what is missing; kubelet's is longer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Between two tries to reach the API server.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// What a test does to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It passes its readiness probe, or does not.
    Ready(bool),
    /// Its process ends and is started again.
    Restart,
    /// Its process ends for good.
    Fail,
}

/// An action, and who waits until it is written.
pub(super) type Order = (Action, oneshot::Sender<()>);

/// One pod on a hollow node.
pub(super) struct Life {
    pub(super) client: Client,
    pub(super) pod: Pod,
    pub(super) address: Ipv4Addr,
    pub(super) script: Script,
    pub(super) scripts: Arc<Scripts>,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) ending: CancellationToken,
    pub(super) runs: bool,
    pub(super) process: Option<Process>,
    pub(super) restarts: u32,
}

impl Life {
    /// Lives until the pod's object is gone.
    pub(super) async fn live(mut self) {
        let ending = self.ending.clone();
        tokio::select! {
            () = self.run() => {}
            () = ending.cancelled() => {}
        }
        if self.runs {
            tokio::time::sleep(self.script.stop_after).await;
        }
        self.stop_process();
        self.delete().await;
    }

    /// Starts it and obeys; does not end.
    async fn run(&mut self) {
        self.wait_for_references().await;
        match self.script.start.clone() {
            Start::ReadyAfter(delay) => self.start(delay).await,
            Start::Waiting { reason, message } => self.write(&State::Waiting { reason, message }).await,
        }
        while let Some((action, done)) = self.orders.recv().await {
            self.obey(action).await;
            // Whoever asked may have gone.
            let _ = done.send(());
        }
        std::future::pending::<()>().await;
    }

    async fn wait_for_references(&self) {
        let mut told = None;
        for reference in required(&self.pod) {
            loop {
                match reference.missing(&self.client, self.namespace()).await {
                    Ok(None) => break,
                    Ok(Some(missing)) if told.as_ref() != Some(&missing) => {
                        self.write(&State::Waiting {
                            reason: missing.reason.to_owned(),
                            message: missing.message.clone(),
                        })
                        .await;
                        told = Some(missing);
                    }
                    Ok(Some(_)) => {}
                    Err(error) => tracing::debug!(%error, "cannot look for what a hollow pod needs"),
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    async fn start(&mut self, delay: Duration) {
        let since = Timestamp::now();
        self.start_process();
        if delay.is_zero() {
            self.write(&State::Running { ready: true, since }).await;
            return;
        }
        self.write(&State::Running { ready: false, since }).await;
        if delay == Duration::MAX {
            return;
        }
        // An order that comes meanwhile counts after it.
        tokio::time::sleep(delay).await;
        self.write(&State::Running { ready: true, since }).await;
    }

    async fn obey(&mut self, action: Action) {
        let since = Timestamp::now();
        match action {
            Action::Ready(ready) => {
                if !self.runs {
                    self.start_process();
                }
                self.write(&State::Running { ready, since }).await;
            }
            Action::Restart => {
                self.stop_process();
                self.restarts += 1;
                self.write(&State::Running { ready: false, since }).await;
                self.start_process();
                self.write(&State::Running { ready: true, since }).await;
            }
            Action::Fail => {
                self.stop_process();
                self.write(&State::Failed { since }).await;
            }
        }
    }

    fn start_process(&mut self) {
        self.process = self.scripts.start(&self.pod, self.address);
        self.runs = true;
    }

    fn stop_process(&mut self) {
        self.process = None;
        self.runs = false;
    }

    /// Writes the pod's status.
    async fn write(&self, state: &State) {
        let patch = status(&self.pod, self.address, self.restarts, state, Timestamp::now());
        let patch = Patch::Strategic(patch);
        let params = PatchParams::default();
        let pods = self.pods();
        while !is_settled(pods.patch_status(self.name(), &params, &patch).await) {
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// Deletes the object for good, if it is still this pod's.
    async fn delete(&self) {
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions {
                uid: self.pod.metadata.uid.clone(),
                resource_version: None,
            });
        let pods = self.pods();
        while !is_settled(pods.delete(self.name(), &params).await) {
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Whether the API server has taken it, or has said that it never will.
fn is_settled<T>(answer: Result<T, kube::Error>) -> bool {
    match answer {
        Ok(_) => true,
        // It went, or another one has its name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => true,
        Err(kube::Error::Api(status)) if (400..429).contains(&status.code) => {
            tracing::warn!(message = status.message, "a hollow pod's status was refused");
            true
        }
        Err(error) => {
            tracing::debug!(%error, "the API server does not answer a hollow pod");
            false
        }
    }
}
