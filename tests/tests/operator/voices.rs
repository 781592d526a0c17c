//! What hollow pods say when the operator asks them: a document of which something is different each time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jevmetrics_api::member::{
    InferenceReport, InferenceState, Member, ModeInForce, PolicyReport, PolicyState, State,
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

/// What a pod says of its questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Healthy,
    Failing,
    Nothing,
}

/// Of one pod.
#[derive(Debug)]
struct Voice {
    always: Says,
    /// Before that, once each.
    next: VecDeque<Says>,
    asked: u64,
}

/// The voices of all pods of some namespaces, by the pods' names. All are healthy until a test says otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Voices(Arc<Mutex<BTreeMap<String, Voice>>>);

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
        let mut voices = self.lock();
        let voice = voices.entry(pod.name_any()).or_insert(Voice {
            always: Says::Healthy,
            next: VecDeque::new(),
            asked: 0,
        });
        voice.asked += 1;
        let says = voice.next.pop_front().unwrap_or(voice.always);
        member(pod, says, voice.asked)
    }

    /// What pods say from now on.
    pub(crate) fn all_say(&self, says: Says) {
        for voice in self.lock().values_mut() {
            voice.always = says;
        }
    }

    /// What one pod says from now on.
    pub(crate) fn say(&self, pod: &str, says: Says) {
        self.lock().get_mut(pod).unwrap().always = says;
    }

    /// What one pod says the next time only.
    pub(crate) fn say_once(&self, pod: &str, says: Says) {
        self.lock().get_mut(pod).unwrap().next.push_back(says);
    }

    /// How often a pod was asked.
    pub(crate) fn asked(&self, pod: &str) -> u64 {
        self.lock().get(pod).map_or(0, |voice| voice.asked)
    }

    /// Pods that were asked, and the least that one of them was.
    pub(crate) fn least_asked(&self) -> (usize, u64) {
        let voices = self.lock();
        (
            voices.len(),
            voices.values().map(|voice| voice.asked).min().unwrap_or(0),
        )
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Voice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clock, locks and the latest trouble differ from one question to the next.
fn member(pod: &Pod, says: Says, asked: u64) -> Option<Member> {
    let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap();
    let (state, reason) = match says {
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
        state: State::Serving,
        settings_digest: String::new(),
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
        },
    })
}
