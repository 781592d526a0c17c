//! Compression of outgoing messages.

use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;

/// How messages are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// Gzip, level 1.
    Gzip,
}

/// Level 1 is 2.5 to 4.4 times as fast as the usual 6 for one to three points of ratio on telemetry;
/// compression is the dearest step of a hop that compresses.
const LEVEL: u32 = 1;

/// Above this, compression (milliseconds) moves off the threads that serve connections.
const INLINE_BYTES: usize = 256 * 1024;

/// A message ready for the wire.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    pub(super) payload: Bytes,
    pub(super) compressed: bool,
}

/// Packs a message; it goes as it is if that fails.
pub(super) async fn pack(compression: Compression, body: Bytes) -> Packed {
    let packed = match compression {
        Compression::None => None,
        Compression::Gzip if body.len() <= INLINE_BYTES => gzip(&body),
        Compression::Gzip => {
            let body = body.clone();
            tokio::task::spawn_blocking(move || gzip(&body))
                .await
                .ok()
                .flatten()
        }
    };
    match packed {
        Some(payload) => Packed {
            payload,
            compressed: true,
        },
        None => Packed {
            payload: body,
            compressed: false,
        },
    }
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let room = Vec::with_capacity(plain.len() / 4 + 64);
    let mut encoder = GzEncoder::new(room, flate2::Compression::new(LEVEL));
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}
