//! What this process has written, so that it does not write it again.
//!
//! Watches lag: right after a write they still show the object of before. And an object changes in ways that
//! concern nobody here (status, counters). So each write leaves a note of what was wanted and what came of it;
//! while neither has changed, nothing is sent. After a restart the notes are gone: every object is then
//! applied once, which changes nothing.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use jevmetrics_api::policy::JevMetricsPolicyStatus;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::render::Manifest;

/// Notes on the writes for one policy.
#[derive(Debug, Default)]
pub struct Memory {
    objects: HashMap<(Kind, String), Note>,
    status: Option<(u64, JevMetricsPolicyStatus)>,
    /// When statuses were written, within a minute of the last.
    statuses: VecDeque<Instant>,
    deployment: Option<DynamicObject>,
    is_namespace_going: bool,
}

const MINUTE: Duration = Duration::from_mins(1);
/// Between a write of the status and one of nothing but counts and members.
const STATUS_PACE: Duration = Duration::from_secs(5);
/// Writes of the status in a minute.
const STATUSES_IN_A_MINUTE: usize = 12;
/// With so many in a minute, whatever they told, counts and members wait: the rest is kept for what turns.
const COUNTS_IN_A_MINUTE: usize = 8;

/// Names a content.
type Digest = [u8; 32];

/// What came of the last apply of an object.
#[derive(Debug)]
struct Note {
    wanted: Digest,
    uid: String,
    version: u64,
    became: Digest,
}

/// What is known of an object that is to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It is as the last apply left it, and the same is wanted.
    AsWanted,
    /// The same was applied before, but the object is not as it was left.
    Drifted,
    /// This was not applied by this process yet.
    New,
}

impl Memory {
    /// Whether the policy's namespace is being deleted, as far as a write has shown.
    pub fn is_namespace_going(&self) -> bool {
        self.is_namespace_going
    }

    /// Notes that it is.
    pub fn namespace_goes(&mut self) {
        self.is_namespace_going = true;
    }

    /// Compares `seen`, the object as a watch shows it, with the note of its last apply.
    pub fn compare(&self, manifest: &Manifest, seen: Option<&DynamicObject>) -> Known {
        let Some(note) = self.objects.get(&(manifest.kind, manifest.name.clone())) else {
            return Known::New;
        };
        let is_left_alone = seen.is_some_and(|seen| {
            seen.uid().as_deref() == Some(&note.uid)
                && (version(seen) <= note.version || fingerprint(seen) == note.became)
        });
        match (note.wanted == digest(&manifest.value), is_left_alone) {
            (true, true) => Known::AsWanted,
            // Nobody else writes a ConfigMap: what is wanted of the live object may be another thing just because
            // somebody did.
            (_, false) if manifest.kind == Kind::ConfigMap => Known::Drifted,
            (true, false) => Known::Drifted,
            (false, _) => Known::New,
        }
    }

    /// Notes that applying `manifest` led to `became`.
    pub fn applied(&mut self, manifest: &Manifest, became: &DynamicObject) {
        let note = Note {
            wanted: digest(&manifest.value),
            uid: became.uid().unwrap_or_default(),
            version: version(became),
            became: fingerprint(became),
        };
        self.objects.insert((manifest.kind, manifest.name.clone()), note);
        if manifest.kind == Kind::Deployment {
            let mut became = became.clone();
            became.metadata.managed_fields = None;
            self.deployment = Some(became);
        }
    }

    /// The Deployment as it was last seen: by a watch (`seen`), or by its own apply if the watch lags.
    pub fn newest_deployment<'d>(&'d self, seen: Option<&'d DynamicObject>) -> Option<&'d DynamicObject> {
        match (seen, &self.deployment) {
            (Some(seen), Some(applied)) if version(applied) <= version(seen) => Some(seen),
            (seen, None) => seen,
            (_, Some(applied)) => Some(applied),
        }
    }

    /// Forgets an object that is not there, or is somebody else's.
    pub fn forget(&mut self, kind: Kind, name: &str) {
        self.objects.remove(&(kind, name.to_owned()));
        if kind == Kind::Deployment {
            self.deployment = None;
        }
    }

    /// The status that is in force: the last one written, unless `seen` is newer.
    pub fn status<'s>(
        &'s self,
        seen_version: u64,
        seen: Option<&'s JevMetricsPolicyStatus>,
    ) -> Option<&'s JevMetricsPolicyStatus> {
        match &self.status {
            Some((version, status)) if *version > seen_version => Some(status),
            _ => seen,
        }
    }

    /// Notes a status that was written.
    pub fn wrote_status(&mut self, version: u64, status: JevMetricsPolicyStatus, now: Instant) {
        self.status = Some((version, status));
        self.statuses
            .retain(|&at| now.saturating_duration_since(at) < MINUTE);
        self.statuses.push_back(now);
    }

    /// How long the next write of the status waits; none if it does not. Counts and members wait a while after the last one,
    /// what has turned does not; either until fewer than it may follow were within a minute.
    pub fn status_wait(&self, now: Instant, has_turned: bool) -> Option<Duration> {
        let (pace, most) = if has_turned {
            (Duration::ZERO, STATUSES_IN_A_MINUTE)
        } else {
            (STATUS_PACE, COUNTS_IN_A_MINUTE)
        };
        let paced = *self.statuses.back()? + pace;
        let crowded = self.statuses.len().checked_sub(most);
        let until = crowded.map_or(paced, |place| paced.max(self.statuses[place] + MINUTE));
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }
}

/// Kubernetes counts versions of all objects in one row; a later one is larger.
pub fn version(object: &impl kube::ResourceExt) -> u64 {
    let version = object.resource_version();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn digest(value: &Value) -> Digest {
    *blake3::hash(value.to_string().as_bytes()).as_bytes()
}

/// What must stay as it was left: all but what controllers count and note.
fn fingerprint(object: &DynamicObject) -> Digest {
    let mut data = object.data.clone();
    if let Some(fields) = data.as_object_mut() {
        fields.remove("status");
    }
    let mut annotations = object.annotations().clone();
    annotations.retain(|key, _| !key.starts_with("deployment.kubernetes.io/"));
    digest(&json!({
        "annotations": annotations,
        "data": data,
        "labels": object.labels(),
        "owners": object.owner_references(),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn manifest(replicas: i64) -> Manifest {
        Manifest {
            kind: Kind::Deployment,
            name: "jm".to_owned(),
            value: json!({"spec": {"replicas": replicas}}),
        }
    }

    fn object(version: &str, replicas: i64, ready: i64) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "jm", "uid": "u", "resourceVersion": version},
            "spec": {"replicas": replicas},
            "status": {"readyReplicas": ready},
        }))
        .unwrap()
    }

    #[test]
    fn what_was_never_applied_is_new() {
        let memory = Memory::default();
        assert_eq!(memory.compare(&manifest(3), Some(&object("5", 3, 3))), Known::New);
    }

    #[test]
    fn counters_and_a_watch_that_lags_are_no_reason_to_apply_again() {
        let mut memory = Memory::default();
        memory.applied(&manifest(3), &object("5", 3, 0));
        for seen in [object("4", 1, 0), object("5", 3, 0), object("9", 3, 3)] {
            assert_eq!(memory.compare(&manifest(3), Some(&seen)), Known::AsWanted);
        }
    }

    #[test]
    fn an_edited_or_deleted_object_has_drifted() {
        let mut memory = Memory::default();
        memory.applied(&manifest(3), &object("5", 3, 0));
        assert_eq!(
            memory.compare(&manifest(3), Some(&object("6", 4, 0))),
            Known::Drifted
        );
        assert_eq!(memory.compare(&manifest(3), None), Known::Drifted);
    }

    #[test]
    fn a_new_wish_is_new_whatever_is_there() {
        let mut memory = Memory::default();
        memory.applied(&manifest(3), &object("5", 3, 0));
        assert_eq!(memory.compare(&manifest(4), Some(&object("5", 3, 0))), Known::New);
    }

    #[test]
    fn a_config_map_that_somebody_has_changed_has_drifted_whatever_is_wanted_now() {
        let wish = |replicas| Manifest {
            kind: Kind::ConfigMap,
            ..manifest(replicas)
        };
        let mut memory = Memory::default();
        memory.applied(&wish(3), &object("5", 3, 0));
        assert_eq!(memory.compare(&wish(4), Some(&object("5", 3, 0))), Known::New);
        for seen in [None, Some(object("6", 9, 0))] {
            assert_eq!(memory.compare(&wish(4), seen.as_ref()), Known::Drifted);
        }
    }

    #[test]
    fn a_deployment_is_as_its_apply_left_it_until_the_watch_shows_more() {
        let mut memory = Memory::default();
        let old = object("4", 1, 1);
        assert_eq!(memory.newest_deployment(Some(&old)).map(version), Some(4));
        memory.applied(&manifest(3), &object("5", 3, 1));
        assert_eq!(memory.newest_deployment(Some(&old)).map(version), Some(5));
        assert_eq!(memory.newest_deployment(None).map(version), Some(5));
        let new = object("6", 3, 3);
        assert_eq!(memory.newest_deployment(Some(&new)).map(version), Some(6));
        memory.forget(Kind::Deployment, "jm");
        assert_eq!(memory.newest_deployment(None), None);
    }

    #[test]
    fn a_status_that_the_watch_has_not_shown_yet_counts() {
        let mut memory = Memory::default();
        let written = JevMetricsPolicyStatus {
            replicas: Some(3),
            ..JevMetricsPolicyStatus::default()
        };
        memory.wrote_status(7, written.clone(), Instant::now());
        assert_eq!(memory.status(6, None), Some(&written));
        assert_eq!(memory.status(8, None), None);
    }

    /// Statuses of this process; time passes as it is told.
    struct Statuses {
        start: Instant,
        memory: Memory,
    }

    impl Statuses {
        fn new() -> Self {
            let (start, memory) = (Instant::now(), Memory::default());
            Self { start, memory }
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn wait(&self, second: u64, has_turned: bool) -> Option<u64> {
            let wait = self.memory.status_wait(self.at(second), has_turned);
            wait.map(|wait| wait.as_secs())
        }

        fn write(&mut self, second: u64) {
            let status = JevMetricsPolicyStatus::default();
            self.memory.wrote_status(second, status, self.at(second));
        }
    }

    #[test]
    fn counts_are_paced_and_counted_over_a_minute() {
        let mut statuses = Statuses::new();
        for second in 0..8 {
            assert_eq!(statuses.wait(5 * second, false), None);
            statuses.write(5 * second);
            assert!(statuses.wait(5 * second + 1, false) >= Some(4));
        }
        // Until the first was a minute ago.
        assert_eq!(statuses.wait(40, false), Some(20));
        assert_eq!(statuses.wait(40, true), None);
        statuses.write(40);
        assert_eq!(
            statuses.wait(50, false),
            Some(15),
            "one that has turned counts too"
        );
        assert_eq!(statuses.wait(65, false), None);
    }

    #[test]
    fn what_turns_is_told_at_once_twelve_times_a_minute() {
        let mut statuses = Statuses::new();
        for second in 0..12 {
            assert_eq!(statuses.wait(second, true), None);
            statuses.write(second);
        }
        assert_eq!(statuses.wait(12, true), Some(48));
        assert_eq!(statuses.wait(60, true), None);
        statuses.write(60);
        assert_eq!(statuses.wait(60, true), Some(1));
    }

    /// *Scenario*: everything changes all the time, now and then something turns, and each is written as soon as it may be.
    #[test]
    fn in_no_minute_there_are_more_than_twelve_statuses() {
        let mut statuses = Statuses::new();
        let mut written = Vec::new();
        for second in 0..600 {
            if statuses.wait(second, second % 7 < 3).is_none() {
                statuses.write(second);
                written.push(second);
            }
        }
        for &from in &written {
            let within = written.iter().filter(|&&at| (from..from + 60).contains(&at));
            assert!(within.count() <= 12, "from {from}: {written:?}");
        }
    }
}
