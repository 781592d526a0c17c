//! A stand-in for a Kubernetes API server that holds one `ConfigMap`: get and watch, and what can go wrong with them.
//!
//! It knows nothing else: whatever a data plane asks beyond these two calls is answered with 404 and can be seen in
//! [`FakeApi::calls`].

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body as AnyBody;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::AUTHORIZATION;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The bearer token that its KUBECONFIG holds.
pub const TOKEN: &str = "token-of-the-pod-5d1f";
/// Namespace and name of its `ConfigMap`.
pub const NAMESPACE: &str = "shop";
/// See [`NAMESPACE`].
pub const NAME: &str = "metrics-live";

/// One call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Path and query.
    pub target: String,
    /// Whether it carried [`TOKEN`].
    pub is_authorized: bool,
}

impl Call {
    /// Whether it was a watch.
    pub fn is_watch(&self) -> bool {
        self.target.contains("watch=true")
    }
}

#[derive(Debug, Default)]
struct Inner {
    version: u64,
    policy: Option<String>,
    routing: Option<String>,
    get_refused: Option<u16>,
    watch_refused: Option<u16>,
    watches: Vec<mpsc::UnboundedSender<Bytes>>,
    calls: Vec<Call>,
}

/// A running stand-in. Dropping it closes its port.
#[derive(Debug)]
pub struct FakeApi {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    serving: JoinHandle<()>,
}

impl FakeApi {
    /// Listens on a free port of 127.0.0.1; there is no object yet.
    ///
    /// # Errors
    /// No port.
    pub async fn start() -> io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Listens at `address`.
    ///
    /// # Errors
    /// It is taken.
    pub async fn start_at(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Mutex::new(Inner::default()));
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            address,
            inner,
            serving,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates or changes the object: `data.policy` is `policy`. Watches are told.
    pub fn put(&self, policy: &str) {
        let mut inner = lock(&self.inner);
        let event = if inner.policy.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        inner.version += 1;
        inner.policy = Some(policy.to_owned());
        inner.tell(event);
    }

    /// As [`Self::put`], with `data.routing` besides; `None` takes it out. It stays through later calls of [`Self::put`].
    pub fn put_both(&self, policy: &str, routing: Option<&str>) {
        lock(&self.inner).routing = routing.map(str::to_owned);
        self.put(policy);
    }

    /// As [`Self::put`], but no watch hears of it.
    pub fn put_unheard(&self, policy: &str) {
        let mut inner = lock(&self.inner);
        inner.version += 1;
        inner.policy = Some(policy.to_owned());
    }

    /// Deletes the object. Watches are told.
    pub fn delete(&self) {
        let mut inner = lock(&self.inner);
        inner.version += 1;
        inner.tell("DELETED");
        inner.policy = None;
    }

    /// Tells watches that their version is gone, and ends them.
    pub fn expire(&self) {
        let mut inner = lock(&self.inner);
        let status = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}});
        inner.say(&status);
        inner.watches.clear();
    }

    /// Ends watches, as a server does after a while.
    pub fn end_watches(&self) {
        lock(&self.inner).watches.clear();
    }

    /// Answers gets and watches with these statuses from now on; `None` answers them as usual.
    pub fn refuse(&self, get: Option<u16>, watch: Option<u16>) {
        let mut inner = lock(&self.inner);
        (inner.get_refused, inner.watch_refused) = (get, watch);
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.inner).calls.clone()
    }

    /// Open watches.
    pub fn watches(&self) -> usize {
        let mut inner = lock(&self.inner);
        inner.watches.retain(|watch| !watch.is_closed());
        inner.watches.len()
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A KUBECONFIG that leads to `address`.
pub fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\n\
         users: [{{name: u, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

impl Inner {
    fn object(&self) -> Value {
        let version = self.version.to_string();
        let mut data = json!({"policy": self.policy});
        if let Some(routing) = &self.routing {
            data["routing"] = routing.as_str().into();
        }
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": NAME, "resourceVersion": version},
            "data": data,
        })
    }

    fn tell(&mut self, event: &str) {
        let event = json!({"type": event, "object": self.object()});
        self.say(&event);
    }

    fn say(&mut self, event: &Value) {
        let line = Bytes::from(format!("{event}\n"));
        self.watches.retain(|watch| watch.send(line.clone()).is_ok());
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(state): State<Arc<Mutex<Inner>>>, request: Request) -> Response {
    let mut inner = lock(&state);
    let target = request
        .uri()
        .path_and_query()
        .map_or_else(String::new, ToString::to_string);
    let authorization = request.headers().get(AUTHORIZATION);
    let call = Call {
        is_authorized: authorization.is_some_and(|value| *value == format!("Bearer {TOKEN}")),
        target,
    };
    inner.calls.push(call.clone());
    let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let is_get = request.uri().path() == format!("{collection}/{NAME}");
    let selector = format!("fieldSelector=metadata.name%3D{NAME}");
    let is_watch = request.uri().path() == collection && call.is_watch() && call.target.contains(&selector);
    let refused = match (is_get, is_watch) {
        (true, _) => inner.get_refused,
        (_, true) => inner.watch_refused,
        _ => Some(404),
    };
    if let Some(code) = refused {
        return status(code);
    }
    if is_watch {
        let (sender, receiver) = mpsc::unbounded_channel();
        // What happened between the version that was got and now.
        let seen = call.target.split("resourceVersion=").nth(1);
        let seen = seen
            .and_then(|rest| rest.split('&').next())
            .and_then(|text| text.parse::<u64>().ok());
        if seen.is_some_and(|seen| seen < inner.version) && inner.policy.is_some() {
            let event = json!({"type": "MODIFIED", "object": inner.object()});
            let _ = sender.send(Bytes::from(format!("{event}\n")));
        }
        inner.watches.push(sender);
        return Response::new(AnyBody::new(Events(receiver)));
    }
    if inner.policy.is_none() {
        return status(404);
    }
    axum::Json(inner.object()).into_response()
}

fn status(code: u16) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let status = json!({"kind": "Status", "code": code.as_u16(), "message": "as the test wants it"});
    (code, axum::Json(status)).into_response()
}

/// The body of a watch.
struct Events(mpsc::UnboundedReceiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
