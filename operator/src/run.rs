//! The life of the operator.
//!
//! ```text
//! follower ──▶ leader: watches, reconciles, polls ──▶ follower ...
//! SIGTERM: finish what is at hand -> give the Lease back -> exit
//! ```
//! A second signal ends the process at once. The end of a task without which the rest is useless ends it too.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kube::Config;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args;
use crate::client::{CALL_DEADLINE, LEASE_DEADLINE, guarded};
use crate::context::Memories;
use crate::controller::Term;
use crate::events::Events;
use crate::heartbeat::Heartbeat;
use crate::lease::{Elector, Fence, LeasePlace, RETRY};
use crate::metrics::Metrics;
use crate::pages::{Pages, routes};
use crate::render::Defaults;

/// Reconciles at hand may take so long to end.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// Why the operator does not run any more.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing says where the cluster is.
    #[error("failed to find out where the cluster is: {0}")]
    Config(#[from] Box<kube::config::InferConfigError>),
    /// What was found cannot be used.
    #[error("failed to make a client: {0}")]
    Client(#[from] Box<kube::Error>),
    /// The pages cannot be served.
    #[error("--listen {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Signals cannot be heard.
    #[error("failed to listen for signals: {0}")]
    Signals(#[source] io::Error),
    /// Nobody renews the Lease any more.
    #[error("the task that renews the Lease has ended")]
    ElectorEnded,
    /// The pages are not served any more.
    #[error("the task that serves pages has ended")]
    PagesEnded,
    /// A second signal.
    #[error("stopped by a second signal")]
    Aborted,
}

/// Runs until a signal.
///
/// # Errors
/// Any [`RunError`].
pub async fn run(arguments: args::Run) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let config = Config::infer().await.map_err(Box::new)?;
    let identity = unique(&arguments.identity.clone().unwrap_or_else(hostname));
    let place = LeasePlace {
        namespace: arguments
            .lease_namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone()),
        name: arguments.lease_name.clone(),
    };
    let (fence, metrics) = (Fence::default(), Metrics::default());
    let fenced = Some(fence.clone());
    let client = guarded(config.clone(), CALL_DEADLINE, fenced, metrics.clone()).map_err(Box::new)?;
    let lease_client = guarded(config, LEASE_DEADLINE, None, metrics.clone()).map_err(Box::new)?;

    let tries = Heartbeat::new(Instant::now());
    let is_ready = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.map_err(|error| RunError::Listen(arguments.listen, error))?;
    let address = listener
        .local_addr()
        .map_err(|error| RunError::Listen(arguments.listen, error))?;
    let pages = routes(Pages {
        metrics: metrics.clone(),
        fence: fence.clone(),
        tries: tries.clone(),
        is_ready: Arc::clone(&is_ready),
    });
    let mut pages = tokio::spawn(async move { axum::serve(listener, pages).await });
    tracing::info!(%address, identity, lease = %place.name, namespace = ?arguments.namespace, "started");

    let term = Term {
        client: client.clone(),
        namespace: arguments.namespace,
        defaults: Defaults {
            image: arguments.dataplane_image,
        },
        memories: Memories::default(),
        events: Events::new(client, identity.clone()),
        metrics: metrics.clone(),
    };
    let elector = Elector::new(lease_client, place, identity, fence);
    let leads = elector.subscribe();
    let (stop, stop_elector) = (CancellationToken::new(), CancellationToken::new());
    let ready = Arc::clone(&is_ready);
    let mut elector = tokio::spawn(elector.run(stop_elector.clone(), move |is_answered| {
        tries.beat(Instant::now());
        if is_answered {
            ready.store(true, Ordering::Relaxed);
        }
    }));
    let mut terms = tokio::spawn(terms(term, leads, stop.clone()));

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = &mut elector => return Err(RunError::ElectorEnded),
        _ = &mut pages => return Err(RunError::PagesEnded),
        _ = &mut terms => return Err(RunError::ElectorEnded),
    }
    tracing::info!("stopping: what is at hand is finished");
    is_ready.store(false, Ordering::Relaxed);
    stop.cancel();
    let stopped = async {
        // The Lease goes last: until then nobody else writes.
        let _ = tokio::time::timeout(STOP_WITHIN, terms).await;
        stop_elector.cancel();
        let _ = elector.await;
    };
    tokio::select! {
        () = stopped => Ok(()),
        _ = terminate.recv() => Err(RunError::Aborted),
        _ = interrupt.recv() => Err(RunError::Aborted),
    }
}

/// Leads whenever it may, until `stop`.
async fn terms(term: Term, mut leads: watch::Receiver<bool>, stop: CancellationToken) {
    loop {
        tokio::select! {
            // First: a process that stops leads on until its term has ended, which is no reason to begin another.
            biased;
            () = stop.cancelled() => return,
            begun = leads.wait_for(|leads| *leads) => if begun.is_err() { return },
        }
        term.metrics.set_leading(true);
        tracing::info!("leading");
        let end = stop.child_token();
        let mut running = tokio::spawn(term.clone().run(end.clone()));
        let ended = tokio::select! {
            _ = leads.wait_for(|leads| !*leads) => None,
            () = stop.cancelled() => None,
            ended = &mut running => Some(ended),
        };
        end.cancel();
        match ended {
            // A term ends by itself only if it panics.
            Some(ended) => {
                tracing::error!(?ended, "the work of a leader has ended early and is begun anew");
                tokio::time::sleep(RETRY).await;
            }
            None if tokio::time::timeout(STOP_WITHIN, &mut running).await.is_err() => running.abort(),
            None => {}
        }
        term.metrics.set_leading(false);
        tracing::info!("not leading any more");
    }
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let name = if name.is_empty() { "operator" } else { name };
    name.to_owned()
}

/// Two replicas of one name must not both think that they hold the Lease.
fn unique(name: &str) -> String {
    format!("{name}-{:08x}", fastrand::u32(..))
}
