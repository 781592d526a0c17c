//! A network between clients and a server that can be slow, silent or cut.
//!
//! ```text
//! client ─▶ read ─▶ wait for its time ─▶ write ─▶ server
//!        ◀─ write ◀─ wait for its time ◀─ read ◀─
//! ```
//!
//! Invariants: bytes keep their order; a connection from which bytes were swallowed never carries others again; slowness
//! adds to every answer, whatever its length, and bounds no throughput.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::ports::LOOPBACK;

/// Pieces that are on their way in one direction of one connection.
const PIECES: usize = 1_024;

/// What becomes of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It passes.
    Open,
    /// Answers come so much later.
    Slow(Duration),
    /// What clients send waits until the passage is another one, even if they have gone by then.
    Held,
    /// Connections are taken, and what is sent is swallowed.
    BlackHole,
    /// Connections end; new ones end at once.
    Cut,
}

/// Between any clients and one server. Dropping it ends all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    passage: watch::Sender<Passage>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// On a free port, open.
    ///
    /// # Errors
    /// No port.
    pub async fn before(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(LOOPBACK).await?;
        let address = listener.local_addr()?;
        let (passage, passages) = watch::channel(Passage::Open);
        let accepting = tokio::spawn(accept(listener, server, passages));
        Ok(Self {
            address,
            passage,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, passages: watch::Receiver<Passage>) {
    // Aborted with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                connections.spawn(carry(client, server, passages.clone()));
            }
        }
    }
}

/// One connection, until one side ends or the passage changes in a way that it cannot outlive.
async fn carry(client: TcpStream, server: SocketAddr, passages: watch::Receiver<Passage>) {
    let mut ending = passages.clone();
    let mut swallowing = *passages.borrow() == Passage::BlackHole;
    let over = async move {
        loop {
            let now = *ending.borrow_and_update();
            let is_over = match now {
                Passage::Cut => true,
                Passage::BlackHole => {
                    swallowing = true;
                    false
                }
                Passage::Open | Passage::Slow(_) | Passage::Held => swallowing,
            };
            if is_over || ending.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = over => {}
        _ = pass_both(client, server, passages) => {}
    }
}

async fn pass_both(
    client: TcpStream,
    server: SocketAddr,
    passages: watch::Receiver<Passage>,
) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_held = |passage| passage == Passage::Held;
    let there = pass(
        from_client,
        to_server,
        passages.clone(),
        |_| Duration::ZERO,
        is_held,
    );
    let delay = |passage| match passage {
        Passage::Slow(delay) => delay,
        _ => Duration::ZERO,
    };
    let back = pass(from_server, to_client, passages, delay, |_| false);
    // One side's end ends both, after what is on its way.
    tokio::select! {
        ended = there => ended,
        ended = back => ended,
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    passages: watch::Receiver<Passage>,
    delay: impl Fn(Passage) -> Duration,
    is_held: impl Fn(Passage) -> bool,
) -> io::Result<()> {
    let mut held = passages.clone();
    let (send, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let reading = async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            let passage = *passages.borrow();
            let due = Instant::now() + delay(passage);
            if passage != Passage::BlackHole && send.send((due, buffer[..length].to_vec())).await.is_err() {
                return Ok(());
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            // An error: the proxy is gone.
            let _ = held.wait_for(|passage| !is_held(*passage)).await;
            to.write_all(&piece).await?;
        }
        Ok::<(), io::Error>(())
    };
    tokio::try_join!(reading, writing).map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, timeout};

    use super::{LOOPBACK, Passage, Proxy};

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(10);

    /// Says back what it is told.
    async fn echo() -> std::net::SocketAddr {
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn say(stream: &mut TcpStream, word: &[u8; 4]) -> std::io::Result<()> {
        stream.write_all(word).await?;
        let mut heard = [0; 4];
        stream.read_exact(&mut heard).await?;
        assert_eq!(&heard, word);
        Ok(())
    }

    #[tokio::test]
    async fn each_passage_does_what_it_says() {
        let proxy = Proxy::before(echo().await).await.unwrap();
        let connect = async || TcpStream::connect(proxy.address()).await.unwrap();
        let mut first = connect().await;
        say(&mut first, b"open").await.unwrap();

        proxy.set(Passage::Slow(SHORT));
        let begun = Instant::now();
        say(&mut first, b"slow").await.unwrap();
        assert!(begun.elapsed() >= SHORT);

        proxy.set(Passage::Held);
        assert!(timeout(SHORT, say(&mut first, b"held")).await.is_err());
        proxy.set(Passage::Open);
        let mut heard = [0; 4];
        timeout(LONG, first.read_exact(&mut heard))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(&heard, b"held");

        proxy.set(Passage::BlackHole);
        let mut second = connect().await;
        for stream in [&mut first, &mut second] {
            assert!(timeout(SHORT, say(stream, b"hole")).await.is_err());
        }
        proxy.set(Passage::Open);
        for stream in [&mut first, &mut second] {
            assert!(timeout(LONG, say(stream, b"gone")).await.unwrap().is_err());
        }

        let mut third = connect().await;
        say(&mut third, b"open").await.unwrap();
        proxy.set(Passage::Cut);
        assert!(timeout(LONG, say(&mut third, b"gone")).await.unwrap().is_err());
        let refused = timeout(LONG, say(&mut connect().await, b"gone")).await.unwrap();
        assert!(refused.is_err());
        proxy.set(Passage::Open);
        say(&mut connect().await, b"open").await.unwrap();
    }
}
