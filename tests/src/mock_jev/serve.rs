//! The routes of the mock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::behaviour::{Behaviour, Reply};
use super::distort::distorted_text;
use super::journal::{Authorization, Recorded};
use super::request::{Evaluation, Rejection, metric_name, read};
use super::{Shared, answer};
use crate::listener::Connection;
use crate::truncated::Truncated;

const REQUEST_ID: &str = "x-typesafe-request-id";

pub(super) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route(&format!("{}/v1/systemone", shared.prefix), post(evaluate))
        .route(&format!("{}/v1/models", shared.prefix), get(models))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(shared))
}

async fn not_found(State(shared): State<Arc<Shared>>) -> Response {
    plain(&shared, StatusCode::NOT_FOUND, &json!({"detail": "Not Found"}))
}

async fn method_not_allowed(State(shared): State<Arc<Shared>>) -> Response {
    plain(
        &shared,
        StatusCode::METHOD_NOT_ALLOWED,
        &json!({"detail": "Method Not Allowed"}),
    )
}

/// Lists aliases only, as the real one does; pinned ids work anyway.
async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Some(refusal) = refusal(authorization(&shared, &headers)) {
        return respond(&shared, &refusal);
    }
    let models = shared
        .models
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let aliases: Vec<Value> = models
        .iter()
        .filter(|(name, id)| name != id)
        .map(|(name, id)| json!({"name": name, "description": format!("Answers as {id}"), "release_date": "2026-08-01"}))
        .collect();
    plain(&shared, StatusCode::OK, &json!({"models": aliases}))
}

async fn evaluate(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // A body that breaks off is not JSON either; its sender is gone.
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let parsed = serde_json::from_slice::<Value>(&body);
    let evaluation = parsed.as_ref().map_err(Rejection::not_json).and_then(read);
    let authorization = authorization(&shared, &head.headers);
    let state = parsed
        .as_ref()
        .ok()
        .and_then(|body| body.get("state"))
        .unwrap_or(&Value::Null);
    let metric = metric_name(state).map(str::to_owned);
    let in_flight = shared.journal.arrived(Recorded {
        at: Instant::now(),
        authorization,
        headers: recordable(&head.headers),
        body: parsed.as_ref().ok().cloned(),
        metric: metric.clone(),
        rejection: evaluation.as_ref().err().map(Rejection::body),
    });
    let mut behaviour = shared.script.next();
    while let Behaviour::Slow(delay, then) = behaviour {
        tokio::time::sleep(delay).await;
        behaviour = *then;
    }
    let good = || {
        good_reply(
            &shared,
            authorization,
            &evaluation,
            metric.as_deref().unwrap_or_default(),
            state,
        )
    };
    let response = match behaviour {
        Behaviour::Answer => match good() {
            Ok(reply) => ok(&shared, answer::shuffled_text(&reply, seed(&shared))),
            Err(refusal) => respond(&shared, &refusal),
        },
        Behaviour::Distorted(distortion) => match good() {
            Ok(reply) => ok(&shared, distorted_text(reply, &distortion, seed(&shared))),
            Err(refusal) => respond(&shared, &refusal),
        },
        Behaviour::Truncated => match good() {
            Ok(reply) => truncated(&shared, answer::shuffled_text(&reply, seed(&shared))),
            Err(refusal) => respond(&shared, &refusal),
        },
        Behaviour::Reply(reply) => respond(&shared, &reply),
        Behaviour::Unprocessable => {
            let rejection = Rejection::echo(parsed.as_ref().unwrap_or(&Value::Null));
            plain(&shared, rejection.status(), &rejection.body())
        }
        Behaviour::Closed => {
            if let Some(connection) = head.extensions.get::<Connection>() {
                connection.close();
            }
            std::future::pending().await
        }
        // Slow was unpacked above.
        Behaviour::Silent | Behaviour::Slow(..) => std::future::pending().await,
    };
    drop(in_flight);
    shared.journal.answered(response.status().as_u16());
    response
}

/// The well-formed reply, or why there is none: key, schema, model, in this order.
fn good_reply(
    shared: &Shared,
    authorization: Authorization,
    evaluation: &Result<Evaluation, Rejection>,
    metric: &str,
    state: &Value,
) -> Result<Value, Reply> {
    if let Some(refusal) = refusal(authorization) {
        return Err(refusal);
    }
    let reject = |rejection: &Rejection| Reply::json(rejection.status(), &rejection.body());
    let evaluation = evaluation.as_ref().map_err(reject)?;
    let models = shared
        .models
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let model = models
        .get(&evaluation.model)
        .ok_or_else(|| reject(&Rejection::unknown_model(&evaluation.model)))?;
    let opinion = shared.judge.opinion(metric, state);
    shared.journal.spent(answer::input_tokens(evaluation));
    Ok(answer::reply(evaluation, model, metric, &opinion))
}

fn refusal(authorization: Authorization) -> Option<Reply> {
    let (status, text) = match authorization {
        Authorization::Right => return None,
        Authorization::Wrong => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Authorization::Missing => (StatusCode::FORBIDDEN, "Not authenticated"),
    };
    Some(Reply::json(status, &json!({"detail": text})))
}

fn authorization(shared: &Shared, headers: &HeaderMap) -> Authorization {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match sent.and_then(|value| value.strip_prefix("Bearer ")) {
        None => Authorization::Missing,
        Some(key) if key == *shared.key.lock().unwrap_or_else(PoisonError::into_inner) => {
            Authorization::Right
        }
        Some(_) => Authorization::Wrong,
    }
}

fn recordable(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter(|(name, _)| *name != AUTHORIZATION)
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect()
}

fn seed(shared: &Shared) -> u64 {
    shared.request_ids.load(Ordering::Relaxed)
}

fn plain(shared: &Shared, status: StatusCode, body: &Value) -> Response {
    respond(shared, &Reply::json(status, body))
}

fn ok(shared: &Shared, body: String) -> Response {
    respond(shared, &Reply::text(StatusCode::OK, "application/json", body))
}

fn truncated(shared: &Shared, body: String) -> Response {
    let announced = body.len();
    let mut response = ok(shared, String::new());
    response.headers_mut().insert(CONTENT_LENGTH, announced.into());
    let mut body = Bytes::from(body);
    body.truncate(announced / 2);
    *response.body_mut() = Body::new(Truncated::new(body));
    response
}

fn respond(shared: &Shared, reply: &Reply) -> Response {
    let mut response = Response::new(Body::from(reply.body.clone()));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    if !reply.content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    }
    for (name, value) in &reply.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.append(*name, value);
        }
    }
    let id = format!("req_{:016x}", shared.request_ids.fetch_add(1, Ordering::Relaxed));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}
