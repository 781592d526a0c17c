//! What is followed while the process runs: each has a task that looks, and may have a problem to tell.

use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::observe::health::ProblemSource;
use crate::secret::WatchedSecret;
use crate::tls::Watched;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Collects what is to be followed.
pub(crate) struct Following {
    stop: CancellationToken,
    tasks: Vec<Task>,
    problems: Vec<ProblemSource>,
}

impl Following {
    /// Everything followed ends at `stop`.
    pub(crate) fn until(stop: CancellationToken) -> Self {
        Self {
            stop,
            tasks: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Follows a secret.
    pub(crate) fn secret(&mut self, secret: &Arc<WatchedSecret>) {
        let (followed, stop) = (Arc::clone(secret), self.stop.clone());
        self.tasks
            .push(Box::pin(async move { followed.follow(stop).await }));
        let shown = Arc::clone(secret);
        self.problems
            .push(Box::new(move || Some(format!("secret: {}", shown.problem()?))));
    }

    /// Follows TLS files.
    pub(crate) fn tls<T: Clone + Send + Sync + 'static>(&mut self, watched: &Arc<Watched<T>>) {
        let (followed, stop) = (Arc::clone(watched), self.stop.clone());
        self.tasks
            .push(Box::pin(async move { followed.follow(stop).await }));
        let shown = Arc::clone(watched);
        self.problems
            .push(Box::new(move || Some(format!("tls: {}", shown.problem()?))));
    }

    /// Follows TLS files of which another use of the same files tells what is to be told.
    pub(crate) fn same_tls<T: Clone + Send + Sync + 'static>(&mut self, watched: &Arc<Watched<T>>) {
        let (followed, stop) = (Arc::clone(watched), self.stop.clone());
        self.tasks
            .push(Box::pin(async move { followed.follow_untold(stop).await }));
    }

    /// Starts all tasks; what is left tells their problems.
    pub(crate) fn start(self, background: &mut JoinSet<()>) -> Vec<ProblemSource> {
        for task in self.tasks {
            background.spawn(task);
        }
        self.problems
    }
}
