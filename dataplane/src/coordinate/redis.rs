//! The room of replicas that share: every question about admissions and assessments goes to Redis.
//!
//! ```text
//! call --> way? --> (connect) --> script, within its time --> reply | trouble
//! ```
//! Invariants: without an answer of Redis there is no admission; a call takes at most three times the timeout (its turn
//! to connect, connecting, the script), and those that show and take away a heartbeat have less time; one connection
//! carries all calls; one log line a change of state.

mod presence;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::redis::Value;
use arc_swap::ArcSwap;
use jevmetrics_otlp::identity::Identity;
use tokio::sync::Mutex as Turn;
use tokio::time::timeout;

use super::block::Block;
use super::connection::{Connection, Server};
use super::keys::{Keys, Namespace, Version};
use super::link::{Change, Link, Use, Way};
use super::reply::{self, Admitted, LookedUp, Terms};
use super::script::{ADMIT, FAIL, LOOKUP, PUBLISH, RELEASE, Script};
use super::stats::Stats;
use super::trouble::Trouble;
use super::unclear::{Perhaps, Unclear};
use super::{
    Admission, Answering, Coordinate, LOOK_UP_BATCH, Lease, LookUp, Pauses, Publication, Setback, Verdict,
    payload,
};
use crate::chance::random;
use crate::clock::now;
use crate::infer::failure::Scope;

/// How long a connection is used before its name is looked up anew; up to a quarter is taken off by chance.
const RENEW: Duration = Duration::from_mins(10);
/// When to look again if there was no successor.
const RENEW_AGAIN: Duration = Duration::from_mins(1);
/// What a heartbeat may wait for connecting, and for its script: it is of no more use then.
const SHOW_WITHIN: Duration = Duration::from_secs(4);
/// What leaving may wait for each: there is time for another attempt, over a new connection.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// What the room needs.
pub struct RedisConfig {
    /// Where Redis is.
    pub server: Server,
    /// For connecting, and for every command.
    pub timeout: Duration,
    /// Under which name replicas share.
    pub namespace: Namespace,
    /// What their assessments have in common.
    pub version: Version,
    /// Lifetime of assessments.
    pub ttl: Duration,
    /// Tells this process's admissions from all others: random, new for each process, without spaces.
    pub token_prefix: String,
    /// What calls are counted in.
    pub stats: Stats,
}

/// See the head of the module.
pub struct Redis {
    server: Server,
    timeout: Duration,
    keys: Keys,
    ttl: Duration,
    /// The budget in use, or why there is none.
    block: ArcSwap<Result<Block, String>>,
    stats: Stats,
    token_prefix: String,
    tokens: AtomicU64,
    link: Mutex<Link<Shared>>,
    connecting: Turn<()>,
    unclear: Unclear,
}

/// A connection by identity: two are the same if they are one.
#[derive(Clone)]
struct Shared(Arc<Connection>);

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One run of a script.
struct Call<'a> {
    script: &'static Script,
    purpose: Use,
    keys: &'a [&'a str],
    arguments: &'a [&'a str],
}

impl Redis {
    /// Connects with the first call.
    pub fn new(config: RedisConfig) -> Self {
        Self {
            server: config.server,
            timeout: config.timeout,
            keys: Keys::new(&config.namespace, config.version),
            ttl: config.ttl,
            block: ArcSwap::from_pointee(Err("none was read yet".to_owned())),
            stats: config.stats,
            token_prefix: config.token_prefix,
            tokens: AtomicU64::new(0),
            link: Mutex::default(),
            connecting: Turn::new(()),
            unclear: Unclear::default(),
        }
    }

    /// Puts another budget in use for the calls that follow; with none, there are none, and why is said.
    pub fn set_block(&self, block: Result<Block, String>) {
        self.block.store(Arc::new(block));
    }

    /// Why there is no budget in use.
    pub fn refused(&self) -> Option<String> {
        self.block.load().as_ref().as_ref().err().cloned()
    }

    /// The budget in use.
    pub fn block(&self) -> Option<Block> {
        self.block.load().as_ref().as_ref().ok().copied()
    }

    fn budget(&self) -> Result<Block, Trouble> {
        Result::clone(&self.block.load()).map_err(Trouble::Budget)
    }

    /// What happens to keys of a full server, if it told us; shown to people.
    pub fn eviction_policy(&self) -> Option<String> {
        let way = self.link().way(Use::Finish, now());
        match way {
            Way::Ready(connection) | Way::Old(connection) => {
                connection.0.eviction_policy().map(str::to_owned)
            }
            Way::Connect | Way::Closed => None,
        }
    }

    fn link(&self) -> MutexGuard<'_, Link<Shared>> {
        // Each change is one step: a panic leaves nothing half done. Never held across an await.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, call: Call<'_>) -> Result<Value, Trouble> {
        let result = self.run_script(call).await;
        if let Err(trouble) = &result {
            self.stats.count_trouble(trouble);
        }
        result
    }

    async fn run_script(&self, call: Call<'_>) -> Result<Value, Trouble> {
        let connection = self.connection(call.purpose).await?;
        self.stats.count_round_trip(call.script.name);
        let mut multiplexed = connection.0.multiplexed();
        let running = call.script.run(&mut multiplexed, call.keys, call.arguments);
        let result = match timeout(self.time_of(call.purpose), running).await {
            Ok(result) => result.map_err(|error| Trouble::of_command(&error)),
            Err(_) => Err(Trouble::Timeout),
        };
        match &result {
            Ok(_) => {
                let change = self.link().succeeded(call.purpose);
                report(change);
            }
            Err(trouble) => self.note(Some(&connection), call.purpose, trouble),
        }
        result
    }

    async fn connection(&self, purpose: Use) -> Result<Shared, Trouble> {
        let way = self.link().way(purpose, now());
        match way {
            Way::Ready(connection) => return Ok(connection),
            Way::Closed => return Err(Trouble::Backoff),
            Way::Old(connection) => {
                // One call renews; the others go on meanwhile.
                let Ok(_turn) = self.connecting.try_lock() else {
                    return Ok(connection);
                };
                return Ok(self.renew(self.time_of(purpose)).await.unwrap_or(connection));
            }
            Way::Connect => {}
        }
        // Who leaves does not wait for somebody with more time.
        let _turn = match purpose {
            Use::Leave => None,
            _ => Some(self.connecting.lock().await),
        };
        // Whoever had the turn before may have connected, or failed to.
        let way = self.link().way(purpose, now());
        match way {
            Way::Ready(connection) | Way::Old(connection) => return Ok(connection),
            Way::Closed => return Err(Trouble::Backoff),
            Way::Connect => {}
        }
        match self.server.connect(self.time_of(purpose)).await {
            Ok(connection) => Ok(self.take_over(connection)),
            Err(trouble) => {
                self.note(None, purpose, &trouble);
                Err(trouble)
            }
        }
    }

    /// For connecting, and for the script.
    fn time_of(&self, purpose: Use) -> Duration {
        match purpose {
            Use::Show => self.timeout.min(SHOW_WITHIN),
            Use::Leave => self.timeout.min(LEAVE_WITHIN),
            Use::Read | Use::Write | Use::Finish | Use::List => self.timeout,
        }
    }

    async fn renew(&self, time: Duration) -> Option<Shared> {
        match self.server.connect(time).await {
            Ok(connection) => Some(self.take_over(connection)),
            Err(trouble) => {
                tracing::debug!(%trouble, "the old connection to Redis stays in use");
                self.link().keep(now() + RENEW_AGAIN);
                None
            }
        }
    }

    fn take_over(&self, connection: Connection) -> Shared {
        let connection = Shared(Arc::new(connection));
        let renew = now() + RENEW.mul_f64(1.0 - random() / 4.0);
        self.link().connected(connection.clone(), renew);
        connection
    }

    fn note(&self, connection: Option<&Shared>, purpose: Use, trouble: &Trouble) {
        if *trouble == Trouble::Timeout && self.time_of(purpose) < self.timeout {
            if let Some(connection) = connection {
                self.link().leave_behind(connection);
            }
            return;
        }
        let change = self.link().failed(connection, purpose, trouble, now(), random());
        report(change);
    }

    async fn look_up_all(&self, identities: &[Identity]) -> Result<LookUp, Trouble> {
        let mut found = Vec::with_capacity(identities.len());
        for batch in identities.chunks(LOOK_UP_BATCH) {
            match self.look_up_batch(batch).await? {
                LookedUp::Found(entries) => found.extend(entries),
                LookedUp::Mismatch(mismatch) => return Ok(LookUp::Mismatch(mismatch)),
            }
        }
        Ok(LookUp::Found(found))
    }

    async fn look_up_batch(&self, identities: &[Identity]) -> Result<LookedUp, Trouble> {
        let block = self.budget()?;
        let scores: Vec<String> = identities
            .iter()
            .map(|identity| self.keys.score(identity))
            .collect();
        let mut keys = vec![self.keys.budget.as_str()];
        keys.extend(scores.iter().map(String::as_str));
        let began = now();
        let value = self
            .run(Call {
                script: &LOOKUP,
                purpose: Use::Read,
                keys: &keys,
                arguments: &[&block.to_string()],
            })
            .await?;
        let read = reply::looked_up(&value, identities.len(), self.terms(block, began));
        self.believe(Use::Read, read)
    }

    async fn admit_one(&self, identity: Identity, least: Duration) -> Result<Admission, Trouble> {
        match self.try_admit(identity, least).await? {
            // Written anew by whoever gets the lease: nothing lives longer than `ttl`, so nothing is a hit.
            (Admitted::Unbelievable, _) if least < self.ttl => {
                tracing::debug!("a shared assessment is not of the agreed form: asking anew");
                let (admitted, lease) = self.try_admit(identity, self.ttl).await?;
                admission(admitted, lease)
            }
            (admitted, lease) => admission(admitted, lease),
        }
    }

    async fn try_admit(&self, identity: Identity, least: Duration) -> Result<(Admitted, Lease), Trouble> {
        self.give_back_unclear().await;
        let block = self.budget()?;
        // What connecting takes is not taken from the time of the question.
        self.connection(Use::Write).await?;
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}-{number}", self.token_prefix);
        let began = now();
        let pending = self.unclear.begin(Perhaps {
            identity,
            token: token.clone(),
            // Given at the latest when the last bit of the call was.
            ends: began + block.lease + 3 * self.timeout,
        });
        let result = self
            .run(Call {
                script: &ADMIT,
                purpose: Use::Write,
                keys: &[
                    &self.keys.budget,
                    &self.keys.leases,
                    &self.keys.admissions,
                    &self.keys.cooldown,
                    &self.keys.lease(&identity),
                    &self.keys.score(&identity),
                ],
                arguments: &[
                    &block.to_string(),
                    &token,
                    &self.ttl.as_millis().to_string(),
                    &least.as_millis().to_string(),
                ],
            })
            .await;
        if !matches!(result, Err(Trouble::Timeout | Trouble::Closed)) {
            pending.settle();
        }
        let value = result?;
        let read = reply::admitted(&value, self.terms(block, began));
        let lease = Lease {
            identity,
            token,
            asked_at: began,
            deadline: Some(began + block.lease.saturating_sub(self.timeout)),
        };
        Ok((self.believe(Use::Write, read)?, lease))
    }

    /// Ends leases that nobody knows of. Stops at the first failure: there is a next call.
    async fn give_back_unclear(&self) {
        while let Some(admission) = self.unclear.take(now()) {
            let pending = self.unclear.begin(admission.clone());
            let lease = self.keys.lease(&admission.identity);
            let released = self
                .run(Call {
                    script: &RELEASE,
                    purpose: Use::Finish,
                    keys: &[&self.keys.leases, &lease],
                    arguments: &[&admission.token],
                })
                .await;
            if released.is_err() {
                return;
            }
            pending.settle();
        }
    }

    async fn publish_one(&self, lease: &Lease, verdict: &Verdict) -> Result<Publication, Trouble> {
        let kind = match verdict {
            Verdict::Assessed { .. } => "answers",
            Verdict::Refused => "refusal",
        };
        let began = now();
        let value = self
            .run(Call {
                script: &PUBLISH,
                purpose: Use::Finish,
                keys: &[
                    &self.keys.leases,
                    &self.keys.cooldown,
                    &self.keys.lease(&lease.identity),
                    &self.keys.score(&lease.identity),
                ],
                arguments: &[
                    &lease.token,
                    &payload::encode(verdict),
                    &self.ttl.as_millis().to_string(),
                    kind,
                ],
            })
            .await?;
        let published = self.believe(Use::Finish, reply::published(&value))?;
        Ok(if published {
            Publication::Published(began + self.ttl)
        } else {
            Publication::Late
        })
    }

    async fn fail_one(&self, lease: &Lease, setback: Setback) -> Result<Duration, Trouble> {
        let kind = match setback.cause.scope() {
            Scope::Configuration => "configuration",
            Scope::Passing | Scope::Instrument => "passing",
        };
        let wait = setback.wait.unwrap_or_default().as_millis().to_string();
        let value = self
            .run(Call {
                script: &FAIL,
                purpose: Use::Finish,
                keys: &[
                    &self.keys.leases,
                    &self.keys.cooldown,
                    &self.keys.lease(&lease.identity),
                ],
                arguments: &[&lease.token, &wait, kind],
            })
            .await?;
        self.believe(Use::Finish, reply::cooling(&value))
    }

    async fn release_one(&self, lease: &Lease) -> Result<(), Trouble> {
        let value = self
            .run(Call {
                script: &RELEASE,
                purpose: Use::Finish,
                keys: &[&self.keys.leases, &self.keys.lease(&lease.identity)],
                arguments: &[&lease.token],
            })
            .await?;
        self.believe(Use::Finish, reply::released(&value))
    }

    fn terms(&self, block: Block, began: Instant) -> Terms {
        Terms {
            block,
            ttl: self.ttl,
            asked_at: began,
            answered_at: now(),
        }
    }

    /// An answer of another form is a failure like any other, or it would be asked for again at once.
    fn believe<T>(&self, purpose: Use, read: Result<T, Trouble>) -> Result<T, Trouble> {
        if let Err(trouble) = &read {
            let mut link = self.link();
            let present = match link.way(Use::Finish, now()) {
                Way::Ready(connection) | Way::Old(connection) => Some(connection),
                Way::Connect | Way::Closed => None,
            };
            let change = link.failed(present.as_ref(), purpose, trouble, now(), random());
            drop(link);
            report(change);
        }
        read
    }
}

impl Coordinate for Redis {
    fn is_shared(&self) -> bool {
        true
    }

    fn look_up<'a>(&'a self, identities: &'a [Identity]) -> Answering<'a, LookUp> {
        Box::pin(self.look_up_all(identities))
    }

    fn admit(&self, identity: Identity, least: Duration) -> Answering<'_, Admission> {
        Box::pin(self.admit_one(identity, least))
    }

    fn publish<'a>(&'a self, lease: &'a Lease, verdict: &'a Verdict) -> Answering<'a, Publication> {
        Box::pin(self.publish_one(lease, verdict))
    }

    fn fail<'a>(&'a self, lease: &'a Lease, setback: Setback) -> Answering<'a, Duration> {
        Box::pin(self.fail_one(lease, setback))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answering<'a, ()> {
        Box::pin(self.release_one(lease))
    }

    fn trouble(&self) -> Option<Trouble> {
        self.link().trouble().cloned()
    }

    fn generation(&self) -> u64 {
        self.block().map_or(0, |block| block.generation)
    }

    fn close(&self) -> Answering<'_, ()> {
        Box::pin(async {
            self.give_back_unclear().await;
            Ok(())
        })
    }

    fn pauses(&self) -> Pauses {
        let (link, now) = (self.link(), now());
        Pauses {
            reading: link.pause(Use::Read, now),
            writing: link.pause(Use::Write, now),
        }
    }
}

fn admission(admitted: Admitted, lease: Lease) -> Result<Admission, Trouble> {
    Ok(match admitted {
        Admitted::Hit(shared) => Admission::Hit(shared),
        Admitted::Owner => Admission::Owner(lease),
        Admitted::Wait(wait) => Admission::Wait(wait),
        Admitted::Mismatch(mismatch) => Admission::Mismatch(mismatch),
        Admitted::Unbelievable => return Err(Trouble::Answer),
    })
}

fn report(change: Option<Change>) {
    match change {
        None => {}
        Some(Change::Failing(trouble)) => {
            tracing::warn!(%trouble, "Redis cannot be used: nothing new is asked, everything new is kept");
        }
        Some(Change::Recovered) => tracing::info!("Redis works again"),
    }
}

#[cfg(test)]
#[path = "redis_tests.rs"]
mod tests;
