//! The signals that end the process.
//!
//! Invariant: from [`Signals::open`] on, none of them kills the process by itself, and none that comes while nobody waits is
//! lost.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// See the head of the module.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes them over.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next SIGTERM or SIGINT.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Whether `work` was done before the next one came. Work that was not done is dropped.
    pub(crate) async fn spared(&mut self, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = work => true,
            () = self.next() => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn work_ends_with_itself_or_with_the_next_signal() {
        let mut signals = Signals::open().unwrap();
        assert!(signals.spared(std::future::ready(())).await);
        let own = std::process::id().to_string();
        let mut kill = Command::new("kill");
        assert!(kill.args(["-INT", &own]).status().unwrap().success());
        assert!(!signals.spared(std::future::pending()).await);
    }
}
