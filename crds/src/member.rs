//! The heartbeat document: what a data plane process says of itself, as JSON.
//!
//! Invariants:
//! - What [`Member::to_json`] writes, [`Member::from_json`] reads: texts that are too long are cut, lists that are
//!   too long end early.
//! - Reading never panics and is bounded: [`MAX_BYTES`] in all, and every text and list by itself. Fields of other
//!   versions are passed over, words of other versions read as `Unknown`, absent fields as their defaults.
//! - No field holds a secret, a metric name or a resource value.

use serde::{Deserialize, Serialize};

use crate::live::Mode;
use crate::routing::MAX_EPOCH;

/// The longest document.
pub const MAX_BYTES: usize = 64 << 10;
/// The longest name: of a host with what is added to it, of a pod, a node, a revision, a model.
const MAX_NAME_BYTES: usize = 300;
/// The longest explanation or URL.
const MAX_TEXT_BYTES: usize = 2048;
/// Most locks that are listed.
const MAX_LOCKS: usize = 64;

/// What one process says of itself. Times are unix nanoseconds of its own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Hostname + "-" + 4 random bytes in hex: new for each process.
    pub id: String,
    /// The host's name; in Kubernetes the pod's.
    #[serde(default)]
    pub hostname: String,
    /// Of the program.
    #[serde(default)]
    pub version: String,
    /// When the process started.
    #[serde(default)]
    pub started_at: i64,
    /// When it said this.
    #[serde(default)]
    pub last_seen: i64,
    /// Whether the reader of a list is looking at itself; always false between processes.
    #[serde(default)]
    pub is_this_pod: bool,
    /// Inference leases held right now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leader_locks: Vec<String>,

    /// The pod's name, if the process was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The pod's uid, if the process was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The node's name, if the process was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,

    /// The epoch of the routing table that it is on; absent before one was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Uid of the policy that this table is of: epochs of different policies say nothing of each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_policy: Option<String>,
    /// Its slot in that table; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u16>,
    /// Its zone, as that table tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,

    /// Where it is in its life.
    #[serde(default)]
    pub state: State,
    /// [`crate::settings::settings_digest`] of the settings that it runs with.
    #[serde(default)]
    pub settings_digest: String,
    /// `revision` of these settings.
    #[serde(default)]
    pub revision: String,
    /// What it knows of the live object.
    #[serde(default)]
    pub policy: PolicyReport,
    /// How asking goes.
    #[serde(default)]
    pub inference: InferenceReport,
    /// How sharing goes; absent without coordination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationReport>,

    /// Part of the data points of the last minute that had a fresh assessment, 0 to 1; absent without traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    /// What it has counted; absent if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
}

/// Data points since the start of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Received and read.
    #[serde(default)]
    pub received: u64,
    /// Not dropped by policy.
    #[serde(default)]
    pub kept: u64,
    /// Dropped by policy.
    #[serde(default)]
    pub dropped: u64,
}

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// Not listening yet.
    Starting,
    /// Listening.
    Serving,
    /// About to stop: takes no new connections.
    Draining,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What a process knows of the live object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReport {
    /// Whether the policy was ever read.
    #[serde(default)]
    pub state: PolicyState,
    /// The mode in force; absent before the policy was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeInForce>,
    /// What is wrong with the live object now; the policy and the routing table in force stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether a process has read a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PolicyState {
    /// The last good policy is in force.
    Read,
    /// None was read yet: everything is kept, nothing is asked or added.
    Awaiting,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The mode in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModeInForce {
    /// [`Mode::Annotate`].
    Annotate,
    /// [`Mode::Reduce`].
    Reduce,
    /// A word of another version.
    #[serde(other)]
    Unknown,
}

impl From<Mode> for ModeInForce {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Annotate => Self::Annotate,
            Mode::Reduce => Self::Reduce,
        }
    }
}

/// How asking goes in a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InferenceReport {
    /// The base URL that is asked; never holds a user or password.
    #[serde(default)]
    pub endpoint: String,
    /// The model that gave the latest answer; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it works.
    #[serde(default)]
    pub state: InferenceState,
    /// The latest cause of trouble, one word such as `timeout`; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the budget suffices to keep fresh what is live.
    #[serde(default)]
    pub budget: BudgetState,
    /// Names everything that changes an answer: processes with another one never read each other's assessments.
    #[serde(default)]
    pub assessment_version: String,
}

/// Whether as many instruments can be asked about in one lifetime of assessments as are live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BudgetState {
    /// They can, or could within the last 10 min.
    Enough,
    /// For 10 min there have been more.
    TooSmall,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How sharing over Redis goes in a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationReport {
    /// The name under which it shares.
    #[serde(default)]
    pub namespace: String,
    /// Whether it works.
    #[serde(default)]
    pub state: CoordinationState,
    /// What is wrong, or waited for, now; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of the budget that this process uses; 0 in an explicitly named namespace.
    #[serde(default)]
    pub generation: u32,
    /// The highest generation that it has seen: its own or one in Redis.
    #[serde(default)]
    pub highest_generation: u32,
    /// `maxmemory-policy` of the server, if the process may ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_policy: Option<String>,
}

/// Whether sharing works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CoordinationState {
    /// Redis was not needed in the last 60 s.
    Idle,
    /// Redis answers, or has not been waited for longer than 60 s.
    Healthy,
    /// Another budget is about to come into force: nobody asks until then.
    Pending,
    /// A budget of a higher generation is in force: this process reads and does not ask.
    Superseded,
    /// Another budget is in force that contradicts this one: nothing is read or asked.
    Mismatch,
    /// Redis was needed, and gave no answer of use for 60 s.
    Failing,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Whether asking works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InferenceState {
    /// There was nothing to ask in the last 60 s.
    Idle,
    /// Answers come, or have not been waited for longer than 60 s.
    Healthy,
    /// There was something to ask, and no answer for 60 s.
    Failing,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A document that cannot be used. Nothing of its content is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Longer than [`MAX_BYTES`].
    #[error("heartbeat document: has {bytes} bytes, must have at most {MAX_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not JSON of this form.
    #[error("heartbeat document: must be JSON of the agreed form (line {line}, column {column})")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// A field breaks its rule.
    #[error("heartbeat document: {field}: {rule}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What must hold.
        rule: &'static str,
    },
}

impl Member {
    /// Reads a document that another process wrote.
    pub fn from_json(bytes: &[u8]) -> Result<Self, MemberError> {
        if bytes.len() > MAX_BYTES {
            return Err(MemberError::TooLong { bytes: bytes.len() });
        }
        // Its words are not used: they quote the document.
        let mut member: Self = serde_json::from_slice(bytes).map_err(|error| MemberError::Malformed {
            line: error.line(),
            column: error.column(),
        })?;
        if member.id.is_empty() {
            let (field, rule) = ("id", "must not be empty");
            return Err(MemberError::Field { field, rule });
        }
        if member.epoch.is_some_and(|epoch| epoch > MAX_EPOCH) {
            let (field, rule) = ("epoch", "must be below 2^53");
            return Err(MemberError::Field { field, rule });
        }
        if member.coverage.is_some_and(|coverage| !is_ratio(coverage)) {
            let (field, rule) = ("coverage", "must be from 0 to 1");
            return Err(MemberError::Field { field, rule });
        }
        if member.leader_locks.len() > MAX_LOCKS {
            let (field, rule) = ("leaderLocks", "must have at most 64 entries");
            return Err(MemberError::Field { field, rule });
        }
        let mut broken = None;
        member.each_text(|field, text, most| {
            if text.len() > most {
                broken = broken.or(Some((field, "is too long")));
            } else if text.contains(char::is_control) {
                broken = broken.or(Some((field, "must have no control characters")));
            }
        });
        match broken {
            Some((field, rule)) => Err(MemberError::Field { field, rule }),
            None => Ok(member),
        }
    }

    /// Writes the document, within the bounds that [`Self::from_json`] sets.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bounded = self.clone();
        bounded.leader_locks.truncate(MAX_LOCKS);
        bounded.epoch = bounded.epoch.filter(|&epoch| epoch <= MAX_EPOCH);
        bounded.coverage = bounded.coverage.filter(|&coverage| is_ratio(coverage));
        bounded.each_text(|_, text, most| {
            text.truncate(text.floor_char_boundary(most));
            if text.contains(char::is_control) {
                *text = text.replace(char::is_control, " ");
            }
        });
        // Maps with text as keys and plain values: nothing in it can fail.
        serde_json::to_vec(&bounded).unwrap_or_default()
    }

    /// Every text with its name in JSON and the most bytes that it may have.
    fn each_text(&mut self, mut look: impl FnMut(&'static str, &mut String, usize)) {
        look("id", &mut self.id, MAX_NAME_BYTES);
        look("hostname", &mut self.hostname, MAX_NAME_BYTES);
        look("version", &mut self.version, MAX_NAME_BYTES);
        look("settingsDigest", &mut self.settings_digest, MAX_NAME_BYTES);
        look("revision", &mut self.revision, MAX_NAME_BYTES);
        look("inference.endpoint", &mut self.inference.endpoint, MAX_TEXT_BYTES);
        for lock in &mut self.leader_locks {
            look("leaderLocks", lock, MAX_NAME_BYTES);
        }
        for (field, text, most) in [
            ("pod", &mut self.pod, MAX_NAME_BYTES),
            ("uid", &mut self.uid, MAX_NAME_BYTES),
            ("node", &mut self.node, MAX_NAME_BYTES),
            ("routingPolicy", &mut self.routing_policy, MAX_NAME_BYTES),
            ("zone", &mut self.zone, MAX_NAME_BYTES),
            ("policy.error", &mut self.policy.error, MAX_TEXT_BYTES),
            ("inference.model", &mut self.inference.model, MAX_NAME_BYTES),
            ("inference.reason", &mut self.inference.reason, MAX_TEXT_BYTES),
        ] {
            if let Some(text) = text {
                look(field, text, most);
            }
        }
        look(
            "inference.assessmentVersion",
            &mut self.inference.assessment_version,
            MAX_NAME_BYTES,
        );
        if let Some(coordination) = &mut self.coordination {
            look(
                "coordination.namespace",
                &mut coordination.namespace,
                MAX_TEXT_BYTES,
            );
            for (field, text) in [
                ("coordination.reason", &mut coordination.reason),
                ("coordination.evictionPolicy", &mut coordination.eviction_policy),
            ] {
                if let Some(text) = text {
                    look(field, text, MAX_TEXT_BYTES);
                }
            }
        }
    }
}

/// What is not a number is not within.
fn is_ratio(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

#[cfg(test)]
mod tests;
