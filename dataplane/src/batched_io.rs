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
//! more; no bytes wait for another event. After a failed write nothing is written any more, and what the peer
//! has said before is still read, a goodbye above all. Memory is bounded: [`READ_AHEAD`] and [`OUTBOX`] a
//! connection, taken as they are needed.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::io::poll_read_buf;

/// Bytes asked of the socket at once, unless the connection asks for more itself.
const READ_AHEAD: usize = 64 << 10;
/// The outbox goes out before it would hold more. Larger buffers were measured and gain nothing.
const OUTBOX: usize = 64 << 10;
/// How long an end waits for the peer to take the last words and to close its side: a round trip or two.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// What the connection and its turns share. Both run in one task: the lock is never contended.
struct Shared<S> {
    socket: S,
    /// Read and not taken yet.
    read_ahead: BytesMut,
    outbox: Vec<u8>,
    /// How much of the outbox the socket has taken.
    written: usize,
    /// The socket takes no more.
    failed: Option<io::ErrorKind>,
}

/// The connection's side.
pub(crate) struct BatchedIo<S>(Arc<Mutex<Shared<S>>>);

/// The side of whoever drives the connection.
pub(crate) struct Turns<S>(Arc<Mutex<Shared<S>>>);

/// Wraps a socket.
pub(crate) fn batched<S: AsyncRead + AsyncWrite + Unpin>(socket: S) -> (BatchedIo<S>, Turns<S>) {
    let shared = Arc::new(Mutex::new(Shared {
        socket,
        read_ahead: BytesMut::new(),
        outbox: Vec::new(),
        written: 0,
        failed: None,
    }));
    (BatchedIo(Arc::clone(&shared)), Turns(shared))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Turns<S> {
    /// Drives `connection` to its end; what it writes in a turn leaves after the turn. Cancelled in between, it
    /// can be called again. Last words that the socket did not take at once are left to [`Self::farewell`]: a
    /// connection whose peer takes nothing must be able to end.
    pub(crate) async fn drive<F: Future>(&mut self, mut connection: Pin<&mut F>) {
        std::future::poll_fn(|context| {
            // How a connection ends concerns only its peer, who knows.
            let ended = connection.as_mut().poll(context).map(drop);
            let _ = lock(&self.0).send(context);
            ended
        })
        .await;
    }

    /// After the end: sends what is left, closes our side, and reads, to throw away, until the peer has closed
    /// its own, for [`LINGER`] at the most.
    pub(crate) async fn farewell(&mut self) {
        let farewell = std::future::poll_fn(|context| {
            let shared = &mut *lock(&self.0);
            ready!(shared.send(context));
            let _ = ready!(Pin::new(&mut shared.socket).poll_shutdown(context));
            loop {
                shared.read_ahead.clear();
                if !matches!(ready!(shared.fill(context)), Ok(count) if count > 0) {
                    return Poll::Ready(());
                }
            }
        });
        let _ = timeout(LINGER, farewell).await;
    }
}

impl<S: AsyncRead + Unpin> Shared<S> {
    /// Reads ahead.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read_ahead.reserve(READ_AHEAD);
        poll_read_buf(Pin::new(&mut self.socket), context, &mut self.read_ahead)
    }

    fn read(&mut self, context: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.read_ahead.is_empty() {
            if buffer.remaining() >= READ_AHEAD {
                return Pin::new(&mut TokioIo::new(&mut self.socket)).poll_read(context, buffer);
            }
            ready!(self.fill(context))?;
        }
        let count = self.read_ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.read_ahead[..count]);
        self.read_ahead.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    /// Writes the outbox to the socket as far as it takes it.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.written < self.outbox.len() {
            let taken = Pin::new(&mut self.socket).poll_write(context, &self.outbox[self.written..]);
            match ready!(taken) {
                Ok(0) => self.fail(io::ErrorKind::WriteZero, context),
                Ok(count) => self.written += count,
                Err(error) => self.fail(error.kind(), context),
            }
        }
        self.empty();
        // TLS holds back what the socket did not take; to a socket this says nothing.
        if self.failed.is_none()
            && let Err(error) = ready!(Pin::new(&mut self.socket).poll_flush(context))
        {
            self.fail(error.kind(), context);
        }
        Poll::Ready(())
    }

    /// Nothing leaves any more. The connection is woken, for it finds that out when it reads.
    fn fail(&mut self, kind: io::ErrorKind, context: &Context<'_>) {
        self.failed = Some(kind);
        self.empty();
        context.waker().wake_by_ref();
    }

    fn empty(&mut self) {
        self.outbox.clear();
        self.written = 0;
    }

    /// Takes `slices` into the outbox; what would not fit into an empty one goes straight to the socket.
    fn take(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.outbox.len() + length > OUTBOX {
            ready!(self.send(context));
        }
        if self.failed.is_some() {
            return Poll::Ready(Ok(length));
        }
        if length > OUTBOX {
            let taken = ready!(Pin::new(&mut self.socket).poll_write_vectored(context, slices));
            return Poll::Ready(taken.or_else(|error| {
                self.fail(error.kind(), context);
                Ok(length)
            }));
        }
        let needed = self.outbox.len() + length;
        if needed > self.outbox.capacity() {
            let capacity = (2 * self.outbox.capacity()).clamp(needed, OUTBOX);
            self.outbox.reserve_exact(capacity - self.outbox.len());
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
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        match (shared.read(context, buffer), shared.failed) {
            (Poll::Pending, Some(kind)) => Poll::Ready(Err(kind.into())),
            (read, _) => read,
        }
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
        ready!(shared.send(context));
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

    async fn write_to<S: AsyncRead + AsyncWrite + Unpin>(io: &mut BatchedIo<S>, mut left: &[u8]) {
        while !left.is_empty() {
            let count = std::future::poll_fn(|context| Pin::new(&mut *io).poll_write(context, left)).await;
            left = &left[count.unwrap()..];
        }
    }

    /// Writes `pieces` with a flush after each, as HTTP/2 does, then ends.
    async fn write_pieces<S: AsyncRead + AsyncWrite + Unpin>(mut io: BatchedIo<S>, pieces: Vec<Vec<u8>>) {
        for piece in pieces {
            write_to(&mut io, &piece).await;
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
        let writing = tokio::spawn(async move {
            turns.drive(pin!(write_pieces(io, pieces))).await;
            turns.farewell().await;
        });
        let mut received = vec![0; expected.len()];
        far.read_exact(&mut received).await.unwrap();
        drop(far);
        writing.await.unwrap();
        assert!(received == expected);
    }

    #[tokio::test]
    async fn what_a_socket_holds_back_leaves_after_the_turn() {
        for length in [100, OUTBOX + 1] {
            let (near, mut far) = duplex(1 << 20);
            // As TLS does: takes everything, and writes it when it is flushed.
            let (io, mut turns) = batched(tokio::io::BufWriter::with_capacity(1 << 20, near));
            let connection = async {
                write_pieces(io, vec![vec![7; length]]).await;
                std::future::pending::<()>().await;
            };
            let mut connection = pin!(connection);
            let mut received = vec![0; length];
            tokio::select! {
                () = turns.drive(connection.as_mut()) => {}
                read = far.read_exact(&mut received) => assert_eq!(read.unwrap(), length),
            }
            assert_eq!(received, vec![7; length]);
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_has_sent_its_last_words() {
        let (near, mut far) = duplex(10);
        let (io, mut turns) = batched(near);
        let sending = tokio::spawn(async move {
            turns.drive(pin!(write_pieces(io, vec![vec![7; 100]]))).await;
            turns.farewell().await;
        });
        let mut received = vec![0; 100];
        far.read_exact(&mut received).await.unwrap();
        assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0, "our side is closed");
        drop(far);
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
    async fn a_farewell_ends_when_the_peer_has_said_all() {
        let (near, mut far) = duplex(10);
        let (_io, mut turns) = batched(near);
        let saying = tokio::spawn(async move { far.write_all(&vec![7; 100_000]).await });
        turns.farewell().await;
        saying.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_connection_ends_though_its_peer_takes_nothing() {
        let (near, _far) = duplex(10);
        let (io, mut turns) = batched(near);
        turns.drive(pin!(write_pieces(io, vec![vec![7; 100]]))).await;
    }

    #[tokio::test]
    async fn what_the_peer_said_before_it_left_is_read_after_a_failed_write() {
        for length in [100, OUTBOX + 1] {
            let (near, mut far) = duplex(1_000);
            let (mut io, mut turns) = batched(near);
            far.write_all(b"goodbye").await.unwrap();
            drop(far);
            let mut received = Vec::new();
            let connection = async {
                write_to(&mut io, &vec![7; length]).await;
                tokio::task::yield_now().await;
                // Taken, though it cannot leave: nothing is written after a gap.
                write_to(&mut io, &vec![8; length]).await;
                let mut piece = [0; 100];
                let mut buffer = hyper::rt::ReadBuf::new(&mut piece);
                std::future::poll_fn(|context| Pin::new(&mut io).poll_read(context, buffer.unfilled()))
                    .await
                    .unwrap();
                received.extend_from_slice(buffer.filled());
            };
            turns.drive(pin!(connection)).await;
            assert_eq!(received, b"goodbye", "after {length} bytes");
        }
    }
}
