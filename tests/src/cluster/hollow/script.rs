//! What a hollow pod does, decided when it is first seen.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// How a pod starts and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// How it starts, once all that it mounts is there.
    pub start: Start,
    /// How long its process goes on after its deletion was asked for.
    pub stop_after: Duration,
}

/// How a pod starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// It runs at once and is ready so much later.
    ReadyAfter(Duration),
    /// It never runs: its containers wait for this reason, such as `ImagePullBackOff` or `CrashLoopBackOff`.
    Waiting {
        /// Kubernetes' word for it.
        reason: String,
        /// What `kubectl describe` shows.
        message: String,
    },
}

impl Script {
    /// Ready at once.
    pub const READY: Self = Self::ready_after(Duration::ZERO);

    /// Running at once, ready later.
    pub const fn ready_after(delay: Duration) -> Self {
        Self {
            start: Start::ReadyAfter(delay),
            stop_after: Duration::ZERO,
        }
    }

    /// Running and not ready until a test says so.
    pub const fn unready() -> Self {
        Self::ready_after(Duration::MAX)
    }

    /// Never running.
    pub fn waiting(reason: &str, message: &str) -> Self {
        Self {
            start: Start::Waiting {
                reason: reason.to_owned(),
                message: message.to_owned(),
            },
            stop_after: Duration::ZERO,
        }
    }

    /// Its process goes on for so long after its deletion was asked for.
    #[must_use]
    pub fn stopping_after(self, delay: Duration) -> Self {
        Self {
            stop_after: delay,
            ..self
        }
    }
}

/// What runs in a pod; dropping it ends it.
pub type Process = Box<dyn Any + Send + Sync>;
type Write = Arc<dyn Fn(&Pod) -> Script + Send + Sync>;
type Run = Arc<dyn Fn(&Pod, Ipv4Addr) -> Process + Send + Sync>;

/// The scripts of each namespace.
#[derive(Default)]
pub(super) struct Scripts {
    written: Mutex<HashMap<String, Write>>,
    run: Mutex<HashMap<String, Run>>,
}

impl Scripts {
    pub(super) fn write(&self, namespace: &str, script: impl Fn(&Pod) -> Script + Send + Sync + 'static) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(namespace.to_owned(), Arc::new(script));
    }

    pub(super) fn run(
        &self,
        namespace: &str,
        run: impl Fn(&Pod, Ipv4Addr) -> Process + Send + Sync + 'static,
    ) {
        let mut all = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(namespace.to_owned(), Arc::new(run));
    }

    /// What `pod` does: ready at once if nobody said otherwise.
    pub(super) fn of(&self, pod: &Pod) -> Script {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let script = written.get(namespace(pod)).map(Arc::clone);
        // Not under the lock: it may take its time, or ask for another.
        drop(written);
        script.map_or(Script::READY, |script| script(pod))
    }

    /// Starts what runs in `pod`, if anything does.
    pub(super) fn start(&self, pod: &Pod, address: Ipv4Addr) -> Option<Process> {
        let all = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let run = all.get(namespace(pod)).map(Arc::clone);
        drop(all);
        run.map(|run| run(pod, address))
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scripts").finish_non_exhaustive()
    }
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}
