//! How many bytes of requests are held at a time: what has arrived of them, unpacked, and what is made of them.
//!
//! ```text
//! arrive, unpack: up to three quarters -> decide, send: up to all -> answered: given back
//! ```
//!
//! Invariants: what is held is given back with its [`Held`], however the request ends; new requests leave room for what
//! those before them become, so that work begun is seldom in vain; a request that is alone has all the room it wants, or
//! one larger than all the room would never pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Of the memory of the process, so much is for requests. The rest is for what connections buffer, for what is known of
/// instruments, and for what an allocator holds beyond what is asked of it.
const PART_OF_MEMORY: usize = 4;
/// The part of all the room in which requests arrive.
const ARRIVING: (usize, usize) = (3, 4);

/// The room of one process; clones share it.
#[derive(Debug, Clone)]
pub struct BytesInFlight(Arc<Room>);

#[derive(Debug)]
struct Room {
    held: AtomicUsize,
    most: usize,
}

/// What one request holds.
#[derive(Debug)]
pub struct Held {
    room: BytesInFlight,
    bytes: usize,
}

impl BytesInFlight {
    /// Room for `most` bytes.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Room {
            held: AtomicUsize::new(0),
            most,
        }))
    }

    /// The room of a process that may have so many bytes of memory.
    pub fn of_memory(limit: u64) -> Self {
        Self::new(usize::try_from(limit).unwrap_or(usize::MAX) / PART_OF_MEMORY)
    }

    /// The most that is held at a time, but by a request that is alone.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Held now.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Registers what is held and the most that may be; what is returned brings both up to date.
    pub fn register(&self, registry: &mut Registry) -> impl Fn() + Send + Sync + 'static {
        let (held, most) = (Gauge::<i64>::default(), Gauge::<i64>::default());
        let prefix = registry.sub_registry_with_prefix("jevmetrics_receive");
        prefix.register(
            "bytes_in_flight",
            "Bytes of requests held now, unpacked, and of what was made of them",
            held.clone(),
        );
        prefix.register(
            "bytes_in_flight_most",
            "The most bytes of requests that are held; those beyond are refused for a while",
            most.clone(),
        );
        let room = self.clone();
        move || {
            for (gauge, bytes) in [(&held, room.held()), (&most, room.most())] {
                gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        }
    }

    /// For a request of which nothing has arrived.
    pub fn begin(&self) -> Held {
        Held {
            room: self.clone(),
            bytes: 0,
        }
    }
}

impl Held {
    /// Holds `bytes` of a request that arrives, in place of what it held. Without room nothing changes, and it is false.
    #[must_use]
    pub fn arriving(&mut self, bytes: usize) -> bool {
        let (part, of) = ARRIVING;
        self.hold(bytes, self.room.0.most / of * part)
    }

    /// The same for what a request becomes.
    #[must_use]
    pub fn becoming(&mut self, bytes: usize) -> bool {
        self.hold(bytes, self.room.0.most)
    }

    fn hold(&mut self, bytes: usize, most: usize) -> bool {
        let held = &self.room.0.held;
        if bytes <= self.bytes {
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else {
            let more = bytes - self.bytes;
            let with_more = |all: usize| {
                let is_alone = all == self.bytes;
                let all = all.checked_add(more)?;
                (is_alone || all <= most).then_some(all)
            };
            if held
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_more)
                .is_err()
            {
                return false;
            }
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_memory_is_for_requests() {
        assert_eq!(BytesInFlight::of_memory(512 << 20).most(), 128 << 20);
        assert_eq!(BytesInFlight::of_memory(u64::MAX).most(), usize::MAX / 4);
    }

    #[test]
    fn what_arrives_leaves_room_for_what_it_becomes() {
        let room = BytesInFlight::new(100);
        let (mut first, mut second) = (room.begin(), room.begin());
        assert!(first.arriving(70) && second.arriving(5));
        assert!(!second.arriving(6), "three quarters are taken");
        assert_eq!(room.held(), 75, "nothing changes without room");
        assert!(first.becoming(95));
        assert!(!first.becoming(96));
        assert!(first.becoming(20), "less is always fine");
        assert!(second.arriving(55));
    }

    #[test]
    fn all_is_given_back_however_a_request_ends() {
        let room = BytesInFlight::new(100);
        let mut refused = room.begin();
        let mut held = room.begin();
        assert!(held.arriving(60) && held.becoming(90));
        assert!(!refused.becoming(11));
        drop(refused);
        assert_eq!(room.held(), 90);
        drop(held);
        assert_eq!(room.held(), 0);
    }

    #[test]
    fn a_request_that_is_alone_passes_whatever_its_size() {
        let room = BytesInFlight::new(100);
        let mut large = room.begin();
        assert!(large.arriving(1_000) && large.becoming(3_000));
        assert!(!room.begin().arriving(1), "nobody comes beside it");
        drop(large);
        let mut small = room.begin();
        assert!(small.arriving(1));
        assert!(!room.begin().arriving(1_000), "nor it beside others");
    }

    #[test]
    fn many_at_a_time_never_hold_more_than_there_is() {
        let room = BytesInFlight::new(1_000);
        std::thread::scope(|scope| {
            for size in [30, 70, 110] {
                let room = &room;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let mut held = room.begin();
                        if held.arriving(size) {
                            // Only one that is alone may be beyond, and these are smaller than all the room.
                            assert!(room.held() <= 1_000);
                            let _ = held.becoming(3 * size);
                            assert!(room.held() <= 1_000);
                        }
                    }
                });
            }
        });
        assert_eq!(room.held(), 0);
    }
}
