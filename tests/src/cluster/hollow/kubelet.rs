//! Follows all pods that are bound to hollow nodes and gives each a life of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::life::{Life, Order};
use super::script::Scripts;
use crate::cluster::loopback::Loopback;

/// Between two tries to watch; the default climbs to half a minute.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// Namespace and name.
pub(super) type Key = (String, String);

/// A pod that lives.
#[derive(Debug)]
struct Living {
    uid: String,
    orders: mpsc::UnboundedSender<Order>,
    ending: CancellationToken,
    task: AbortHandle,
}

impl Drop for Living {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The pods that live.
#[derive(Debug, Default)]
pub(super) struct Pods(Mutex<HashMap<Key, Living>>);

impl Pods {
    /// Where orders for a pod go.
    pub(super) fn orders(&self, key: &Key) -> Option<mpsc::UnboundedSender<Order>> {
        self.lock().get(key).map(|living| living.orders.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Living>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Plays kubelet for all hollow nodes.
pub(super) struct Kubelet {
    pub(super) client: Client,
    pub(super) nodes: HashSet<String>,
    pub(super) loopback: Arc<Loopback>,
    pub(super) scripts: Arc<Scripts>,
    pub(super) pods: Arc<Pods>,
}

impl Kubelet {
    /// Watches until it is dropped.
    pub(super) async fn watch(&self) {
        let mut events = Box::pin(watcher(Api::<Pod>::all(self.client.clone()), Config::default()));
        let mut listed = HashSet::new();
        loop {
            match events.try_next().await {
                Ok(Some(Event::Apply(pod))) => self.see(pod),
                Ok(Some(Event::Delete(pod))) => drop(self.pods.lock().remove(&key(&pod))),
                Ok(Some(Event::Init)) => listed.clear(),
                Ok(Some(Event::InitApply(pod))) => {
                    listed.insert(key(&pod));
                    self.see(pod);
                }
                // What went while nobody watched.
                Ok(Some(Event::InitDone)) => self.pods.lock().retain(|key, _| listed.contains(key)),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "cannot watch pods");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    fn see(&self, pod: Pod) {
        if !self.is_ours(&pod) {
            return;
        }
        let (key, uid) = (key(&pod), pod.metadata.uid.clone().unwrap_or_default());
        let is_ending = pod.metadata.deletion_timestamp.is_some();
        let mut pods = self.pods.lock();
        if pods.get(&key).is_none_or(|living| living.uid != uid) {
            if has_ended(&pod) && !is_ending {
                return;
            }
            // Takes the place of an older pod of the same name, which is gone then.
            pods.insert(key.clone(), self.bear(uid, pod));
        }
        if let Some(living) = pods.get(&key).filter(|_| is_ending) {
            living.ending.cancel();
        }
    }

    fn bear(&self, uid: String, pod: Pod) -> Living {
        let (orders, received) = mpsc::unbounded_channel();
        let ending = CancellationToken::new();
        let life = Life {
            client: self.client.clone(),
            address: self.loopback.next_pod(),
            script: self.scripts.of(&pod),
            scripts: Arc::clone(&self.scripts),
            orders: received,
            ending: ending.clone(),
            runs: false,
            process: None,
            restarts: 0,
            pod,
        };
        Living {
            uid,
            orders,
            ending,
            task: tokio::spawn(life.live()).abort_handle(),
        }
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        node.is_some_and(|node| self.nodes.contains(node))
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn key(pod: &Pod) -> Key {
    let metadata = &pod.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}
