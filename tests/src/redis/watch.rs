//! Listens to all that the server runs, by `MONITOR`: exact where samples would miss things.
//!
//! Invariants: what was run before [`Watch::evidence`] was called is in what it gives; only writes of scripts in one
//! namespace, and calls of scripts, are kept.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::error::RedisError;
use super::evidence::{Evidence, concerns};
use super::monitor_line::{self, Ran};
use super::{admin, key_prefix};
use crate::poll;

/// For what was run to arrive here; a paused server says nothing until it goes on.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server runs from now on. Dropping it ends the listening.
#[derive(Debug)]
pub struct Watch {
    server: SocketAddr,
    prefix: String,
    seen: Arc<Mutex<Seen>>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    ran: Vec<Ran>,
    marks: Vec<String>,
    has_ended: bool,
}

impl Watch {
    pub(super) async fn start(server: SocketAddr, namespace: &str) -> Result<Self, RedisError> {
        let prefix = key_prefix(namespace);
        let mut stream = BufReader::new(TcpStream::connect(server).await?);
        stream.write_all(b"MONITOR\r\n").await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if line.trim_end() != "+OK" {
            return Err(RedisError::Unwatchable(line.trim_end().to_owned()));
        }
        let seen = Arc::<Mutex<Seen>>::default();
        let listening = tokio::spawn(listen(stream, prefix.clone(), Arc::clone(&seen)));
        Ok(Self {
            server,
            prefix,
            seen,
            listening,
        })
    }

    /// All that has been recorded up to now.
    ///
    /// # Errors
    /// The server cannot be asked, or the listening has ended: with the server.
    pub async fn evidence(&self) -> Result<Evidence, RedisError> {
        let mark = format!("{:x}", fastrand::u128(..));
        admin::run::<String>(self.server, &["ECHO", &mark]).await?;
        let arrived = poll::until_some("the mark", PATIENCE, async || {
            self.with(|seen| {
                if seen.marks.contains(&mark) {
                    Some(Ok(()))
                } else {
                    seen.has_ended.then_some(Err(RedisError::WatchEnded))
                }
            })
        });
        arrived.await??;
        Ok(self.seen_so_far())
    }

    /// What has arrived here up to now: for a server that cannot be asked any more.
    pub fn seen_so_far(&self) -> Evidence {
        self.with(|seen| Evidence::new(&seen.ran, &self.prefix))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Seen) -> R) -> R {
        act(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(mut stream: BufReader<TcpStream>, prefix: String, seen: Arc<Mutex<Seen>>) {
    let with = |act: &mut dyn FnMut(&mut Seen)| act(&mut seen.lock().unwrap_or_else(PoisonError::into_inner));
    let mut line = String::new();
    while next(&mut stream, &mut line).await.is_ok_and(|length| length > 0) {
        let Some(mut ran) = monitor_line::read(line.trim_end()) else {
            continue;
        };
        if ran.words[0].eq_ignore_ascii_case("echo") {
            with(&mut |seen| seen.marks.extend(ran.words.get(1).cloned()));
        } else if concerns(&ran, &prefix) {
            if !ran.by_script {
                // Only that it was called: its arguments are many.
                ran.words.truncate(1);
            }
            with(&mut |seen| seen.ran.push(ran.clone()));
        }
    }
    with(&mut |seen| seen.has_ended = true);
}

async fn next(stream: &mut BufReader<TcpStream>, line: &mut String) -> io::Result<usize> {
    line.clear();
    stream.read_line(line).await
}
