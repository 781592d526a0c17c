//! The two calls to the API server: get one `ConfigMap`, watch it.
//!
//! Answers are bounded in size and taken apart here, so that nothing of an answer or of a credential reaches a log
//! line: of a refusal only its status is told.

use std::error::Error;
use std::time::Duration;

use bytes::BytesMut;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jevmetrics_api::settings::LiveObject;
use kube::Client;
use kube::client::{AuthError, Body};
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::lines::{LineError, Lines};
use crate::root_cause::root_cause;
use crate::tls;

/// For every call, and for the beginning of a watch's answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Connecting is part of a call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The server ends a watch after this time.
const WATCH_SECONDS: u32 = 290;
/// A watch on which not even a bookmark comes for so long is given up: its connection may be dead. The server sends a
/// bookmark about once a minute.
const SILENCE: Duration = Duration::from_secs(150);
/// A `ConfigMap` of 1 MiB as JSON, with its managed fields, and room for odd escapes.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Why the object could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// Neither a usable KUBECONFIG nor a service account.
    #[error("there is no Kubernetes configuration: no usable KUBECONFIG, and no service account ({0})")]
    Configuration(String),
    /// A configuration that leads nowhere.
    #[error("the Kubernetes configuration cannot be used: {0}")]
    Unusable(String),
    /// No answer; the innermost words of the network or TLS.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("the API server does not answer within {} s", DEADLINE.as_secs())]
    Silent,
    /// An answer, but no.
    #[error("the API server answers {}{}", .0, advice(*.0))]
    Refused(StatusCode),
    /// The version to watch from is too old: not a fault.
    #[error("the version is gone")]
    Gone,
    /// The object is not there.
    #[error("not found")]
    NotFound,
    /// Not what an API server says.
    #[error("the answer of the API server cannot be read: {0}")]
    Malformed(&'static str),
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => ": the role of this pod must allow get and watch of this ConfigMap",
        StatusCode::UNAUTHORIZED => ": it does not know this pod's service account token",
        _ => "",
    }
}

impl ApiError {
    /// One log line stands for all errors of a kind in a row.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Configuration(_) | Self::Unusable(_) => "configuration".to_owned(),
            Self::Unreachable(_) | Self::Silent => "unreachable".to_owned(),
            Self::Refused(status) => status.to_string(),
            Self::Gone | Self::NotFound | Self::Malformed(_) => self.to_string(),
        }
    }

    /// Words of the network and of TLS are shown. Those about credentials may quote them, and those about a proxy its
    /// password.
    fn of(error: &kube::Error) -> Self {
        match (auth_error(error), error) {
            (Some(AuthError::ReadTokenFile(source, path)), _) => {
                Self::Unusable(format!("token file {}: {source}", path.display()))
            }
            (Some(_), _) => Self::Unusable("its credentials cannot be had".to_owned()),
            (
                None,
                kube::Error::HyperError(_)
                | kube::Error::Service(_)
                | kube::Error::RustlsTls(_)
                | kube::Error::ReadEvents(_),
            ) => Self::Unreachable(root_cause(error)),
            (None, _) => Self::Unusable("its client cannot be made".to_owned()),
        }
    }
}

fn auth_error(error: &kube::Error) -> Option<&AuthError> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<AuthError>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Of a KUBECONFIG's own error nothing is shown: it may quote the file.
fn no_configuration() -> ApiError {
    let in_cluster = kube::Config::incluster().err();
    ApiError::Configuration(in_cluster.map(|error| error.to_string()).unwrap_or_default())
}

/// What is used of a `ConfigMap`.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigMap {
    metadata: Metadata,
    data: Option<Data>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    resource_version: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Data {
    policy: Option<String>,
    routing: Option<String>,
}

impl ConfigMap {
    /// The texts of `data.policy` and `data.routing`.
    pub(super) fn into_parts(self) -> (Option<String>, Option<String>) {
        self.data.map_or((None, None), |data| (data.policy, data.routing))
    }
}

/// What happened to the object.
#[derive(Debug)]
pub(super) enum Event {
    /// It is now so.
    Changed(ConfigMap),
    /// It is no more.
    Deleted,
    /// Nothing; the watch lives.
    Bookmark,
}

/// A connection to the API server, for one object.
pub(super) struct Api {
    client: Client,
    object: LiveObject,
}

impl Api {
    /// Reads KUBECONFIG, or the service account of this pod.
    pub(super) async fn connect(object: LiveObject) -> Result<Self, ApiError> {
        tls::install_provider();
        let inferred = timeout(DEADLINE, kube::Config::infer()).await;
        let mut config = inferred
            .map_err(|_| ApiError::Silent)?
            .map_err(|_| no_configuration())?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.write_timeout = Some(DEADLINE);
        // Waiting between tries is decided here, and told.
        config.default_retry = false;
        // A KUBECONFIG may name a program that gives credentials: it is waited for where nobody else has to.
        let made = tokio::task::spawn_blocking(move || Client::try_from(config));
        let client = timeout(DEADLINE, made)
            .await
            .map_err(|_| ApiError::Silent)?
            .map_err(|_| ApiError::Unusable("its client cannot be made".to_owned()))?
            .map_err(|error| ApiError::of(&error))?;
        Ok(Self { client, object })
    }

    /// The object now, with its version.
    pub(super) async fn get(&self) -> Result<(ConfigMap, String), ApiError> {
        let path = format!("{}/{}", self.collection(), self.object.name());
        let call = async {
            let response = self.call(path).await?;
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
                .collect()
                .await;
            let body = body.map_err(|error| match error.downcast::<kube::Error>() {
                Ok(error) => ApiError::of(&error),
                Err(_) => ApiError::Malformed("too long"),
            })?;
            let map: ConfigMap = read(&body.to_bytes())?;
            let version = map.metadata.resource_version.clone();
            Ok((map, version.ok_or(ApiError::Malformed("no resourceVersion"))?))
        };
        timeout(DEADLINE, call).await.map_err(|_| ApiError::Silent)?
    }

    /// Changes of the object from `version` on.
    pub(super) async fn watch(&self, version: &str) -> Result<Watch, ApiError> {
        // A version is of the server's choice: not everything fits into a path.
        if !version.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(ApiError::Malformed("an odd resourceVersion"));
        }
        let path = format!(
            "{}?watch=true&fieldSelector=metadata.name%3D{}&resourceVersion={version}\
             &allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}",
            self.collection(),
            self.object.name(),
        );
        let response = timeout(DEADLINE, self.call(path))
            .await
            .map_err(|_| ApiError::Silent)??;
        Ok(Watch {
            lines: Lines::new(response.into_body(), MAX_ANSWER_BYTES),
            name: self.object.name().to_owned(),
            began: Instant::now(),
        })
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.object.namespace())
    }

    async fn call(&self, path: String) -> Result<Response<Body>, ApiError> {
        let request = Request::get(path)
            .header(http::header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(|_| ApiError::Malformed("not a path"))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| ApiError::of(&error))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(ApiError::NotFound),
            StatusCode::GONE => Err(ApiError::Gone),
            status => Err(ApiError::Refused(status)),
        }
    }
}

/// An open watch.
pub(super) struct Watch {
    lines: Lines<Body>,
    name: String,
    began: Instant,
}

/// One line of a watch.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a serde_json::value::RawValue,
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
}

impl Watch {
    /// How long it has been open.
    pub(super) fn lived(&self) -> Duration {
        self.began.elapsed()
    }

    /// The next event; `None` at its end, also if it broke off or went silent, for then the next get tells more.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        match timeout(SILENCE, self.lines.next()).await {
            Ok(Ok(Some(line))) => event(&line, &self.name).map(Some),
            Ok(Err(LineError::TooLong(_))) => Err(ApiError::Malformed("too long")),
            Ok(Ok(None) | Err(LineError::Body(_))) | Err(_) => Ok(None),
        }
    }
}

fn event(line: &BytesMut, name: &str) -> Result<Event, ApiError> {
    let line: Line<'_> = read(line)?;
    let object = line.object.get().as_bytes();
    match line.kind {
        "ADDED" | "MODIFIED" | "DELETED" => {
            let map: ConfigMap = read(object)?;
            // A server that does not know the selector would show others.
            Ok(match (line.kind, map.metadata.name.as_deref()) {
                (_, Some(other)) if other != name => Event::Bookmark,
                ("DELETED", _) => Event::Deleted,
                _ => Event::Changed(map),
            })
        }
        "ERROR" => {
            let status: Status = read(object)?;
            let status = status.code.and_then(|code| StatusCode::from_u16(code).ok());
            Err(match status {
                Some(StatusCode::GONE) => ApiError::Gone,
                Some(status) => ApiError::Refused(status),
                None => ApiError::Malformed("an error without a code"),
            })
        }
        // A bookmark, or a word of a later version.
        _ => Ok(Event::Bookmark),
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|_| ApiError::Malformed("not the JSON of a ConfigMap"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn seen(line: &str) -> Result<Event, ApiError> {
        event(&BytesMut::from(line), "a-live")
    }

    #[test]
    fn events_are_told_apart() {
        let object = r#"{"kind":"ConfigMap","metadata":{"name":"a-live","resourceVersion":"9","labels":{}},
            "data":{"policy":"schema: 1","routing":"{}"}}"#
            .replace('\n', "");
        for kind in ["ADDED", "MODIFIED"] {
            let Ok(Event::Changed(map)) = seen(&format!(r#"{{"type":"{kind}","object":{object}}}"#)) else {
                panic!("{kind}");
            };
            let (policy, routing) = map.into_parts();
            assert_eq!(
                (policy.as_deref(), routing.as_deref()),
                (Some("schema: 1"), Some("{}"))
            );
        }
        let deleted = format!(r#"{{"type":"DELETED","object":{object}}}"#);
        assert!(matches!(seen(&deleted), Ok(Event::Deleted)));
        let other = deleted.replace("a-live", "b-live");
        assert!(matches!(seen(&other), Ok(Event::Bookmark)));
        for line in [
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10"}}}"#,
            r#"{"type":"SOMETHING","object":{}}"#,
        ] {
            assert!(matches!(seen(line), Ok(Event::Bookmark)), "{line}");
        }
    }

    #[test]
    fn errors_are_told_apart_and_quote_nothing() {
        let status = |code: u16| {
            seen(&format!(
                r#"{{"type":"ERROR","object":{{"code":{code},"message":"hunter2"}}}}"#
            ))
        };
        assert!(matches!(status(410), Err(ApiError::Gone)));
        assert_eq!(
            status(500).unwrap_err().to_string(),
            "the API server answers 500 Internal Server Error"
        );
        for line in [
            "",
            "hunter2",
            "{}",
            r#"{"type":"ADDED","object":"hunter2"}"#,
            r#"{"type":"ERROR","object":{}}"#,
        ] {
            let error = seen(line).unwrap_err().to_string();
            assert!(
                error.starts_with("the answer of the API server cannot be read: "),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_map_without_a_part_has_none() {
        for json in [
            r#"{"metadata":{}}"#,
            r#"{"metadata":{},"data":null}"#,
            r#"{"metadata":{},"data":{"x":"y"}}"#,
        ] {
            let map: ConfigMap = read(json.as_bytes()).unwrap();
            assert_eq!(map.into_parts(), (None, None));
        }
    }
}
