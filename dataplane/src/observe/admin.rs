//! The admin port: why an instrument is kept or dropped, what the policy saves, and who else is there. Shows resource
//! values, therefore it has a port of its own, loopback by default.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::counters::mode_label;
use super::coverage::INTERVAL_SECONDS;
use super::flow::{Equation, Flow};
use super::levels::Levels;
use crate::clock::Clock;
use crate::cluster::{self, Observer};
use crate::receive;
use crate::retain::assessments::Row;
use crate::retain::decide::{Decision, Reason};
use crate::retain::engine::Engine;
use crate::retain::explain::Explained;

/// Most identities in one answer of `/api/decisions`.
const MAX_DECISIONS: usize = 1_000;
/// Instruments in `/api/summary`, largest first.
const LARGEST: usize = 20;

/// What the pages look at.
pub struct Admin {
    /// Decides, and knows why.
    pub engine: Arc<Engine>,
    /// The equation.
    pub flow: Flow,
    /// Bytes in.
    pub received: receive::stats::Stats,
    /// Bytes out.
    pub exported: crate::export::stats::Stats,
    /// Read at intervals by the process.
    pub levels: Arc<Levels>,
    /// The process's clock.
    pub clock: Clock,
    /// This process, new at each start.
    pub member_id: String,
    /// Looks who else is there.
    pub(crate) cluster: Arc<Observer>,
}

/// The routes. On a loopback listener (`is_loopback`) a request must name an address or `localhost`: a page in a
/// browser on that machine can be made to ask us under a name of its own and would read the answer.
pub fn routes(admin: Arc<Admin>, is_loopback: bool) -> Router {
    let routes = Router::new()
        .route("/api/decisions", get(decisions))
        .route("/api/summary", get(summary))
        .route("/api/admin/cluster", get(members))
        .route("/cluster", get(members_page))
        .with_state(admin);
    if is_loopback {
        routes.layer(middleware::from_fn(refuse_foreign_hosts))
    } else {
        routes
    }
}

async fn refuse_foreign_hosts(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    if host.is_some_and(is_local) {
        return next.run(request).await;
    }
    let error = "header Host must be an IP address or localhost";
    (StatusCode::MISDIRECTED_REQUEST, Json(Refusal { error })).into_response()
}

/// `host` or `host:port`.
fn is_local(host: &str) -> bool {
    host.parse::<SocketAddr>().is_ok()
        || host.parse::<IpAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || host.split(':').next() == Some("localhost")
}

#[derive(Deserialize)]
struct DecisionsQuery {
    metric: Option<String>,
}

/// An error that names what must hold.
#[derive(Serialize)]
struct Refusal {
    error: &'static str,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the names of the JSON document")]
struct Decisions {
    member: String,
    metric: String,
    mode: &'static str,
    decisions: Vec<DecisionRow>,
    /// There may be more identities than are listed.
    truncated: bool,
}

#[derive(Serialize)]
struct DecisionRow {
    decision: &'static str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<AnswersRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_seconds: Option<u32>,
    is_asking: bool,
    points: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<IdentityRow>,
}

#[derive(Serialize)]
struct AnswersRow {
    keep_probability: f64,
    relevance: f64,
    redundancy: f64,
    recommended_action: &'static str,
}

#[derive(Serialize)]
struct IdentityRow {
    metric: String,
    unit: String,
    #[serde(rename = "type")]
    data_type: &'static str,
    scope: String,
    scope_version: String,
    resource: BTreeMap<String, String>,
}

impl From<Explained> for DecisionRow {
    fn from(explained: Explained) -> Self {
        Self {
            decision: explained.decision.as_str(),
            reason: explained.reason.as_str(),
            answers: explained.answers.map(|answers| AnswersRow {
                keep_probability: answers.keep.probability(),
                relevance: answers.relevance.probability(),
                redundancy: answers.redundancy.probability(),
                recommended_action: answers.action.as_str(),
            }),
            model: explained.model.map(|model| model.to_string()),
            expires_in_seconds: explained.expires_in,
            is_asking: explained.is_asking,
            points: explained.points,
            identity: explained.description.map(|description| IdentityRow {
                metric: description.name.clone(),
                unit: description.unit.clone(),
                data_type: description
                    .data_type
                    .map_or("none", |data_type| data_type.as_str()),
                scope: description.scope_name.clone(),
                scope_version: description.scope_version.clone(),
                resource: description.resource.iter().cloned().collect(),
            }),
        }
    }
}

async fn decisions(State(admin): State<Arc<Admin>>, Query(query): Query<DecisionsQuery>) -> Response {
    let Some(metric) = query.metric.filter(|metric| !metric.is_empty()) else {
        let error = "query parameter metric must name an instrument: /api/decisions?metric=NAME";
        return (StatusCode::BAD_REQUEST, Json(Refusal { error })).into_response();
    };
    blocking(move || {
        let now = admin.clock.seconds();
        let explained = admin.engine.explain_named(&metric, now, MAX_DECISIONS + 1);
        let truncated = explained.len() > MAX_DECISIONS;
        Decisions {
            member: admin.member_id.clone(),
            metric,
            mode: mode_label(admin.engine.policy().map(|policy| policy.mode())),
            decisions: explained
                .into_iter()
                .take(MAX_DECISIONS)
                .map(DecisionRow::from)
                .collect(),
            truncated,
        }
    })
    .await
}

#[derive(Serialize)]
struct Summary {
    member: String,
    mode: &'static str,
    points: Equation,
    bytes: Bytes,
    /// Since the start of the process.
    outcomes: Vec<OutcomeRow>,
    coverage: CoverageRow,
    identities: Identities,
    /// By data points since each identity was admitted.
    largest: Vec<DecisionRow>,
}

#[derive(Serialize)]
struct Bytes {
    /// Unpacked request bodies.
    received: u64,
    /// Request bodies as they were sent to downstream.
    exported: u64,
}

#[derive(Serialize)]
struct OutcomeRow {
    mode: &'static str,
    decision: &'static str,
    reason: &'static str,
    /// Data points so far.
    points: u64,
    /// Instruments so far, once for each request that held them.
    instruments: u64,
}

#[derive(Serialize)]
struct CoverageRow {
    /// Share of the points that had a fresh assessment; null without traffic.
    ratio: Option<f64>,
    window_seconds: u64,
}

#[derive(Serialize)]
struct Identities {
    known: usize,
    capacity: usize,
    /// How often an instrument found no room: kept, and never asked about.
    not_admitted: u64,
    /// Distinct instruments by what would be decided now.
    now: Vec<NowRow>,
}

#[derive(Serialize)]
struct NowRow {
    decision: &'static str,
    reason: &'static str,
    instruments: u64,
}

async fn summary(State(admin): State<Arc<Admin>>) -> Response {
    blocking(move || admin.summary()).await
}

/// Names and texts of other processes are in what they get: no browser may make more of them than text.
fn page_headers() -> [(header::HeaderName, &'static str); 3] {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ]
}

async fn members(State(admin): State<Arc<Admin>>) -> Response {
    let view = admin.cluster.look().await;
    rendered(move || {
        let document = cluster::document(&view, tokio::time::Instant::now());
        (page_headers(), Json(document)).into_response()
    })
    .await
}

async fn members_page(State(admin): State<Arc<Admin>>) -> Response {
    let view = admin.cluster.look().await;
    rendered(move || {
        let page = cluster::page(&view, tokio::time::Instant::now());
        (page_headers(), Html(page)).into_response()
    })
    .await
}

impl Admin {
    fn summary(&self) -> Summary {
        let now = self.clock.seconds();
        let mut largest: Vec<Row> = Vec::new();
        let mut by_outcome: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (row, decision, reason) in self.engine.explain_all(now) {
            let (decision, reason): (Decision, Reason) = (decision, reason);
            *by_outcome
                .entry((decision.as_str(), reason.as_str()))
                .or_default() += 1;
            largest.push(row);
            if largest.len() >= 64 * LARGEST {
                keep_largest(&mut largest);
            }
        }
        keep_largest(&mut largest);
        let (known, capacity) = self.engine.assessments().fill();
        let coverage = self.levels.coverage();
        Summary {
            member: self.member_id.clone(),
            mode: mode_label(self.engine.policy().map(|policy| policy.mode())),
            points: self.flow.equation(),
            bytes: Bytes {
                received: self.received.unpacked_bytes(),
                exported: self.exported.bytes(),
            },
            outcomes: self.outcomes(),
            coverage: CoverageRow {
                ratio: coverage,
                window_seconds: 6 * INTERVAL_SECONDS,
            },
            identities: Identities {
                known,
                capacity,
                not_admitted: self.engine.assessments().not_admitted(),
                now: by_outcome
                    .into_iter()
                    .map(|((decision, reason), instruments)| NowRow {
                        decision,
                        reason,
                        instruments,
                    })
                    .collect(),
            },
            largest: largest
                .into_iter()
                .map(|row| self.engine.explain(row, now).into())
                .collect(),
        }
    }

    fn outcomes(&self) -> Vec<OutcomeRow> {
        let rows = self.flow.outcomes().into_iter();
        rows.map(|(mode, decision, reason, count)| OutcomeRow {
            mode,
            decision,
            reason,
            points: count.points,
            instruments: count.instruments,
        })
        .collect()
    }
}

fn keep_largest(rows: &mut Vec<Row>) {
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.points));
    rows.truncate(LARGEST);
}

/// Pages look at whole tables: not on a thread that serves requests.
async fn blocking<T: Serialize + Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> Response {
    rendered(move || Json(make()).into_response()).await
}

/// As [`blocking`], for whole answers.
async fn rendered(make: impl FnOnce() -> Response + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(make).await {
        Ok(answer) => answer,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_local_names() {
        for host in [
            "127.0.0.1:9465",
            "127.0.0.1",
            "[::1]:9465",
            "[::1]",
            "localhost",
            "localhost:19465",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9465",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
