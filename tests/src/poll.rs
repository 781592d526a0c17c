//! Waiting for a condition: polled with a deadline, so that a test neither sleeps for luck nor hangs.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

const STEP: Duration = Duration::from_millis(5);
/// Between two looks that ask another process.
const PAUSE: Duration = Duration::from_millis(50);

/// A condition did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("{what} did not happen within {within:?}{}", .seen.as_deref().map(|seen| format!("; last seen: {seen}")).unwrap_or_default())]
pub struct TimedOut {
    what: String,
    within: Duration,
    seen: Option<String>,
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
                seen: None,
            });
        }
        tokio::time::sleep(STEP).await;
    }
}

/// Waits until `observe` succeeds and returns what it found. What it found instead at last is part of the error.
///
/// An observation is interrupted at the deadline, as one of a server that hangs has to be.
///
/// # Errors
/// [`TimedOut`], naming `what` and what was seen.
pub async fn eventually<T, Seen: Display>(
    what: &str,
    within: Duration,
    mut observe: impl AsyncFnMut() -> Result<T, Seen>,
) -> Result<T, TimedOut> {
    let deadline = Instant::now() + within;
    let mut seen = "no answer".to_owned();
    loop {
        match tokio::time::timeout_at(deadline, observe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(other)) => seen = other.to_string(),
            Err(_) => {}
        }
        // Not by the timeout alone: it lets through what answers without waiting.
        if Instant::now() >= deadline {
            return Err(TimedOut {
                what: what.to_owned(),
                within,
                seen: Some(seen),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_at_last_is_told() {
        let mut left = 3;
        let found = eventually("zero", Duration::from_secs(1), async || {
            left -= 1;
            if left == 0 { Ok("found") } else { Err(left) }
        });
        assert_eq!(found.await.unwrap(), "found");
        let never = eventually("never", Duration::from_secs(1), async || {
            Err::<(), _>("something else")
        });
        assert_eq!(
            never.await.unwrap_err().to_string(),
            "never did not happen within 1s; last seen: something else"
        );
        let silent = eventually("silence", Duration::from_secs(1), async || {
            std::future::pending::<Result<(), String>>().await
        });
        assert!(
            silent
                .await
                .unwrap_err()
                .to_string()
                .ends_with("last seen: no answer")
        );
    }
}
