//! Fewer system calls for a connection: reads ahead, and collects what one turn of the connection writes.
//!
//! ```text
//! socket --one large read--> read-ahead --copies--> HTTP
//! HTTP --copies--> outbox --one large write, after the turn--> socket
//! ```
//! HTTP/2 reads about a frame per call and flushes after every frame, and most peers stay at frames of 16 KiB:
//! a usual export would go through the kernel's door two dozen times. Here a flush only says that something
//! waits, and [`Turns`], which wraps the connection's future, writes the outbox when the connection has had its
//! turn. What is larger than either buffer goes past it, without a copy.
//!
//! Invariants: whatever was written leaves after the turn in which it was written, or when the socket takes
//! more; no bytes wait for another event. Memory is bounded: [`READ_AHEAD`] and [`OUTBOX`] a connection.

use std::future::Future;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes asked of the socket at once, unless the connection asks for more itself.
const READ_AHEAD: usize = 64 << 10;
/// The outbox goes out before it would hold more. Larger buffers were measured and gain nothing.
const OUTBOX: usize = 64 << 10;

/// What the connection and its turns share. Both run in one task: the lock is never contended.
struct Shared<S> {
    socket: S,
    read_ahead: Box<[u8]>,
    /// What of `read_ahead` was read and not taken yet.
    unread: Range<usize>,
    outbox: Vec<u8>,
    /// How much of the outbox the socket has taken.
    written: usize,
}

/// The connection's side.
pub(crate) struct BatchedIo<S>(Arc<Mutex<Shared<S>>>);

/// The side of whoever drives the connection.
pub(crate) struct Turns<S> {
    shared: Arc<Mutex<Shared<S>>>,
    has_ended: bool,
}

/// Wraps a socket.
pub(crate) fn batched<S: AsyncRead + AsyncWrite + Unpin>(socket: S) -> (BatchedIo<S>, Turns<S>) {
    let shared = Arc::new(Mutex::new(Shared {
        socket,
        // Zeroed by the kernel as it is touched: small requests touch little of it.
        read_ahead: vec![0; READ_AHEAD].into_boxed_slice(),
        unread: 0..0,
        outbox: Vec::new(),
        written: 0,
    }));
    let turns = Turns {
        shared: Arc::clone(&shared),
        has_ended: false,
    };
    (BatchedIo(shared), turns)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Turns<S> {
    /// Drives `connection`; what it writes in a turn leaves after the turn. Ends when the connection has
    /// ended and its last words have left. Cancelled in between, it can be called again.
    pub(crate) async fn drive<F: Future>(&mut self, mut connection: Pin<&mut F>) {
        std::future::poll_fn(|context| {
            // How a connection ends concerns only its peer, who knows.
            self.has_ended = self.has_ended || connection.as_mut().poll(context).is_ready();
            // An error of the socket is the connection's to find: it sees it at its next read or write.
            let sent = lock(&self.shared).send(context);
            if self.has_ended && sent.is_ready() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Reads, and throws away, until the peer has closed its side.
    pub(crate) async fn hear_out(&mut self) {
        std::future::poll_fn(|context| {
            let shared = &mut *lock(&self.shared);
            loop {
                let mut read = ReadBuf::new(&mut shared.read_ahead);
                match ready!(Pin::new(&mut shared.socket).poll_read(context, &mut read)) {
                    Ok(()) if !read.filled().is_empty() => {}
                    Ok(()) | Err(_) => return Poll::Ready(()),
                }
            }
        })
        .await;
    }

    /// The connection has ended: nothing may be asked of it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    /// Writes the outbox to the socket as far as it takes it.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.outbox.len() {
            let taken = Pin::new(&mut self.socket).poll_write(context, &self.outbox[self.written..]);
            match ready!(taken) {
                Ok(0) => return self.abandon(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) => return self.abandon(error),
            }
        }
        self.outbox.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Nobody will take it any more.
    fn abandon(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        self.outbox.clear();
        self.written = 0;
        Poll::Ready(Err(error))
    }

    /// Takes `slices` into the outbox; what would not fit into an empty one goes straight to the socket.
    fn take(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.outbox.len() + length > OUTBOX {
            ready!(self.send(context))?;
        }
        if length > OUTBOX {
            return Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        }
        for slice in slices {
            self.outbox.extend_from_slice(slice);
        }
        Poll::Ready(Ok(length))
    }
}

impl<S: AsyncRead + Unpin> Read for BatchedIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        if shared.unread.is_empty() {
            if buffer.remaining() >= READ_AHEAD {
                return Pin::new(&mut TokioIo::new(&mut shared.socket)).poll_read(context, buffer);
            }
            let mut read = ReadBuf::new(&mut shared.read_ahead);
            ready!(Pin::new(&mut shared.socket).poll_read(context, &mut read))?;
            shared.unread = 0..read.filled().len();
        }
        let start = shared.unread.start;
        let count = shared.unread.len().min(buffer.remaining());
        buffer.put_slice(&shared.read_ahead[start..start + count]);
        shared.unread.start += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for BatchedIo<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).take(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).take(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing to do: the turn's end writes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        ready!(shared.send(context))?;
        Pin::new(&mut shared.socket).poll_shutdown(context)
    }
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Writes `pieces` with a flush after each, as HTTP/2 does, then ends.
    async fn write_pieces<S: AsyncRead + AsyncWrite + Unpin>(mut io: BatchedIo<S>, pieces: Vec<Vec<u8>>) {
        for piece in pieces {
            let mut left = &piece[..];
            while !left.is_empty() {
                let count = std::future::poll_fn(|context| Pin::new(&mut io).poll_write(context, left)).await;
                left = &left[count.unwrap()..];
            }
            std::future::poll_fn(|context| Pin::new(&mut io).poll_flush(context))
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn everything_written_arrives_in_order_through_a_narrow_socket() {
        let (near, mut far) = duplex(1_000);
        let (io, mut turns) = batched(near);
        let length = |number: u8| {
            if number.is_multiple_of(7_u8) {
                OUTBOX + 1
            } else {
                16 << 10
            }
        };
        let pieces: Vec<Vec<u8>> = (0..100).map(|number| vec![number; length(number)]).collect();
        let expected = pieces.concat();
        let writing = tokio::spawn(async move { turns.drive(pin!(write_pieces(io, pieces))).await });
        let mut received = vec![0; expected.len()];
        far.read_exact(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == expected);
    }

    #[tokio::test]
    async fn a_connection_that_ends_has_sent_its_last_words() {
        let (near, mut far) = duplex(10);
        let (io, mut turns) = batched(near);
        let sending =
            tokio::spawn(async move { turns.drive(pin!(write_pieces(io, vec![vec![7; 100]]))).await });
        let mut received = vec![0; 100];
        far.read_exact(&mut received).await.unwrap();
        sending.await.unwrap();
        assert_eq!(received, vec![7; 100]);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_does_not_hold_the_end_up() {
        let (near, far) = duplex(10);
        drop(far);
        let (io, mut turns) = batched(near);
        turns.drive(pin!(write_pieces(io, vec![vec![7; 100]]))).await;
    }

    #[tokio::test]
    async fn everything_read_arrives_in_order_whatever_is_asked_at_once() {
        for asked in [1_000, READ_AHEAD - 1, READ_AHEAD, 3 * READ_AHEAD] {
            let (near, mut far) = duplex(1 << 20);
            let (mut io, _turns) = batched(near);
            let sent: Vec<u8> = (0..500_000_u32).map(|number| (number % 251) as u8).collect();
            far.write_all(&sent).await.unwrap();
            drop(far);
            let mut received = Vec::new();
            for number in 0.. {
                // Small ones in between: what was read ahead is taken first.
                let mut piece = vec![0; if number % 3 == 2 { 777 } else { asked }];
                let mut buffer = hyper::rt::ReadBuf::new(&mut piece);
                std::future::poll_fn(|context| Pin::new(&mut io).poll_read(context, buffer.unfilled()))
                    .await
                    .unwrap();
                if buffer.filled().is_empty() {
                    break;
                }
                received.extend_from_slice(buffer.filled());
            }
            assert!(received == sent, "asked for {asked} bytes");
        }
    }

    #[tokio::test]
    async fn hearing_out_ends_when_the_peer_has_said_all() {
        let (near, mut far) = duplex(10);
        let (_io, mut turns) = batched(near);
        let saying = tokio::spawn(async move { far.write_all(&vec![7; 100_000]).await });
        turns.hear_out().await;
        saying.await.unwrap().unwrap();
    }
}
