//! Something made of TLS files that follows them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use super::{Material, TlsError, TlsFiles, TlsProblem};
use crate::follow::{Follower, POLL};

type Make<T> = dyn Fn(&Material) -> Result<T, TlsProblem> + Send + Sync;
type Reading = Result<Arc<Material>, TlsError>;

/// What is in use, and what is wrong with the files as they are now.
struct Current<T> {
    value: T,
    problem: Option<TlsError>,
}

/// A `T` made of files, made anew when they change.
pub struct Watched<T> {
    files: TlsFiles,
    make: Arc<Make<T>>,
    first: Reading,
    current: ArcSwap<Current<T>>,
}

/// Shows where it is from.
impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Watched").field(&self.files).finish()
    }
}

impl<T: Clone + Send + Sync + 'static> Watched<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// They cannot be read, or nothing can be made of them: the process cannot work without.
    pub fn load(
        files: TlsFiles,
        make: impl Fn(&Material) -> Result<T, TlsProblem> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, TlsError> {
        let material = Arc::new(files.read()?);
        let value = make(&material).map_err(|problem| files.error(problem))?;
        let problem = None;
        Ok(Arc::new(Self {
            files,
            make: Arc::new(make),
            first: Ok(material),
            current: ArcSwap::from_pointee(Current { value, problem }),
        }))
    }

    /// What the last good files have given.
    pub fn get(&self) -> T {
        self.current.load().value.clone()
    }

    /// What is wrong with the files as they are, for people to read; the last good ones stay in use.
    pub fn problem(&self) -> Option<String> {
        self.current.load().problem.as_ref().map(TlsError::to_string)
    }

    /// Looks at the files every second until `stop`.
    ///
    /// # Guarantees
    /// One log line per change of state.
    pub async fn follow(&self, stop: CancellationToken) {
        self.follow_every(POLL, stop, Self::tell).await;
    }

    /// As [`Self::follow`], without log lines: another use of the same files has them.
    pub async fn follow_untold(&self, stop: CancellationToken) {
        self.follow_every(POLL, stop, |_, _| ()).await;
    }

    pub(super) async fn follow_every(
        &self,
        poll: Duration,
        stop: CancellationToken,
        tell: impl Fn(&Self, Option<&TlsError>),
    ) {
        if self.files.are_none() {
            return stop.cancelled().await;
        }
        let files = self.files.clone();
        let read = move || files.read().map(Arc::new);
        let mut follower = Follower::new(self.first.clone(), read, poll, stop);
        while let Some(reading) = follower.changed().await {
            self.take_over(reading);
            tell(self, self.current.load().problem.as_ref());
        }
    }

    fn tell(&self, problem: Option<&TlsError>) {
        match problem {
            None => tracing::info!(setting = self.files.setting, "new TLS files are in use"),
            Some(error) => tracing::warn!(%error, "the last good TLS files stay in use"),
        }
    }

    fn take_over(&self, reading: &Reading) {
        let made = reading.clone().and_then(|material| {
            let made = (self.make)(&material);
            made.map_err(|problem| self.files.error(problem))
        });
        let (value, problem) = match made {
            Ok(value) => (value, None),
            Err(error) => (self.get(), Some(error)),
        };
        self.current.store(Arc::new(Current { value, problem }));
    }
}
