//! The unary gRPC message: one flag byte, four bytes of length, the message. Pure.
//!
//! Invariants: exactly one message; the limit is checked on the announced length, before the message is
//! buffered; the prefix may come in pieces, for a frame can be cut anywhere when a flow-control window ends.

use bytes::Bytes;

use super::body::Collected;
use crate::wire_messages::PREFIX_LEN;

/// What is wrong with the frames of a unary call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    /// More announced than allowed.
    #[error("message of {announced} bytes: maxRequestBytes allows {limit}")]
    TooLarge { announced: usize, limit: usize },
    /// The flag is neither 0 nor 1.
    #[error("compressed flag is {0}, must be 0 or 1")]
    Flag(u8),
    /// The call ended early.
    #[error("message ended after {got} of {expected} bytes")]
    Truncated { got: usize, expected: usize },
    /// The call carried more than one message.
    #[error("bytes after the message: a unary call carries exactly one")]
    Trailing,
    /// The message is not what the method takes.
    #[error("message is not the protobuf of this method")]
    NotProtobuf,
    /// Flag 1 without `grpc-encoding`.
    #[error("compressed flag is set but grpc-encoding names no compression")]
    FlagWithoutEncoding,
}

/// One message as it came.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) compressed: bool,
    pub(super) payload: Bytes,
}

/// Takes data frames, gives one message.
#[derive(Debug)]
pub(super) struct MessageReader {
    limit: usize,
    prefix: [u8; PREFIX_LEN],
    prefix_have: usize,
    expected: usize,
    payload: Collected,
}

impl MessageReader {
    /// `limit`: largest message accepted.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            prefix: [0; PREFIX_LEN],
            prefix_have: 0,
            expected: 0,
            payload: Collected::default(),
        }
    }

    /// The memory that it takes so far.
    pub(super) fn size(&self) -> usize {
        self.payload.size()
    }

    /// The next data frame.
    pub(super) fn push(&mut self, mut frame: Bytes) -> Result<(), FramingError> {
        if self.prefix_have < PREFIX_LEN {
            let part = frame.split_to(frame.len().min(PREFIX_LEN - self.prefix_have));
            self.prefix[self.prefix_have..self.prefix_have + part.len()].copy_from_slice(&part);
            self.prefix_have += part.len();
            if self.prefix_have < PREFIX_LEN {
                return Ok(());
            }
            self.read_prefix()?;
        }
        if frame.len() > self.expected - self.payload.len() {
            return Err(FramingError::Trailing);
        }
        self.payload.push(frame, self.expected);
        Ok(())
    }

    fn read_prefix(&mut self) -> Result<(), FramingError> {
        let [flag, length @ ..] = self.prefix;
        if flag > 1 {
            return Err(FramingError::Flag(flag));
        }
        self.expected = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if self.expected > self.limit {
            return Err(FramingError::TooLarge {
                announced: self.expected,
                limit: self.limit,
            });
        }
        Ok(())
    }

    /// The call has ended.
    pub(super) fn finish(self) -> Result<Message, FramingError> {
        if self.prefix_have < PREFIX_LEN {
            return Err(FramingError::Truncated {
                got: self.prefix_have,
                expected: PREFIX_LEN,
            });
        }
        if self.payload.len() < self.expected {
            return Err(FramingError::Truncated {
                got: self.payload.len(),
                expected: self.expected,
            });
        }
        Ok(Message {
            compressed: self.prefix[0] == 1,
            payload: self.payload.into_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire_messages::prefix;

    fn framed(payload: &[u8]) -> Vec<u8> {
        [&prefix(false, payload.len())[..], payload].concat()
    }

    fn read(limit: usize, frames: &[&[u8]]) -> Result<Message, FramingError> {
        let mut reader = MessageReader::new(limit);
        for frame in frames {
            reader.push(Bytes::copy_from_slice(frame))?;
        }
        reader.finish()
    }

    #[test]
    fn a_message_survives_every_way_to_cut_it_in_three() {
        let bytes = framed(b"payload");
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let frames = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(
                    read(7, &frames).unwrap().payload,
                    &b"payload"[..],
                    "cut at {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn a_message_in_one_frame_is_not_copied() {
        let bytes = Bytes::from(framed(b"payload"));
        let mut reader = MessageReader::new(7);
        reader.push(bytes.clone()).unwrap();
        assert_eq!(
            reader.finish().unwrap().payload.as_ptr(),
            bytes[PREFIX_LEN..].as_ptr()
        );
    }

    #[test]
    fn an_empty_message_is_a_message() {
        assert!(read(7, &[&framed(b"")]).unwrap().payload.is_empty());
    }

    #[test]
    fn the_announced_length_is_enough_to_refuse() {
        let error = read(6, &[&prefix(false, 7)]).unwrap_err();
        assert_eq!(
            error,
            FramingError::TooLarge {
                announced: 7,
                limit: 6
            }
        );
    }

    #[test]
    fn nothing_but_exactly_one_message_is_accepted() {
        let one = framed(b"abc");
        assert_eq!(
            read(9, &[]).unwrap_err(),
            FramingError::Truncated { got: 0, expected: 5 }
        );
        assert_eq!(
            read(9, &[&one[..4]]).unwrap_err(),
            FramingError::Truncated { got: 4, expected: 5 }
        );
        assert_eq!(
            read(9, &[&one[..7]]).unwrap_err(),
            FramingError::Truncated { got: 2, expected: 3 }
        );
        assert_eq!(read(9, &[&one, &one]).unwrap_err(), FramingError::Trailing);
        assert_eq!(
            read(9, &[&[&one[..], &[0]].concat()]).unwrap_err(),
            FramingError::Trailing
        );
        assert_eq!(read(9, &[&[2, 0, 0, 0, 0]]).unwrap_err(), FramingError::Flag(2));
    }
}
