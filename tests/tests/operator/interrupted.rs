//! The operator dies at any moment; whoever comes next ends where an undisturbed one ends.
//!
//! "Dies" is a client that lets n calls through and answers no other; once with the n-th call done and its reply lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Poll};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http::{Method, Request as HttpRequest};
use jevmetrics_operator::context::Memories;
use jevmetrics_operator::controller::Term;
use jevmetrics_operator::events::Events;
use jevmetrics_operator::metrics::Metrics;
use jevmetrics_operator::render::Defaults;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Layer, Service};

use crate::coordination::sharing;
use crate::policies::with_replicas;
use crate::stage::Stage;

/// Lets so many calls through; watches and lists are not counted. Writes may take a while to arrive, and some calls may
/// never be answered.
#[derive(Clone)]
pub(crate) struct Mortal {
    left: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
    died: CancellationToken,
    loses_last_reply: bool,
    on_the_way: Duration,
    /// Which part of a path is that of a call that hangs, and whether they do by now.
    hangs: Option<(&'static str, CancellationToken)>,
}

impl Mortal {
    pub(crate) fn new(calls: usize, loses_last_reply: bool) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(calls)),
            calls: Arc::default(),
            died: CancellationToken::new(),
            loses_last_reply,
            on_the_way: Duration::ZERO,
            hangs: None,
        }
    }

    /// Of an operator that lives, and has no answer to calls with `part` in their path once that is `begun`.
    pub(crate) fn hanging(part: &'static str, begun: CancellationToken) -> Self {
        Self {
            hangs: Some((part, begun)),
            ..Self::new(usize::MAX, false)
        }
    }

    /// Of an operator that lives, and whose writes arrive so much later.
    pub(crate) fn slow(on_the_way: Duration) -> Self {
        Self {
            on_the_way,
            ..Self::new(usize::MAX, false)
        }
    }
}

impl<S> Layer<S> for Mortal {
    type Service = Dying<S>;

    fn layer(&self, inner: S) -> Dying<S> {
        Dying {
            inner,
            life: self.clone(),
        }
    }
}

pub(crate) struct Dying<S> {
    inner: S,
    life: Mortal,
}

impl<S> Service<HttpRequest<Body>> for Dying<S>
where
    S: Service<HttpRequest<Body>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let life = self.life.clone();
        let query = request.uri().query().unwrap_or_default();
        let is_look = query.contains("watch=") || query.contains("limit=");
        if is_look {
            let reply = self.inner.call(request);
            return Box::pin(async move { reply.await.map_err(Into::into) });
        }
        if let Some((part, begun)) = &life.hangs
            && begun.is_cancelled()
            && request.uri().path().contains(part)
        {
            return Box::pin(std::future::pending());
        }
        let left = life
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let Ok(left) = left else {
            life.died.cancel();
            return Box::pin(std::future::pending());
        };
        life.calls.fetch_add(1, Ordering::SeqCst);
        let on_the_way = match *request.method() {
            Method::PATCH => life.on_the_way,
            _ => Duration::ZERO,
        };
        // Nothing is sent before it is awaited.
        let reply = self.inner.call(request);
        Box::pin(async move {
            tokio::time::sleep(on_the_way).await;
            let reply = reply.await.map_err(Into::into);
            if left == 1 && life.loses_last_reply {
                life.died.cancel();
                return std::future::pending().await;
            }
            reply
        })
    }
}

pub(crate) async fn client(stage: &Stage, life: &Mortal) -> Client {
    let file = Kubeconfig::read_from(stage.plane.admin_kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    ClientBuilder::try_from(config).unwrap().with_layer(life).build()
}

/// An operator that leads without a Lease.
pub(crate) fn term(stage: &Stage, client: Client) -> Term {
    Term {
        namespace: Some(stage.namespace.clone()),
        defaults: Defaults {
            image: "dataplane.invalid/dataplane:1".to_owned(),
        },
        memories: Memories::default(),
        events: Events::new(client.clone(), "test".to_owned()),
        metrics: Metrics::default(),
        client,
    }
}

/// An operator that lives until everything is as the policy wants it.
async fn undisturbed(stage: &Stage) -> usize {
    let life = Mortal::new(usize::MAX, false);
    let stop = CancellationToken::new();
    let running = tokio::spawn(term(stage, client(stage, &life).await).run(stop.clone()));
    stage.rolled_out("jm").await;
    settled(stage, &life).await;
    stop.cancel();
    running.await.unwrap();
    life.calls.load(Ordering::SeqCst)
}

/// Waits until an operator has begun and makes no more calls.
async fn settled(stage: &Stage, life: &Mortal) {
    let look = async || {
        let before = life.calls.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        match life.calls.load(Ordering::SeqCst) {
            0 => Err("no call yet"),
            now if now == before => Ok(()),
            _ => Err("more calls"),
        }
    };
    stage.eventually("no more calls", look).await;
}

/// All that is there, without what is different each time.
async fn state(stage: &Stage) -> Value {
    let strip = |text: String, names: &[&str]| names.iter().fold(text, |text, name| text.replace(name, "_"));
    let uid = stage.uid("jm").await;
    let policy = stage.policies.get("jm").await.unwrap();
    let shared = policy
        .status
        .as_ref()
        .and_then(|status| status.coordination.as_ref());
    let shared = shared.map_or(uid.as_str(), |shared| shared.namespace.as_str());
    let names = [uid.as_str(), shared, stage.namespace.as_str()];
    let mut all = Vec::new();
    for (kind, object) in stage.owned(&uid).await {
        // Settings are named by their content, and that names the namespace.
        let (name, _) = object
            .name_any()
            .rsplit_once("-settings-")
            .map_or((object.name_any(), ""), |(name, _)| {
                (format!("{name}-settings"), "")
            });
        let mut data = object.data.clone();
        data.as_object_mut().unwrap().remove("status");
        if let Some(spec) = data.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        let settings = "/spec/template/spec/volumes/0/configMap/name";
        if let Some(name) = data.pointer_mut(settings) {
            *name = json!("settings");
        }
        let managers: Vec<_> = object
            .managed_fields()
            .iter()
            .filter(|entry| {
                entry.subresource.is_none() && entry.manager.as_deref() != Some("kube-controller-manager")
            })
            .map(|entry| json!([entry.manager, entry.operation]))
            .collect();
        all.push(json!([kind, name, data, object.labels(), managers]));
    }
    let mut status = serde_json::to_value(&policy.status).unwrap();
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    let text = json!({"objects": all, "status": status}).to_string();
    serde_json::from_str(&strip(text, &names)).unwrap()
}

/// What is asked of an operator that dies.
#[derive(Clone, Copy)]
enum Work {
    /// Nothing is there yet.
    Creation,
    /// A new revision, and the number of pods let go: the old settings are pruned, replicas handed over.
    Change,
    /// Another budget of pods that share.
    Budget,
}

impl Work {
    async fn begin(self, stage: &Stage) {
        let mut sharing = sharing();
        sharing["replicas"] = json!(0);
        let (first, then) = match self {
            Self::Creation => (with_replicas(0), None),
            Self::Change => {
                let then = json!({"revision": "2", "export": {"endpoint": "http://b.invalid:1"}});
                (with_replicas(0), Some(then))
            }
            Self::Budget => {
                let mut then = sharing.clone();
                then["coordination"]["maxInFlight"] = json!(8);
                (sharing, Some(then))
            }
        };
        stage.apply("jm", &first).await;
        if let Some(then) = then {
            undisturbed(stage).await;
            stage.apply("jm", &then).await;
        }
    }

    /// How many calls it takes, and what is there in the end.
    async fn undisturbed(self) -> (usize, Value) {
        let stage = Stage::new("lives").await;
        self.begin(&stage).await;
        let calls = undisturbed(&stage).await;
        (calls, state(&stage).await)
    }

    /// Ends as `wanted`, after an operator that dies after so many calls and one that lives.
    async fn ends_as(self, wanted: &Value, calls: usize, loses_last_reply: bool) {
        let stage = Stage::new("dies").await;
        self.begin(&stage).await;
        let life = Mortal::new(calls, loses_last_reply);
        let running = tokio::spawn(term(&stage, client(&stage, &life).await).run(CancellationToken::new()));
        // How often the status is written on the way varies: one that is done earlier has not died.
        tokio::select! {
            () = life.died.cancelled() => {}
            () = settled(&stage, &life) => {}
        }
        running.abort();
        undisturbed(&stage).await;
        let found = state(&stage).await;
        assert_eq!(
            &found, wanted,
            "after {calls} calls, last reply lost: {loses_last_reply}"
        );
        stage.plane.delete_namespace(&stage.namespace).await.unwrap();
    }

    async fn survives_every_death(self) {
        let (calls, wanted) = self.undisturbed().await;
        println!("{calls} calls of an undisturbed operator");
        assert!(calls > 10, "{calls}");
        let before_a_call = (0..calls).map(|calls| (calls, false));
        let after_a_call = (1..=calls).map(|calls| (calls, true));
        // Each has a namespace of its own, and mostly waits.
        stream::iter(before_a_call.chain(after_a_call))
            .for_each_concurrent(6, |(calls, loses_last_reply)| {
                self.ends_as(&wanted, calls, loses_last_reply)
            })
            .await;
    }
}

#[tokio::test]
async fn an_operator_that_dies_while_it_creates_leaves_what_the_next_one_completes() {
    Work::Creation.survives_every_death().await;
}

#[tokio::test]
async fn an_operator_that_dies_while_it_changes_leaves_what_the_next_one_completes() {
    Work::Change.survives_every_death().await;
}

/// *Guarantees*: a change is counted once, whatever of it was done before.
#[tokio::test]
async fn an_operator_that_dies_while_it_changes_a_budget_leaves_what_the_next_one_completes() {
    Work::Budget.survives_every_death().await;
}
