//! Waiting for what programs should do, as long as they live.

use std::time::Duration;

use tokio::time::Instant;

/// A server that takes a connection and says nothing is asked again.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// It did not happen in time.
#[derive(Debug)]
pub(crate) struct Late {
    /// How long it had.
    pub(crate) within: Duration,
    /// What was seen instead.
    pub(crate) seen: String,
}

/// Looks every `step` until `observe` succeeds, or until the deadline: then [`Late`].
///
/// # Errors
/// What `alive` says; it is asked before each look.
pub(crate) async fn watched<E>(
    step: Duration,
    deadline: Instant,
    alive: impl Fn() -> Result<(), E>,
    mut observe: impl AsyncFnMut() -> Result<(), String>,
) -> Result<Result<(), Late>, E> {
    let began = Instant::now();
    loop {
        alive()?;
        let observed = tokio::time::timeout(ANSWER_WITHIN, observe()).await;
        let Err(seen) = observed.unwrap_or_else(|_| Err("no answer".to_owned())) else {
            return Ok(Ok(()));
        };
        if Instant::now() >= deadline {
            let within = began.elapsed();
            return Ok(Err(Late { within, seen }));
        }
        tokio::time::sleep(step).await;
    }
}
