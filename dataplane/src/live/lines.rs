//! Lines of a body that comes in pieces, each of bounded length: a watch is one JSON document a line.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError<E> {
    /// Longer than allowed.
    #[error("a line has more than {0} bytes")]
    TooLong(usize),
    /// The body broke off.
    #[error("broke off")]
    Body(#[source] E),
}

/// Takes a body apart.
pub(super) struct Lines<B> {
    body: B,
    read: BytesMut,
    /// So many bytes of `read` hold no line's end.
    looked: usize,
    most: usize,
}

impl<B: Body<Data = Bytes> + Unpin> Lines<B> {
    /// Lines of at most `most` bytes.
    pub(super) fn new(body: B, most: usize) -> Self {
        Self {
            body,
            read: BytesMut::new(),
            looked: 0,
            most,
        }
    }

    /// The next line without its end; `None` at the end of the body. A last line without an end was cut off and
    /// is not given. Dropped while it waits, it can be called again.
    pub(super) async fn next(&mut self) -> Result<Option<BytesMut>, LineError<B::Error>> {
        loop {
            if let Some(end) = self.read[self.looked..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.read.split_to(self.looked + end + 1);
                line.truncate(line.len() - 1);
                self.looked = 0;
                return Ok(Some(line));
            }
            self.looked = self.read.len();
            if self.looked > self.most {
                return Err(LineError::TooLong(self.most));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(LineError::Body(error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;

    use super::*;

    struct Pieces(VecDeque<&'static str>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = self.0.pop_front();
            Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
        }
    }

    #[tokio::test]
    async fn lines_are_put_together_whatever_the_pieces() {
        let pieces = Pieces(["a\nb", "", "b\n\nc", "c", "\ncut off"].into());
        let mut lines = Lines::new(pieces, 10);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(read, ["a", "bb", "", "cc"]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_collected_for_ever() {
        let mut lines = Lines::new(Pieces(["12345", "67890", "1"].into()), 10);
        assert!(matches!(lines.next().await, Err(LineError::TooLong(10))));
    }
}
