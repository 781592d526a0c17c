//! What this process says of itself.

use std::sync::Arc;
use std::time::Instant;

use jevmetrics_api::member::{
    CoordinationReport, Counters, InferenceReport, Member, PolicyReport, PolicyState, State,
};
use jevmetrics_api::routing::{Owner, RoutingTable};
use tokio::sync::watch;

use crate::args::Pod;
use crate::clock::Clock;
use crate::coordinate::Coordinate as _;
use crate::infer::Inference;
use crate::live::LiveState;
use crate::observe::flow::Flow;
use crate::observe::health::{Life, Readiness};
use crate::observe::levels::Levels;
use crate::room::Room;
use crate::routing::Routing;

/// What does not change over the life of a process.
#[derive(Debug, Clone)]
pub struct Identity {
    /// [`crate::member::Member::id`].
    pub id: String,
    /// The host's name.
    pub hostname: String,
    /// What the process was told of its pod.
    pub pod: Pod,
    /// [`jevmetrics_api::settings::settings_digest`] of the settings in use.
    pub settings_digest: String,
    /// Their revision.
    pub revision: String,
    /// Whom the process asks: `inference.baseURL`.
    pub endpoint: String,
}

/// Sources of the document.
pub struct Heartbeat {
    /// What does not change.
    pub identity: Identity,
    /// The process's clock.
    pub clock: Clock,
    /// Unix nanoseconds of the start.
    pub started_at: i64,
    /// Where the process is in its life.
    pub readiness: Arc<Readiness>,
    /// The policy of the live object.
    pub live: watch::Receiver<LiveState>,
    /// Its routing table.
    pub routing: Arc<Routing>,
    /// How asking goes.
    pub inference: Arc<Inference>,
    /// What has been counted.
    pub flow: Flow,
    /// What is read every ten seconds.
    pub levels: Arc<Levels>,
    /// Where it asks for admissions.
    pub(crate) room: Room,
}

impl Heartbeat {
    /// The document now.
    pub fn document(&self) -> Member {
        let now = Instant::now();
        let Identity {
            id,
            hostname,
            pod,
            settings_digest,
            revision,
            endpoint,
        } = self.identity.clone();
        // One look: policy, slot and zone are those of the epoch that is said.
        let table = self.routing.table();
        let seat = table
            .as_deref()
            .and_then(|table| seat(table, pod.uid.as_deref()?));
        let equation = self.flow.equation();
        Member {
            id,
            hostname,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            last_seen: self.clock.unix_nanos(),
            is_this_pod: false,
            leader_locks: self.inference.held_leases(),
            pod: pod.name,
            uid: pod.uid,
            node: pod.node,
            epoch: table.as_deref().map(RoutingTable::epoch),
            routing_policy: table
                .as_deref()
                .map(|table| table.header().cluster.policy.clone()),
            slot: seat.map(|owner| owner.slot),
            zone: seat.and_then(|owner| owner.zone.clone()),
            state: match self.readiness.life() {
                Life::Starting => State::Starting,
                Life::Serving => State::Serving,
                Life::Draining => State::Draining,
            },
            settings_digest,
            revision,
            policy: policy(&self.live.borrow(), &self.routing),
            inference: InferenceReport {
                budget: self.levels.budget(now),
                assessment_version: self.room.version.to_string(),
                ..inference(endpoint, &self.inference, now)
            },
            coordination: self.coordination(now),
            coverage: self.levels.coverage().map(shortened),
            counters: Some(Counters {
                received: equation.received,
                kept: equation.kept,
                dropped: equation.dropped,
            }),
        }
    }

    fn coordination(&self, now: Instant) -> Option<CoordinationReport> {
        let shared = self.room.shared.as_ref()?;
        let state = self.inference.sharing(now)?;
        let generation = shared.redis.generation();
        let highest = state.highest_generation.max(generation);
        // Larger ones come from nobody that follows the documents.
        let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Some(CoordinationReport {
            namespace: shared.namespace().to_owned(),
            state: state.state,
            reason: state.reason,
            generation: whole(generation),
            highest_generation: whole(highest),
            eviction_policy: shared.redis.eviction_policy(),
        })
    }
}

/// The entry of the pod `uid`.
fn seat<'a>(table: &'a RoutingTable, uid: &str) -> Option<&'a Owner> {
    table.owners().iter().find(|owner| owner.uid == uid)
}

/// People look at it: more digits would only make the document longer.
fn shortened(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

fn policy(live: &LiveState, routing: &Routing) -> PolicyReport {
    let problems = [
        live.error.clone(),
        routing.problem().map(|problem| problem.to_string()),
    ];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    PolicyReport {
        state: match live.policy {
            Some(_) => PolicyState::Read,
            None => PolicyState::Awaiting,
        },
        mode: live.policy.as_ref().map(|policy| policy.mode().into()),
        error: (!problems.is_empty()).then(|| problems.join("; ")),
    }
}

fn inference(endpoint: String, inference: &Inference, now: Instant) -> InferenceReport {
    let state = inference.state(now);
    InferenceReport {
        endpoint,
        model: state.answering_model.map(|model| model.to_string()),
        state: inference.reported(now),
        reason: state.health.cause().map(|cause| cause.as_str().to_owned()),
        ..InferenceReport::default()
    }
}
