//! Accepting connections until a stop, whatever becomes of single ones.

use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Out of file descriptors or memory: no use in asking the kernel at once again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Gives each connection to `take`, which must not wait: it spawns what serves the connection. After `stop` the
/// listener is closed, and this returns when the last of these tasks has ended.
///
/// # Guarantees
/// Errors of single connections and of `accept` never end it.
pub(crate) async fn accept(
    listener: TcpListener,
    stop: &CancellationToken,
    mut take: impl FnMut(TcpStream, &mut JoinSet<()>),
) {
    let mut connections = JoinSet::new();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                failing = false;
                take(stream, &mut connections);
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "cannot accept connections; trying again");
                    failing = true;
                }
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// The peer gave up between its SYN and our `accept`.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// `age` ± 10 %: connections opened together do not end together. `random` is uniform.
pub(crate) fn jittered(age: Duration, random: u32) -> Duration {
    age.mul_f64(0.9 + 0.2 * f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_spread_by_a_tenth_each_way() {
        let age = Duration::from_mins(5);
        assert_eq!(jittered(age, 0), Duration::from_secs(270));
        assert_eq!(jittered(age, u32::MAX), Duration::from_secs(330));
    }
}
