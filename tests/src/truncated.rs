//! A response body that breaks off: what was announced never comes, and the connection ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

/// Yields its part, lets it be written, then fails.
#[derive(Debug)]
pub(crate) struct Truncated {
    part: Option<Bytes>,
    waited: bool,
}

impl Truncated {
    pub(crate) fn new(part: Bytes) -> Self {
        Self {
            part: Some(part),
            waited: false,
        }
    }
}

impl Body for Truncated {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(part) = self.part.take() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        if !self.waited {
            // Pending once makes the server write what it has.
            self.waited = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(io::Error::other("scripted end of the body"))))
    }
}
