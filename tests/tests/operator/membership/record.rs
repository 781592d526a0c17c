//! What happened, in the order in which watches have shown it: every table, and when pods became ready and left.
//!
//! Invariant: both watches are read by one process with one clock, so that what lies between a pod's deletion and the
//! table without it is what the operator and the API server took, not what the test took to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use jevmetrics_api::routing::RoutingTable;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, ResourceExt as _};
use tokio::task::AbortHandle;

use super::{LIVE, is_living};
use crate::stage::Stage;
use crate::voices::Voices;

/// A data plane sleeps before it stops, so that the table without it is out before.
pub(super) const PRE_STOP: Duration = Duration::from_secs(5);
/// Whose moves are counted.
const KEYS: u64 = 10_000;

/// A watch of the live object and one of its pods; they end when it is dropped.
pub(super) struct Record {
    log: Arc<Mutex<Log>>,
    watches: [AbortHandle; 2],
}

#[derive(Debug, Default)]
struct Log {
    tables: Vec<(Instant, Arc<RoutingTable>)>,
    /// Since when pods are ready, by uid.
    ready: BTreeMap<String, Instant>,
    /// Since when pods are being deleted, by uid.
    leaving: BTreeMap<String, Instant>,
    /// Since when pods are gone, by uid.
    gone: BTreeMap<String, Instant>,
}

impl Record {
    /// Watches from now on. Pods take up each table of their policy.
    pub(super) fn start(stage: &Stage, voices: Voices) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let lives: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.namespace);
        let live = Config::default().fields(&format!("metadata.name={LIVE}"));
        let (tables, namespace) = (Arc::clone(&log), stage.namespace.clone());
        let see_live = move |object: &ConfigMap| {
            let text = object.data.as_ref().and_then(|data| data.get("routing"));
            let Some(Ok(table)) = text.map(|text| RoutingTable::from_routing_yaml(text)) else {
                return;
            };
            if table.header().cluster.namespace == namespace {
                voices.all_reach(table.epoch());
            }
            let mut log = lock(&tables);
            if log.tables.last().is_none_or(|(_, last)| **last != table) {
                log.tables.push((Instant::now(), Arc::new(table)));
            }
        };
        let pods = watcher(stage.pods.clone(), Config::default());
        let changes = Arc::clone(&log);
        let see_pod = move |event: &Event<Pod>| match event {
            Event::Apply(pod) | Event::InitApply(pod) => lock(&changes).see(pod),
            Event::Delete(pod) => lock(&changes).miss(pod),
            Event::Init | Event::InitDone => (),
        };
        let lives = watcher(lives, live).default_backoff().applied_objects();
        let pods = pods.default_backoff();
        let watches = [
            tokio::spawn(each(lives, see_live)),
            tokio::spawn(each(pods, see_pod)),
        ];
        Self {
            log,
            watches: watches.map(|watch| watch.abort_handle()),
        }
    }

    /// The table that was seen last.
    pub(super) fn latest(&self) -> Option<Arc<RoutingTable>> {
        lock(&self.log).tables.last().map(|(_, table)| Arc::clone(table))
    }

    /// The uids of the pods that are ready and stay.
    pub(super) fn living(&self) -> BTreeSet<String> {
        let log = lock(&self.log);
        let staying = log.ready.keys().filter(|uid| !log.leaving.contains_key(*uid));
        staying.cloned().collect()
    }

    /// All tables in their order.
    pub(super) fn tables(&self) -> Vec<Arc<RoutingTable>> {
        let log = lock(&self.log);
        log.tables.iter().map(|(_, table)| Arc::clone(table)).collect()
    }

    /// The table with this epoch and all that came after it.
    pub(super) fn since(&self, epoch: u64) -> Vec<Arc<RoutingTable>> {
        let mut tables = self.tables();
        let first = tables.iter().position(|table| table.epoch() == epoch);
        tables.drain(..first.unwrap());
        tables
    }

    /// How many tables came at most within a minute, since the one with this epoch; that one is not counted.
    pub(super) fn most_in_a_minute(&self, epoch: u64) -> usize {
        let log = lock(&self.log);
        let tables = log.tables.iter().filter(|(_, table)| table.epoch() > epoch);
        let times: Vec<Instant> = tables.map(|(at, _)| *at).collect();
        most_within(&times, |from, to| {
            to.duration_since(*from) < Duration::from_mins(1)
        })
    }

    /// For each pod that was deleted since `start` while it owned a slot: how long it went on owning it.
    ///
    /// Asserts that each was out of the table before it was gone.
    pub(super) fn leave_times(&self, start: Instant) -> Vec<Duration> {
        let log = lock(&self.log);
        let mut times = Vec::new();
        for (uid, &left_at) in log.leaving.iter().filter(|(_, at)| **at >= start) {
            let (before, after): (Vec<_>, Vec<_>) = log.tables.iter().partition(|(at, _)| *at <= left_at);
            let owned = before
                .last()
                .is_some_and(|(_, table)| table.slot_of(uid).is_some());
            if !owned {
                continue;
            }
            let without = after.iter().find(|(_, table)| table.slot_of(uid).is_none());
            let out_at = without.map(|(at, _)| *at);
            if let Some(&gone_at) = log.gone.get(uid) {
                let is_before = out_at.is_some_and(|at| at < gone_at);
                assert!(is_before, "{uid} was gone and still owned a slot");
            }
            times.extend(out_at.map(|at| at.duration_since(left_at)));
        }
        times
    }

    /// For each pod that became ready since `start` and got a slot: how long that took.
    pub(super) fn join_times(&self, start: Instant) -> Vec<Duration> {
        let log = lock(&self.log);
        let ready = log.ready.iter().filter(|(_, at)| **at >= start);
        let joined = ready.filter_map(|(uid, ready_at)| {
            let owns = |(_, table): &&(Instant, Arc<RoutingTable>)| table.slot_of(uid).is_some();
            let (at, _) = log.tables.iter().find(owns)?;
            Some(at.saturating_duration_since(*ready_at))
        });
        joined.collect()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.watches.iter().for_each(AbortHandle::abort);
    }
}

impl Log {
    fn see(&mut self, pod: &Pod) {
        let (Some(uid), now) = (pod.uid(), Instant::now()) else {
            return;
        };
        if pod.metadata.deletion_timestamp.is_some() {
            self.leaving.entry(uid).or_insert(now);
        } else if is_living(pod) {
            self.ready.entry(uid).or_insert(now);
        } else {
            self.ready.remove(&uid);
        }
    }

    fn miss(&mut self, pod: &Pod) {
        let (Some(uid), now) = (pod.uid(), Instant::now()) else {
            return;
        };
        self.leaving.entry(uid.clone()).or_insert(now);
        self.gone.insert(uid, now);
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn each<K>(objects: impl Stream<Item = Result<K, Error>>, mut see: impl FnMut(&K)) {
    let mut objects = std::pin::pin!(objects);
    while let Some(object) = objects.next().await {
        // A watch that fails is begun anew; a table that was missed leaves a gap in the epochs.
        if let Ok(object) = object {
            see(&object);
        }
    }
}

/// The most of `moments`, which are sorted, of which the first and the last are `near`.
pub(super) fn most_within<T>(moments: &[T], near: impl Fn(&T, &T) -> bool) -> usize {
    let mut most = 0;
    for (index, first) in moments.iter().enumerate() {
        let near = moments[index..].iter().take_while(|moment| near(first, moment));
        most = most.max(near.count());
    }
    most
}

/// Tables of one policy that nobody else has touched: each epoch follows the one before, so none was missed.
pub(super) fn assert_gapless(tables: &[Arc<RoutingTable>]) {
    for pair in tables.windows(2) {
        assert_eq!(pair[1].epoch(), pair[0].epoch() + 1);
    }
}

/// How often a key has another owner, by table; keys are spread evenly.
///
/// Asserts that each move has a reason: the pod has gone from the table, or the one that has the key now is new in it.
pub(super) fn moves(tables: &[Arc<RoutingTable>]) -> f64 {
    let (mut moves, mut owners): (u32, Vec<&str>) = (0, Vec::new());
    for (index, table) in tables.iter().enumerate() {
        let now: Vec<&str> = keys().map(|key| table.owner(key).uid.as_str()).collect();
        for (before, now) in owners.iter().zip(&now).filter(|(before, now)| *before != *now) {
            let is_needless = table.slot_of(before).is_some() && tables[index - 1].slot_of(now).is_some();
            assert!(
                !is_needless,
                "a key went from {before} to {now}, epoch {}",
                table.epoch()
            );
            moves += 1;
        }
        owners = now;
    }
    f64::from(moves) / f64::from(u32::try_from(KEYS).unwrap())
}

/// Hashes, as affinity keys are.
fn keys() -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(8);
    (0..KEYS).map(move |_| random.u64(..))
}

/// The middle and the highest but one in a hundred.
pub(super) fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else {
        return "none".to_owned();
    };
    let (middle, high) = (times[last / 2], times[(times.len() * 99).div_ceil(100) - 1]);
    format!("{} of them, p50 {middle:.2?}, p99 {high:.2?}", times.len())
}
