//! From watches to reconciles.
//!
//! ```text
//! policies ──┐
//! owned ─────┼─▶ stores, and the policy that a change concerns ─▶ coalesce ─▶ reconcile
//! pods ──────┤
//! polls ─────┘
//! ```
//! A change is acted on 250 ms after it at the latest, or when the reconcile ends that is under way, whatever else goes
//! on changing.
//! Starts when this replica begins to lead, with lists made anew, so nothing that happened before is missed.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::SelectAll;
use futures_util::{Stream, StreamExt as _};
use jevmetrics_api::policy::JevMetricsPolicy;
use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{PredicateConfig, WatchStreamExt as _, reflector};
use kube::{Api, Client, Resource, ResourceExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::coalesce::coalesce;
use crate::context::{Context, HealthBoard, MemberBoard, Memories, VoiceBoard};
use crate::deleted::Deleted;
use crate::events::Events;
use crate::kinds::Kind;
use crate::metrics::Metrics;
use crate::observed::{Guarded, Observed};
use crate::peer::Poller;
use crate::pod_changes::PodChanges;
use crate::reconcile::{Failed, reconcile};
use crate::render::{Defaults, MANAGED_BY, MANAGED_BY_OPERATOR, POLICY};

/// Reconciles at a time.
const CONCURRENCY: u16 = 8;
/// From the first of several events to the reconcile for all of them.
const GATHER: Duration = Duration::from_millis(250);
/// The first lists of all watches take less.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// What a term of leading needs.
#[derive(Clone)]
pub struct Term {
    /// Towards the API server; refuses writes when this replica does not lead any more.
    pub client: Client,
    /// The one namespace that is looked at; all if there is none.
    pub namespace: Option<String>,
    /// What the operator's configuration decides.
    pub defaults: Defaults,
    /// Notes on writes of earlier terms.
    pub memories: Memories,
    /// Where events go.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
}

impl fmt::Debug for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Term")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Term {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn dynamic(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = kind.resource();
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Looks after all policies until `stop`; then finishes what it is at.
    pub async fn run(self, stop: CancellationToken) {
        let (policies, policy_events) = self.policies();
        let mut owned = BTreeMap::new();
        let mut changes = SelectAll::new();
        changes.push(policy_events.boxed());
        for kind in Kind::ALL {
            let (store, events) = self.owned(kind);
            owned.insert(kind, store);
            changes.push(events.boxed());
        }
        let deleted = Deleted::default();
        let (pods, pod_events) = self.pods(deleted.clone());
        changes.push(pod_events.boxed());
        let context = Arc::new(Context {
            client: self.client.clone(),
            defaults: self.defaults,
            observed: Observed::new(policies, owned, pods, deleted),
            memories: self.memories,
            health: HealthBoard::default(),
            voices: VoiceBoard::default(),
            members: MemberBoard::new(Instant::now()),
            backoff: std::sync::Mutex::new(Backoff::default()),
            events: self.events,
            metrics: self.metrics,
        });
        // As many as there may be policies that turn in one poll.
        let (turned, turns) = mpsc::channel(1024);
        let poller = tokio::spawn(Poller::new(Arc::clone(&context), turned).run(stop.clone()));

        changes.push(
            futures_util::stream::unfold(
                turns,
                |mut turns| async move { Some((turns.recv().await?, turns)) },
            )
            .boxed(),
        );
        let stopped = stop.clone();
        // Its own triggers and its debounce are not used: see `coalesce`.
        Controller::for_stream(futures_util::stream::pending(), context.observed.policies.clone())
            .reconcile_on(coalesce(changes, GATHER))
            .with_config(Config::default().concurrency(CONCURRENCY))
            .graceful_shutdown_on(async move { stopped.cancelled().await })
            .run(measured, try_again, context)
            .for_each(|result| async {
                if let Err(error) = result {
                    log(&error);
                }
            })
            .await;
        stop.cancel();
        let _ = poller.await;
    }

    fn policies(
        &self,
    ) -> (
        Store<Guarded>,
        impl Stream<Item = ObjectRef<Guarded>> + Send + 'static,
    ) {
        let (reader, writer) = reflector::store();
        let events = watcher(self.api::<Guarded>(), watcher::Config::default())
            .default_backoff()
            .modify(slim);
        let changes = reflector(writer, events).touched_objects().predicate_filter(
            |policy: &Guarded| Some(what_matters(policy)),
            PredicateConfig::default(),
        );
        (
            reader,
            working(changes).map(|policy| ObjectRef::from_obj(&policy)),
        )
    }

    fn owned(
        &self,
        kind: Kind,
    ) -> (
        Store<DynamicObject>,
        impl Stream<Item = ObjectRef<Guarded>> + Send + 'static,
    ) {
        let writer = Writer::new(kind.resource());
        let ours = watcher::Config::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_OPERATOR}"));
        let events = watcher(self.dynamic(kind), ours).default_backoff().modify(slim);
        let reader = writer.as_reader();
        let changes = working(reflector(writer, events).touched_objects());
        (
            reader,
            changes.flat_map(|object| futures_util::stream::iter(owners_of(&object))),
        )
    }

    fn pods(
        &self,
        deleted: Deleted,
    ) -> (
        Store<Pod>,
        impl Stream<Item = ObjectRef<Guarded>> + Send + 'static,
    ) {
        let (reader, writer) = reflector::store();
        let ours = watcher::Config::default().labels(POLICY);
        let events = watcher(self.api::<Pod>(), ours)
            .default_backoff()
            .modify(slim_pod);
        let mut known = PodChanges::default();
        let changes = working(reflector(writer, events));
        (
            reader,
            changes.flat_map(move |event| {
                let news = known.take_in(&event);
                // Before anybody is told to look.
                for (policy, uid) in news.deleted {
                    deleted.note(policy, uid);
                }
                futures_util::stream::iter(news.concerned)
            }),
        )
    }
}

/// What a watch shows. One that fails is begun anew by itself, and holds up no other.
fn working<T>(events: impl Stream<Item = Result<T, watcher::Error>>) -> impl Stream<Item = T> {
    events.filter_map(|event| {
        let event = event.inspect_err(|error| tracing::warn!(%error, "a watch failed and is begun anew"));
        std::future::ready(event.ok())
    })
}

/// A policy's own status is no reason to look at it: else a failure that is told in other words each time would never
/// wait. One that somebody has taken away is.
fn what_matters(policy: &Guarded) -> u64 {
    let meta = policy.meta();
    let has_status = policy.0.as_ref().is_ok_and(|policy| policy.status.is_some());
    let mut hasher = DefaultHasher::new();
    (meta.generation, meta.deletion_timestamp.is_some(), has_status).hash(&mut hasher);
    hasher.finish()
}

/// Who wrote which field is most of an object, and nobody here reads it from a store.
fn slim(object: &mut (impl kube::ResourceExt + ?Sized)) {
    object.meta_mut().managed_fields = None;
}

/// A status speaks of volumes, labels and what a pod says of itself.
fn slim_pod(pod: &mut Pod) {
    slim(pod);
    pod.metadata.annotations = None;
    if let Some(spec) = &mut pod.spec {
        for container in &mut spec.containers {
            *container = k8s_openapi::api::core::v1::Container {
                name: std::mem::take(&mut container.name),
                ..Default::default()
            };
        }
        spec.affinity = None;
        spec.tolerations = None;
    }
}

/// The policies that control an object.
fn owners_of(object: &DynamicObject) -> Vec<ObjectRef<Guarded>> {
    let namespace = object.namespace();
    let owners = object.owner_references().iter();
    owners
        .filter_map(|owner| ObjectRef::from_owner_ref(namespace.as_deref(), owner, ()))
        .collect()
}

/// How to name a policy in a trigger.
pub(crate) fn reference_of(policy: &JevMetricsPolicy) -> ObjectRef<Guarded> {
    ObjectRef::new(&policy.name_any()).within(&policy.namespace().unwrap_or_default())
}

async fn measured(object: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Failed> {
    let uid = object.uid().unwrap_or_default();
    // A status made of what is seen so far would say that everything is gone.
    match tokio::time::timeout(SEEN_WITHIN, context.observed.complete()).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => return Ok(Action::await_change()),
        // Not waited for without an end, so that a stop is not held up. The watch that fails says why.
        Err(_) => return Ok(Action::requeue(SEEN_WITHIN)),
    }
    let began = Instant::now();
    let result = reconcile(object, Arc::clone(&context)).await;
    context.metrics.reconciled(result.is_ok(), began.elapsed());
    if result.is_ok() {
        context
            .backoff
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget(&uid);
    }
    result
}

#[allow(clippy::needless_pass_by_value, reason = "the controller's signature")]
fn try_again(object: Arc<Guarded>, error: &Failed, context: Arc<Context>) -> Action {
    let (uid, name, namespace) = (object.uid(), object.name_any(), object.namespace());
    let mut backoff = context.backoff.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = error.wait(backoff.failed(&uid.unwrap_or_default(), fastrand::f64()));
    let namespace = namespace.unwrap_or_default();
    tracing::warn!(%error, namespace, name, wait_seconds = wait.as_secs_f64(), "a reconcile failed");
    Action::requeue(wait)
}

/// What reconciles say themselves is not said twice.
fn log<R: std::error::Error + 'static, Q: std::error::Error + 'static>(
    error: &kube::runtime::controller::Error<R, Q>,
) {
    use kube::runtime::controller::Error;
    match error {
        // Deleted in the meantime, or another operator's child; and what `try_again` has logged.
        Error::ObjectNotFound(_) | Error::ReconcilerFailed(..) => {}
        other => tracing::warn!(error = %other, "a watch failed and is begun anew"),
    }
}
