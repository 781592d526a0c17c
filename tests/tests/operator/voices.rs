//! What hollow pods say when the operator asks them: a document of which something is different each time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jevmetrics_api::member::{
    BudgetState, CoordinationReport, Counters, InferenceReport, InferenceState, Member, ModeInForce,
    PolicyReport, PolicyState, State,
};
use jevmetrics_api::peer::PORT;
use jevmetrics_testkit::cluster::HollowNodes;
use jevmetrics_testkit::self_server::SelfServer;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use rustls::ServerConfig;

/// The model that all of them have asked.
pub(crate) const MODEL: &str = "jev-1.13.0";

/// All that changes an answer, as all of them say.
pub(crate) const VERSION: &str = "5be1f3a09c7d2e48";

/// What a pod says of its questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Healthy,
    Failing,
    Nothing,
}

/// What a pod says.
#[derive(Debug, Clone)]
struct Words {
    says: Says,
    budget: BudgetState,
    version: String,
    coordination: Option<CoordinationReport>,
    epoch: Option<u64>,
}

/// Of one pod.
#[derive(Debug)]
struct Voice {
    always: Words,
    /// Before that, once each.
    next: VecDeque<Says>,
    asked: u64,
}

/// The voices of all pods of some namespaces, by the pods' names. All are healthy until a test says otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Voices(Arc<Mutex<All>>);

#[derive(Debug)]
struct All {
    /// What a pod says that nobody has asked yet.
    first: Words,
    pods: BTreeMap<String, Voice>,
}

impl Default for Voices {
    fn default() -> Self {
        let first = Words {
            says: Says::Healthy,
            budget: BudgetState::Enough,
            version: VERSION.to_owned(),
            coordination: None,
            epoch: None,
        };
        let pods = BTreeMap::new();
        Self(Arc::new(Mutex::new(All { first, pods })))
    }
}

impl Voices {
    /// Gives a voice to every pod of `namespace` that starts from now on.
    pub(crate) fn give(&self, nodes: &HollowNodes, namespace: &str, tls: Option<Arc<ServerConfig>>) {
        let voices = self.clone();
        nodes.run(namespace, move |pod, address| {
            Box::new(voices.start(pod, address, tls.clone()))
        });
    }

    fn start(&self, pod: &Pod, address: Ipv4Addr, tls: Option<Arc<ServerConfig>>) -> SelfServer {
        let (voices, pod) = (self.clone(), pod.clone());
        let address = SocketAddr::from((address, PORT));
        SelfServer::start(address, tls, move || voices.answer(&pod)).unwrap()
    }

    fn answer(&self, pod: &Pod) -> Option<Member> {
        let mut all = self.lock();
        let first = all.first.clone();
        let voice = all.pods.entry(pod.name_any()).or_insert(Voice {
            always: first,
            next: VecDeque::new(),
            asked: 0,
        });
        voice.asked += 1;
        let mut words = voice.always.clone();
        words.says = voice.next.pop_front().unwrap_or(words.says);
        member(pod, words, voice.asked)
    }

    /// What pods say of their questions from now on.
    pub(crate) fn all_say(&self, says: Says) {
        self.change_all(|words| words.says = says);
    }

    /// What one pod says of its questions from now on.
    pub(crate) fn say(&self, pod: &str, says: Says) {
        self.change(pod, |words| words.says = says);
    }

    /// What one pod says the next time only.
    pub(crate) fn say_once(&self, pod: &str, says: Says) {
        self.lock().pods.get_mut(pod).unwrap().next.push_back(says);
    }

    /// What pods say of sharing from now on.
    pub(crate) fn all_share(&self, report: Option<&CoordinationReport>) {
        self.change_all(|words| words.coordination = report.cloned());
    }

    /// What one pod says of sharing from now on.
    pub(crate) fn share(&self, pod: &str, report: CoordinationReport) {
        self.change(pod, |words| words.coordination = Some(report));
    }

    /// What one pod says of its budget from now on.
    pub(crate) fn budget(&self, pod: &str, budget: BudgetState) {
        self.change(pod, |words| words.budget = budget);
    }

    /// The version of assessments that one pod tells from now on.
    pub(crate) fn version(&self, pod: &str, version: &str) {
        self.change(pod, |words| version.clone_into(&mut words.version));
    }

    /// Pods take up a table with this epoch, unless they know a later one.
    pub(crate) fn all_reach(&self, epoch: u64) {
        self.change_all(|words| words.epoch = words.epoch.max(Some(epoch)));
    }

    /// One pod is on a table with this epoch from now on.
    pub(crate) fn reach(&self, pod: &str, epoch: u64) {
        self.change(pod, |words| words.epoch = Some(epoch));
    }

    fn change(&self, pod: &str, change: impl FnOnce(&mut Words)) {
        change(&mut self.lock().pods.get_mut(pod).unwrap().always);
    }

    /// Of pods that are there, and of those to come.
    fn change_all(&self, change: impl Fn(&mut Words)) {
        let mut all = self.lock();
        change(&mut all.first);
        all.pods.values_mut().for_each(|voice| change(&mut voice.always));
    }

    /// How often a pod was asked.
    pub(crate) fn asked(&self, pod: &str) -> u64 {
        self.lock().pods.get(pod).map_or(0, |voice| voice.asked)
    }

    /// Pods that were asked, and the least that one of them was.
    pub(crate) fn least_asked(&self) -> (usize, u64) {
        let all = self.lock();
        (
            all.pods.len(),
            all.pods.values().map(|voice| voice.asked).min().unwrap_or(0),
        )
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The settings that a pod mounts.
fn settings_digest(pod: &Pod) -> String {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut names = volumes.filter_map(|volume| Some(&volume.config_map.as_ref()?.name));
    let digest = names.find_map(|name| Some(name.rsplit_once("-settings-")?.1));
    digest.unwrap_or_default().to_owned()
}

/// Clock, locks and the latest trouble differ from one question to the next.
fn member(pod: &Pod, words: Words, asked: u64) -> Option<Member> {
    let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap();
    let (state, reason) = match words.says {
        Says::Nothing => return None,
        Says::Healthy => (
            InferenceState::Healthy,
            asked.is_multiple_of(2).then(|| format!("status-{asked}")),
        ),
        Says::Failing => (InferenceState::Failing, Some("timeout".to_owned())),
    };
    Some(Member {
        id: format!("{}-0badcafe", pod.name_any()),
        hostname: pod.name_any(),
        version: "0.0.0".to_owned(),
        started_at: 1_790_000_000_000_000_000,
        last_seen: now,
        is_this_pod: false,
        leader_locks: (0..asked % 3)
            .map(|lock| format!("lock-{asked}-{lock}"))
            .collect(),
        pod: Some(pod.name_any()),
        uid: pod.uid(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        epoch: words.epoch,
        routing_policy: None,
        slot: None,
        zone: None,
        state: State::Serving,
        settings_digest: settings_digest(pod),
        revision: "1".to_owned(),
        policy: PolicyReport {
            state: PolicyState::Read,
            mode: Some(ModeInForce::Annotate),
            error: None,
        },
        inference: InferenceReport {
            endpoint: "http://jev.invalid".to_owned(),
            model: Some(MODEL.to_owned()),
            state,
            reason,
            budget: words.budget,
            assessment_version: words.version,
        },
        coordination: words.coordination,
        // As under traffic: other numbers each time.
        coverage: Some(1.0 / f64::from(u32::try_from(asked % 1_000).unwrap() + 1)),
        counters: Some(Counters {
            received: 3 * asked,
            kept: 2 * asked,
            dropped: asked,
        }),
    })
}
