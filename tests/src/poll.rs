//! Waiting for a condition: polled with a deadline, so that a test neither sleeps for luck nor hangs.

use std::time::Duration;

use tokio::time::Instant;

const STEP: Duration = Duration::from_millis(5);

/// A condition did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("{what} did not happen within {within:?}")]
pub struct TimedOut {
    what: String,
    within: Duration,
}

/// Waits until `condition` holds; it is looked at once more when the deadline has passed.
///
/// # Errors
/// [`TimedOut`], naming `what`.
pub async fn until(
    what: &str,
    within: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<(), TimedOut> {
    until_some(what, within, async || condition().then_some(())).await
}

/// Waits until `observe` yields a value and returns it. An observation is not interrupted.
///
/// # Errors
/// [`TimedOut`], naming `what`.
pub async fn until_some<T>(
    what: &str,
    within: Duration,
    mut observe: impl AsyncFnMut() -> Option<T>,
) -> Result<T, TimedOut> {
    let deadline = Instant::now() + within;
    loop {
        let late = Instant::now() >= deadline;
        if let Some(value) = observe().await {
            return Ok(value);
        }
        if late {
            return Err(TimedOut {
                what: what.to_owned(),
                within,
            });
        }
        tokio::time::sleep(STEP).await;
    }
}
