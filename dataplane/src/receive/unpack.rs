//! Bodies become plain ones, whatever they were packed with.
//!
//! Invariants: never more than `limit` bytes (and one, to notice it) are produced; the first buffer is
//! bounded by what came in, so that a few bytes cannot claim much memory. Several members in a row are one
//! body, as gzip tools and other servers have it; anything else after a member is an error.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use super::in_flight::Held;
use super::media_type::Coding;
use super::refusal::Refusal;

/// Metrics shrink by 4 to 7; beyond this the buffer grows as it fills.
const USUAL_RATIO: usize = 16;

/// Above this many packed bytes unpacking (milliseconds) moves off the threads that serve connections.
const INLINE_BYTES: usize = 256 * 1024;

/// The plain body. What `held` had room for is the one that came, then the plain one.
pub(super) async fn unpack(
    coding: Coding,
    body: Bytes,
    limit: usize,
    held: Held,
) -> Result<(Bytes, Held), Refusal> {
    match coding {
        Coding::Identity if body.len() > limit => Err(Refusal::UnpackedTooLarge { limit }),
        Coding::Identity => Ok((body, held)),
        Coding::Gzip => gunzip(body, limit, held).await,
    }
}

/// Unpacks a body, off the calling task if it is large.
async fn gunzip(packed: Bytes, limit: usize, mut held: Held) -> Result<(Bytes, Held), Refusal> {
    let is_small = packed.len() <= INLINE_BYTES;
    let unpack = move || {
        let unpacked = gunzip_now(&packed, limit, &mut held)?;
        drop(packed);
        // Less than before.
        let _ = held.arriving(unpacked.capacity());
        Ok((Bytes::from(unpacked), held))
    };
    if is_small {
        return unpack();
    }
    // The task ends early only if it panics or the runtime stops.
    tokio::task::spawn_blocking(unpack)
        .await
        .unwrap_or(Err(Refusal::Aborted))
}

fn gunzip_now(packed: &[u8], limit: usize, held: &mut Held) -> Result<Vec<u8>, Refusal> {
    let most = limit.saturating_add(1);
    let mut decoder = MultiGzDecoder::new(packed);
    let first = announced(packed)
        .min(packed.len() * USUAL_RATIO)
        .clamp(64, most.max(64));
    let mut room_for = |bytes: usize| {
        let has_room = held.arriving(packed.len() + bytes);
        has_room.then_some(()).ok_or(Refusal::NoRoom)
    };
    room_for(first)?;
    let mut unpacked = Vec::with_capacity(first);
    loop {
        let room = (unpacked.capacity() - unpacked.len()).min(most - unpacked.len());
        let room_bytes = u64::try_from(room).unwrap_or(u64::MAX);
        let read = decoder.by_ref().take(room_bytes).read_to_end(&mut unpacked);
        let read = read.map_err(|_| Refusal::BrokenGzip)?;
        if unpacked.len() > limit {
            return Err(Refusal::UnpackedTooLarge { limit });
        }
        if read < room {
            return Ok(unpacked);
        }
        let more = unpacked.len().max(64).min(most - unpacked.len());
        room_for(unpacked.len() + more)?;
        unpacked.reserve_exact(more);
    }
}

/// The length in the last member's trailer, one more so that the end is noticed without growing.
fn announced(packed: &[u8]) -> usize {
    let length = packed
        .last_chunk::<4>()
        .map_or(0, |length| u32::from_le_bytes(*length));
    usize::try_from(length).unwrap_or(usize::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::super::in_flight::BytesInFlight;
    use super::*;

    fn gunzipped(packed: &[u8], limit: usize) -> Result<Vec<u8>, Refusal> {
        gunzip_now(packed, limit, &mut BytesInFlight::new(1 << 30).begin())
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_up_to_the_limit_is_unpacked() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        for length in [0, 1, 63, 64, 65, 1_000, plain.len()] {
            let plain = &plain[..length];
            assert_eq!(gunzipped(&gzip(plain), length).unwrap(), plain, "{length}");
        }
    }

    #[test]
    fn one_byte_more_than_the_limit_is_refused() {
        for length in [1, 64, 65, 5_000_000] {
            let packed = gzip(&vec![0; length]);
            let error = gunzipped(&packed, length - 1).unwrap_err();
            assert!(
                matches!(error, Refusal::UnpackedTooLarge { limit } if limit == length - 1),
                "{length}"
            );
        }
    }

    #[test]
    fn several_members_are_one_body() {
        let packed = [gzip(b"first "), gzip(b""), gzip(&[b'x'; 4_000])].concat();
        assert_eq!(gunzipped(&packed, 10_000).unwrap().len(), 4_006);
    }

    #[test]
    fn a_false_trailer_or_missing_bytes_or_garbage_is_broken() {
        let whole = gzip(&[7; 500]);
        let mut false_length = whole.clone();
        *false_length.last_mut().unwrap() = 0x7f;
        let cut = &whole[..whole.len() - 1];
        let garbage = [&whole[..], b"garbage"].concat();
        for packed in [&false_length[..], cut, &garbage, b"not gzip", b""] {
            assert!(matches!(
                gunzipped(packed, 10_000).unwrap_err(),
                Refusal::BrokenGzip
            ));
        }
    }
}
