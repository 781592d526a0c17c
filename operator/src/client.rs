//! The way to the API server: deadlines, the fence, and counting, around kube's client.
//!
//! ```text
//! kube ─▶ fence (writes) ─▶ deadline (of a watch: to its head) and count ─▶ wire
//! ```
//! kube's own repeats are off: an object that fails waits by its own backoff, and no call hangs for minutes.

use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service};

use crate::lease::{Fence, LEASE_DURATION, RENEW_DEADLINE};
use crate::metrics::Metrics;

/// Longest time for any call but a watch.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Longest time for a call about the Lease: several must fit into a term.
pub const LEASE_DEADLINE: Duration = Duration::from_secs(2);

/// Between the closing of the fence and the end of the last write. Others wait for the rest of the Lease.
const WRITE_MARGIN: Duration = Duration::from_secs(4);
const _: () = assert!(RENEW_DEADLINE.as_secs() + WRITE_MARGIN.as_secs() < LEASE_DURATION.as_secs());

/// Why a request was not sent, or not waited for.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// This replica does not lead any more.
    #[error("not written: this replica does not lead")]
    NotLeading,
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
}

/// A client whose calls have a deadline; writes need `fence` open, if there is one.
///
/// # Errors
/// The configuration cannot be used.
pub fn guarded(
    mut config: Config,
    deadline: Duration,
    fence: Option<Fence>,
    metrics: Metrics,
) -> Result<Client, kube::Error> {
    config.default_retry = false;
    let guard = Guard {
        deadline,
        fence,
        metrics,
    };
    Ok(ClientBuilder::try_from(config)?.with_layer(&guard).build())
}

/// Puts [`Guarded`] around a service.
#[derive(Debug, Clone)]
struct Guard {
    deadline: Duration,
    fence: Option<Fence>,
    metrics: Metrics,
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            guard: self.clone(),
        }
    }
}

/// A service that refuses, counts and waits no longer than it may.
#[derive(Debug, Clone)]
struct Guarded<S> {
    inner: S,
    guard: Guard,
}

type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

impl<S, B> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ReplyBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Guard {
            deadline,
            fence,
            metrics,
        } = self.guard.clone();
        let method = request.method().clone();
        // Asked at the last moment: whoever was paused before it finds the fence closed.
        let mut deadline = deadline;
        if method != Method::GET
            && let Some(fence) = fence
        {
            let now = Instant::now();
            let Some(left) = fence.left(now) else {
                return Box::pin(async { Err(GuardError::NotLeading.into()) });
            };
            // A write on its way must have ended before another may lead.
            deadline = deadline.min(left + WRITE_MARGIN);
        }
        let is_watch = is_watch(&request);
        let sent = self.inner.call(request);
        Box::pin(async move {
            let answer = tokio::time::timeout(deadline, exchange(sent, is_watch)).await;
            let answer = answer.unwrap_or_else(|_| Err(GuardError::Late(deadline).into()));
            metrics.requested(&method, answer.as_ref().ok().map(|reply| reply.status().as_u16()));
            answer
        })
    }
}

/// The whole reply; of a watch only its head, for it ends when it will.
async fn exchange<E, B>(
    sent: impl Future<Output = Result<Response<B>, E>>,
    is_watch: bool,
) -> Result<Response<ReplyBody>, BoxError>
where
    E: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (head, body) = sent.await.map_err(Into::into)?.into_parts();
    let body = if is_watch {
        body.map_err(Into::into).boxed_unsync()
    } else {
        let whole = body.collect().await.map_err(Into::into)?.to_bytes();
        Full::new(whole).map_err(|never| match never {}).boxed_unsync()
    };
    Ok(Response::from_parts(head, body))
}

fn is_watch(request: &Request<Body>) -> bool {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "watch"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::convert::Infallible;

    use super::*;

    fn guarded_by(
        fence: Fence,
    ) -> Guarded<
        impl Service<Request<Body>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>,
    > {
        let guard = Guard {
            deadline: CALL_DEADLINE,
            fence: Some(fence),
            metrics: Metrics::default(),
        };
        guard.layer(tower::service_fn(async |_| Ok(Response::new(Full::default()))))
    }

    fn request(method: Method, uri: &str) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(uri)
            .body(Body::empty())
            .unwrap()
    }

    #[tokio::test]
    async fn writes_need_an_open_fence_and_reads_do_not() {
        let fence = Fence::default();
        let mut service = guarded_by(fence.clone());
        assert!(service.call(request(Method::GET, "/api")).await.is_ok());
        for method in [Method::PATCH, Method::POST, Method::PUT, Method::DELETE] {
            let error = service.call(request(method, "/api")).await.unwrap_err();
            assert!(
                matches!(error.downcast_ref(), Some(GuardError::NotLeading)),
                "{error}"
            );
        }
        fence.renewed(Instant::now(), Duration::from_secs(10));
        assert!(service.call(request(Method::PATCH, "/api")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_ends_at_its_deadline() {
        let guard = Guard {
            deadline: LEASE_DEADLINE,
            fence: None,
            metrics: Metrics::default(),
        };
        let silent = tower::service_fn(async |_| {
            std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>().await
        });
        let error = guard
            .layer(silent)
            .call(request(Method::GET, "/api"))
            .await
            .unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(GuardError::Late(LEASE_DEADLINE))),
            "{error}"
        );
    }

    #[test]
    fn watches_are_told_from_lists() {
        assert!(is_watch(&request(Method::GET, "/api/v1/pods?limit=5&watch=true")));
        assert!(!is_watch(&request(Method::GET, "/api/v1/pods?limit=5")));
        assert!(!is_watch(&request(Method::GET, "/api/v1/watch")));
    }
}
