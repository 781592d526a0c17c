//! Components that stop, die, hang and come back.
//!
//! A component comes back at the same address with the same data.

use std::time::Duration;

use tokio::time::Instant;

use super::ControlPlane;
use super::components::Component;
use super::error::{ClusterError, io_error};
use super::supervised::Signal;
use crate::poll;

/// The API server lets requests finish for up to a minute.
const STOP_WITHIN: Duration = Duration::from_secs(90);

impl ControlPlane {
    /// Asks a component to end and waits for its end.
    ///
    /// # Errors
    /// It does not run, or it did not end.
    pub async fn stop(&self, component: Component) -> Result<(), ClusterError> {
        self.signal(component, Signal::Terminate)?;
        let end = poll::until_some("the end", STOP_WITHIN, async || {
            let mut processes = self.processes();
            let Some(process) = processes.get_mut(&component) else {
                return Some(Ok(()));
            };
            match process.ended() {
                Ok(None) => None,
                Ok(Some(_)) => {
                    processes.remove(&component);
                    Some(Ok(()))
                }
                Err(error) => Some(Err(error)),
            }
        });
        let still = |_| ClusterError::StillRunning {
            component,
            within: STOP_WITHIN,
        };
        end.await
            .map_err(still)?
            .map_err(io_error("cannot wait for a process"))
    }

    /// Kills a component. Its end is over when this returns.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&self, component: Component) -> Result<(), ClusterError> {
        let process = self.processes().remove(&component);
        // Dropping it waits for its end.
        process.map(drop).ok_or(ClusterError::NotRunning(component))
    }

    /// Starts a component that was stopped or killed, and waits until the API server is ready, if that runs.
    ///
    /// # Errors
    /// Any [`ClusterError`].
    pub async fn start_again(&self, component: Component) -> Result<(), ClusterError> {
        self.launch(component)?;
        if self.pid(Component::ApiServer).is_err() {
            return Ok(());
        }
        self.wait_until_ready(Instant::now() + self.options.ready_within)
            .await
    }

    /// Makes a component hang: it keeps its connections and says nothing. Returns when it hangs.
    ///
    /// # Errors
    /// It does not run.
    pub async fn pause(&self, component: Component) -> Result<(), ClusterError> {
        self.signal(component, Signal::Stop)?;
        self.wait_for_state(component, true).await
    }

    /// Ends what [`ControlPlane::pause`] began.
    ///
    /// # Errors
    /// It does not run.
    pub async fn resume(&self, component: Component) -> Result<(), ClusterError> {
        self.signal(component, Signal::Continue)?;
        self.wait_for_state(component, false).await
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<(), ClusterError> {
        let mut processes = self.processes();
        let process = processes
            .get_mut(&component)
            .ok_or(ClusterError::NotRunning(component))?;
        process
            .signal(signal)
            .map_err(io_error(format!("cannot signal {component}")))
    }

    async fn wait_for_state(&self, component: Component, stopped: bool) -> Result<(), ClusterError> {
        let file = format!("/proc/{}/stat", self.pid(component)?);
        let reached = || {
            // The state follows the command's name, which is in parentheses.
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let state = text
                .rsplit(')')
                .next()
                .and_then(|rest| rest.trim_start().chars().next());
            state.is_some_and(|state| (state == 'T') == stopped)
        };
        Ok(poll::until(
            &format!("a signal to {component}"),
            Duration::from_secs(10),
            reached,
        )
        .await?)
    }
}
