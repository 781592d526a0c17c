//! `RoutingConverged`, `status.routing` and `status.members`: who owns resources, and whether everybody knows it.
//!
//! Nothing in it ticks: times are those of changes. Until a new leader has asked the pods, what its predecessor has said of
//! them stays: a change of leaders is no news.

use jevmetrics_api::policy::{
    EpochReached, HeartbeatAge, JevMetricsPolicyStatus, MemberStatus, MembershipState, RoutingAffinity,
    RoutingStatus,
};
use jevmetrics_api::routing::{Affinity, RoutingTable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::Verdict;
use crate::membership::{Member, MemberState, Standing};
use crate::reconcile::{Decided, ReconcileError};
use crate::voices::{Voice, Voices};

pub(super) const FROZEN: &str = "Frozen";
const NOT_ROUTING: &str = "NotRouting";
const GATHERING: &str = "Gathering";
const SCALED_TO_ZERO: &str = "ScaledToZero";
const CONVERGING: &str = "Converging";
const CONVERGED: &str = "Converged";
const UNKNOWN: &str = "NoPodAnswers";
const NOT_PUBLISHED: &str = "NotPublished";
const NOT_ASKED: &str = "NotAsked";

/// As the definition of `status.members` has it. More refuse the whole status.
const MOST_SHOWN: usize = 2000;

/// How many of the pods that should know the table do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    current: usize,
    of: usize,
}

impl Reach {
    fn of(decided: &Decided, voices: &Voices, before: Option<&JevMetricsPolicyStatus>) -> Self {
        let routing = decided.members.iter().filter(|member| routes(member.state));
        let is_current = |member: &&Member| {
            let heard = Heard::of(&member.name, decided.table.as_ref(), voices, before);
            heard.epoch == Some(EpochReached::Current)
        };
        Self {
            current: routing.clone().filter(is_current).count(),
            of: routing.count(),
        }
    }
}

/// What was last heard of a pod.
#[derive(Debug)]
struct Heard {
    heartbeat: HeartbeatAge,
    epoch: Option<EpochReached>,
    version: Option<String>,
}

impl Heard {
    fn of(
        pod: &str,
        table: Option<&RoutingTable>,
        voices: &Voices,
        before: Option<&JevMetricsPolicyStatus>,
    ) -> Self {
        if voices.is_asked() {
            let voice = voices.shown().get(pod);
            let version = voice.map(|voice| voice.version.clone());
            return Self {
                heartbeat: voice.map_or(HeartbeatAge::Missing, |voice| voice.heartbeat),
                epoch: reached(table, voice),
                version: version.filter(|version| !version.is_empty()),
            };
        }
        let said = before.and_then(|before| before.members.iter().find(|member| member.pod == pod));
        let epoch = said.and_then(|said| said.epoch);
        let is_same_table = table.is_some_and(|table| said_epoch(before) == Some(table.epoch()));
        Self {
            heartbeat: said.map_or(HeartbeatAge::Missing, |said| said.heartbeat),
            epoch: epoch.map(|epoch| {
                if is_same_table {
                    epoch
                } else {
                    EpochReached::Behind
                }
            }),
            version: said.and_then(|said| said.version.clone()),
        }
    }
}

fn said_epoch(before: Option<&JevMetricsPolicyStatus>) -> Option<u64> {
    before?.routing.as_ref()?.epoch.try_into().ok()
}

/// Ready pods route, whether they own anything or not.
fn routes(state: MemberState) -> bool {
    matches!(
        state,
        MemberState::Active | MemberState::Settling | MemberState::Spare
    )
}

fn reached(table: Option<&RoutingTable>, voice: Option<&Voice>) -> Option<EpochReached> {
    let voice = voice.filter(|voice| voice.heartbeat != HeartbeatAge::Missing)?;
    let present = table?.epoch();
    Some(match voice.epoch {
        Some(epoch) if epoch >= present => EpochReached::Current,
        _ => EpochReached::Behind,
    })
}

pub(super) fn verdict(
    decided: &Decided,
    voices: &Voices,
    before: Option<&JevMetricsPolicyStatus>,
) -> Verdict {
    if decided.affinity != Affinity::Forward {
        let name = decided.affinity.name();
        return Verdict::yes(NOT_ROUTING, format!("with the affinity {name} no pod forwards"));
    }
    match decided.standing {
        Standing::Gathering { needed: 0, .. } => {
            return Verdict::no(SCALED_TO_ZERO, "no pod is wanted; there is no table yet");
        }
        Standing::Gathering { settled, needed } if settled >= needed => {
            let message = "enough pods have settled; the table waits for more, or until pods were asked";
            return Verdict::no(GATHERING, message);
        }
        Standing::Gathering { settled, needed } => {
            return Verdict::no(
                GATHERING,
                format!("{settled} of {needed} pods have settled that must have"),
            );
        }
        Standing::Frozen { of: 0, .. } => {
            return Verdict::no(SCALED_TO_ZERO, "no pod is wanted; the last table stays");
        }
        Standing::Frozen { living, of } => {
            return Verdict::no(
                FROZEN,
                format!(
                    "only {living} of {of} members would be left: the last table stays until half of them are there"
                ),
            );
        }
        Standing::Current => {}
    }
    let Some(table) = &decided.table else {
        return Verdict::unknown(UNKNOWN, "there is no table");
    };
    if !voices.is_asked() && said_epoch(before).is_none() {
        return Verdict::unknown(UNKNOWN, "no pod was asked yet which table it is on");
    }
    let Reach { current, of } = Reach::of(decided, voices, before);
    let message = format!("{current} of {of} ready pods are on epoch {}", table.epoch());
    if current == of {
        Verdict::yes(CONVERGED, message)
    } else {
        Verdict::no(CONVERGING, message)
    }
}

/// What is said if nothing was decided, or what was decided could not be written: what was said before may not hold.
pub(super) fn nothing_published(failure: Option<&ReconcileError>) -> Verdict {
    let why = failure.map_or_else(
        || "the other conditions say why".to_owned(),
        ReconcileError::to_string,
    );
    let message = format!("who owns resources could not be decided or written: {why}");
    Verdict::unknown(NOT_PUBLISHED, message)
}

/// What is said while the policy cannot be read.
pub(super) fn nobody_asked() -> Verdict {
    Verdict::unknown(
        NOT_ASKED,
        "pods come and go in the table, and are not asked which one they are on while the policy cannot be read",
    )
}

/// What was said stays as long as there is no table to speak of.
pub(super) fn routing(
    decided: Option<&Decided>,
    voices: &Voices,
    before: Option<&JevMetricsPolicyStatus>,
    now: &Time,
) -> Option<RoutingStatus> {
    let status = before;
    let before = status.and_then(|status| status.routing.as_ref());
    let Some((decided, table)) = decided.and_then(|decided| Some((decided, decided.table.as_ref()?))) else {
        return before.cloned();
    };
    let epoch = i64::try_from(table.epoch()).unwrap_or(i64::MAX);
    let is_same = before.is_some_and(|before| before.epoch == epoch);
    let (last_change_time, last_change) = match (before, &decided.change) {
        (Some(before), _) if is_same => (before.last_change_time.clone(), before.last_change.clone()),
        (_, Some(change)) => (Some(now.clone()), Some(change.clone())),
        // Written by a predecessor, who has not said it.
        (_, None) => (None, None),
    };
    let Reach { current, of } = Reach::of(decided, voices, status);
    // Not those of the table: the last one stays when no pod is wanted, and then nobody keeps a slot who is gone.
    let owners = decided.members.iter().filter(|member| member.slot.is_some());
    Some(RoutingStatus {
        affinity: RoutingAffinity::from(table.header().affinity),
        epoch,
        members: i32::try_from(owners.count()).unwrap_or(i32::MAX),
        converged: format!("{current}/{of}"),
        last_change_time,
        last_change,
    })
}

/// As many as the definition allows, owners first.
pub(super) fn members(
    decided: Option<&Decided>,
    voices: &Voices,
    before: Option<&JevMetricsPolicyStatus>,
    now: &Time,
) -> Vec<MemberStatus> {
    let said = before.map(|before| before.members.as_slice()).unwrap_or_default();
    let Some(decided) = decided else {
        return said.to_vec();
    };
    let table = decided.table.as_ref();
    let slots = table.map_or(0, |table| table.owners().len());
    let is_routing = table.is_some_and(|table| table.header().affinity == Affinity::Forward);
    let mut shown: Vec<&Member> = decided.members.iter().collect();
    if shown.len() > MOST_SHOWN {
        shown.sort_by_key(|member| member.slot.is_none());
        shown.truncate(MOST_SHOWN);
        shown.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
    }
    let shown = shown.into_iter().map(|member| {
        let heard = Heard::of(&member.name, table, voices, before);
        let state = state(member.state);
        let same = said
            .iter()
            .find(|said| said.pod == member.name && said.state == state);
        MemberStatus {
            pod: member.name.clone(),
            slot: member.slot.map(i32::from),
            node: member.node.clone(),
            zone: member.zone.clone(),
            version: heard.version,
            revision: member.revision.clone(),
            state,
            since: same.map_or_else(|| now.clone(), |same| same.since.clone()),
            heartbeat: heard.heartbeat,
            epoch: heard.epoch,
            share: member.slot.filter(|_| is_routing).map(|_| format!("1/{slots}")),
        }
    });
    shown.collect()
}

fn state(state: MemberState) -> MembershipState {
    match state {
        MemberState::Active => MembershipState::Active,
        MemberState::Held => MembershipState::Held,
        MemberState::Draining => MembershipState::Draining,
        MemberState::Settling => MembershipState::Settling,
        MemberState::Spare => MembershipState::Spare,
        MemberState::NotReady => MembershipState::NotReady,
    }
}

#[cfg(test)]
mod tests;
