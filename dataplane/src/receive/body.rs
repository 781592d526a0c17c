//! Frames of a message body become one contiguous buffer.
//!
//! Invariants: a body of one frame is not copied; a buffer starts no larger than [`MAX_HINT`], whatever a
//! sender announces, and nothing is added beyond the limit.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http_body::Body;

use super::in_flight::Held;
use super::refusal::Refusal;

/// Largest first allocation: covers the usual request, and an empty promise of 16 MiB costs no more.
pub(super) const MAX_HINT: usize = 1 << 20;

/// Frames so far.
#[derive(Debug, Default)]
pub(super) enum Collected {
    /// Nothing yet.
    #[default]
    Nothing,
    /// One frame, as it came.
    One(Bytes),
    /// Several, copied together.
    Many(BytesMut),
}

impl Collected {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(bytes) => bytes.len(),
        }
    }

    /// The memory that it takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(bytes) => bytes.capacity(),
        }
    }

    /// Appends a frame. `expected`: total length as announced, only a hint.
    pub(super) fn push(&mut self, frame: Bytes, expected: usize) {
        if frame.is_empty() {
            return;
        }
        match self {
            Self::Nothing => *self = Self::One(frame),
            Self::One(first) => {
                let capacity = expected.min(MAX_HINT).max(first.len() + frame.len());
                let mut all = BytesMut::with_capacity(capacity);
                all.extend_from_slice(first);
                all.extend_from_slice(&frame);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.extend_from_slice(&frame),
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes.freeze(),
        }
    }
}

/// The next frame with data; trailers are skipped, `None` at the end.
pub(super) async fn next_data<B>(body: &mut B) -> Result<Option<Bytes>, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    while !body.is_end_stream() {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => break,
            Some(Err(_)) => return Err(Refusal::Aborted),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
    Ok(None)
}

/// The whole body, for which `held` takes the room. A body that announces more than `limit` is refused before it is read.
pub(super) async fn collect<B>(body: &mut B, limit: usize, held: &mut Held) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Refusal::TooLarge { limit });
    }
    let mut collected = Collected::default();
    while let Some(data) = next_data(body).await? {
        if data.len() > limit - collected.len() {
            return Err(Refusal::TooLarge { limit });
        }
        collected.push(data, announced);
        if !held.arriving(collected.size()) {
            return Err(Refusal::NoRoom);
        }
    }
    Ok(collected.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_frame_is_not_copied() {
        let frame = Bytes::from(vec![1, 2, 3]);
        let start = frame.as_ptr();
        let mut collected = Collected::default();
        collected.push(Bytes::new(), 3);
        collected.push(frame, 3);
        assert_eq!(collected.into_bytes().as_ptr(), start);
    }

    #[test]
    fn frames_keep_their_order() {
        let mut collected = Collected::default();
        for part in [&b"ab"[..], b"", b"c", b"def"] {
            collected.push(Bytes::copy_from_slice(part), usize::MAX);
        }
        assert_eq!(collected.len(), 6);
        assert_eq!(collected.into_bytes(), &b"abcdef"[..]);
    }
}
