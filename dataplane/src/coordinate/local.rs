//! The room of a process by itself: its own budget and cooldown, nothing shared.

use std::future::ready;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jevmetrics_otlp::identity::Identity;

use super::{Admission, Answering, Coordinate, Lease, LookUp, Publication, Setback, Verdict, Wait};
use crate::clock::now;
use crate::infer::bucket::TokenBucket;
use crate::infer::cooldown::{Cooldown, Failed};
use crate::infer::failure::Scope;

/// See the head of the module. Leases have no end: whoever asks is in this process and bounded by its own deadline.
pub struct Local {
    pace: Mutex<Pace>,
    ttl: Duration,
    tokens: AtomicU64,
}

struct Pace {
    bucket: TokenBucket,
    cooldown: Cooldown,
}

impl Local {
    /// A room with this budget, in which assessments live for `ttl`.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32, ttl: Duration) -> Self {
        Self {
            pace: Mutex::new(Pace {
                bucket: TokenBucket::new(per_second, burst),
                cooldown: Cooldown::default(),
            }),
            ttl,
            tokens: AtomicU64::new(0),
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        // Each change is one step: a panic leaves nothing half done.
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Coordinate for Local {
    fn is_shared(&self) -> bool {
        false
    }

    fn look_up<'a>(&'a self, identities: &'a [Identity]) -> Answering<'a, LookUp> {
        Box::pin(ready(Ok(LookUp::Found(vec![None; identities.len()]))))
    }

    fn admit(&self, identity: Identity, _least: Duration) -> Answering<'_, Admission> {
        let now = now();
        let mut pace = self.pace();
        let cooling = pace.cooldown.remaining(now);
        let admission = if !cooling.is_zero() {
            Admission::Wait(Wait::Cooldown(cooling))
        } else if let Err(wait) = pace.bucket.take(now) {
            Admission::Wait(Wait::Rate(wait))
        } else {
            Admission::Owner(Lease {
                identity,
                token: self.tokens.fetch_add(1, Ordering::Relaxed).to_string(),
                asked_at: now,
                deadline: None,
            })
        };
        Box::pin(ready(Ok(admission)))
    }

    fn publish<'a>(&'a self, lease: &'a Lease, verdict: &'a Verdict) -> Answering<'a, Publication> {
        if matches!(verdict, Verdict::Assessed { .. }) {
            self.pace().cooldown.succeeded(lease.asked_at);
        }
        Box::pin(ready(Ok(Publication::Published(now() + self.ttl))))
    }

    fn fail<'a>(&'a self, lease: &'a Lease, setback: Setback) -> Answering<'a, Duration> {
        let now = now();
        let mut pace = self.pace();
        pace.cooldown.failed(
            now,
            Failed {
                asked_at: lease.asked_at,
                configuration: setback.cause.scope() == Scope::Configuration,
                wait: setback.wait,
            },
        );
        Box::pin(ready(Ok(pace.cooldown.remaining(now))))
    }

    fn release<'a>(&'a self, _lease: &'a Lease) -> Answering<'a, ()> {
        Box::pin(ready(Ok(())))
    }
}
