//! A policy that holds: the one thing that rendering looks at.
//!
//! What the data plane will read is made here and read back by the data plane's own parser: a policy is valid
//! if its pods would take their settings. So operator and data plane cannot disagree about a rule.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::Value;

use super::template::PodTemplate;
use super::{JevMetricsPolicy, OtlpService};
use crate::SettingsError;
use crate::live::{Budget, LivePolicy};
use crate::settings::{DataPlaneSettings, settings_digest};

mod documents;
mod membership;
mod rules;
mod secrets;
mod sharing;

pub use self::documents::live_name;
pub use self::membership::Membership;
pub use self::secrets::SecretUse;
pub use self::sharing::{QuestionBudget, Sharing};

/// Longest name of a policy: with what is appended to it, names of pods stay below 63 characters.
pub const MAX_NAME_LENGTH: usize = 36;

/// A policy in which every rule holds.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidPolicy {
    name: String,
    namespace: String,
    uid: String,
    replicas: Option<i32>,
    revision: String,
    settings: String,
    settings_digest: String,
    live: Value,
    sharing: Option<Sharing>,
    inference_endpoint: String,
    question_budget: QuestionBudget,
    membership: Membership,
    serves_tls: bool,
    export_timeout: Duration,
    secrets: Vec<SecretUse>,
    service: OtlpService,
    template: PodTemplate,
}

/// A policy in which rules are broken: all of them, each with the path of its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct PolicyError(Vec<String>);

impl PolicyError {
    /// One message a broken rule.
    pub fn messages(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<&JevMetricsPolicy> for ValidPolicy {
    type Error = PolicyError;

    fn try_from(policy: &JevMetricsPolicy) -> Result<Self, PolicyError> {
        let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
        let spec = &policy.spec;
        let mut broken = rules::broken(&name, spec);
        let uid = policy.uid().unwrap_or_default();
        let shared = sharing::namespace(&namespace, &name, &uid, spec);
        let settings = documents::settings(&namespace, &name, &shared, spec);
        let live = documents::live(spec);
        let read = DataPlaneSettings::from_yaml(&settings);
        broken.extend(read.as_ref().err().into_iter().flat_map(in_spec));
        let read_live = LivePolicy::from_policy_yaml(&documents::yaml(&live));
        broken.extend(read_live.as_ref().err().into_iter().flat_map(in_spec));
        let (Ok(read), Ok(read_live)) = (read, read_live) else {
            return Err(PolicyError(broken));
        };
        let budget = *read_live.budget();
        if let Some(coordination) = read.coordination() {
            let refused = coordination.refuse_budget(&budget, read.inference().timeout());
            broken.extend(refused.map(|refused| format!("spec.{refused}")));
            let largest = documents::with_budget(live.clone(), &budget, u32::MAX);
            let error = LivePolicy::from_policy_yaml(&documents::yaml(&largest)).err();
            broken.extend(error.iter().flat_map(in_spec));
        }
        if !broken.is_empty() {
            return Err(PolicyError(broken));
        }
        let is_named = spec
            .coordination
            .as_ref()
            .is_some_and(|of| of.namespace.is_some());
        Ok(Self {
            uid,
            replicas: spec.replicas,
            revision: spec.revision.clone(),
            settings_digest: settings_digest(&settings),
            settings,
            live,
            question_budget: question_budget(&read, &budget),
            sharing: read
                .coordination()
                .map(|_| Sharing::new(shared, is_named, budget)),
            membership: Membership::of(spec, &read),
            serves_tls: read.ingest().tls().is_some(),
            export_timeout: read.export().timeout(),
            inference_endpoint: read.inference().base_url().to_owned(),
            secrets: secrets::used(spec),
            service: spec
                .ingest
                .as_ref()
                .and_then(|ingest| ingest.service.clone())
                .unwrap_or_default(),
            template: spec.template.clone().unwrap_or_default(),
            name,
            namespace,
        })
    }
}

impl ValidPolicy {
    /// Its name: a DNS label of at most [`MAX_NAME_LENGTH`] characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace; empty if it has none yet.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its uid; empty if it is in no cluster.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Wanted pods; `None` if somebody else decides.
    pub fn replicas(&self) -> Option<i32> {
        self.replicas
    }

    /// The revision: a label value.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The settings file.
    pub fn settings(&self) -> &str {
        &self.settings
    }

    /// Names the settings file by its content.
    pub fn settings_digest(&self) -> &str {
        &self.settings_digest
    }

    /// The key `policy` of the live object. `generation` is that of the budget; 0 if it has none.
    pub fn live(&self, generation: u32) -> String {
        match &self.sharing {
            None => documents::yaml(&self.live),
            Some(sharing) => {
                let live = documents::with_budget(self.live.clone(), sharing.budget(), generation);
                documents::yaml(&live)
            }
        }
    }

    /// How pods share, if they do.
    pub fn sharing(&self) -> Option<&Sharing> {
        self.sharing.as_ref()
    }

    /// How many questions may be begun.
    pub fn question_budget(&self) -> &QuestionBudget {
        &self.question_budget
    }

    /// The URL that is asked, also if it is the default.
    pub fn inference_endpoint(&self) -> &str {
        &self.inference_endpoint
    }

    /// Who is to own resources.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Whether senders have to speak TLS.
    pub fn serves_tls(&self) -> bool {
        self.serves_tls
    }

    /// How long a pod waits for what is behind it.
    pub fn export_timeout(&self) -> Duration {
        self.export_timeout
    }

    /// Every Secret that is used.
    pub fn secrets(&self) -> &[SecretUse] {
        &self.secrets
    }

    /// The Service in front.
    pub fn service(&self) -> &OtlpService {
        &self.service
    }

    /// The pods.
    pub fn template(&self) -> &PodTemplate {
        &self.template
    }

    /// The name of the live object.
    pub fn live_name(&self) -> String {
        live_name(&self.name)
    }
}

fn question_budget(settings: &DataPlaneSettings, shared: &Budget) -> QuestionBudget {
    let inference = settings.inference();
    let is_shared = settings.coordination().is_some();
    QuestionBudget {
        requests_per_second: if is_shared {
            shared.requests_per_second().get()
        } else {
            inference.requests_per_second()
        },
        is_shared,
        score_ttl_seconds: inference.score_ttl().as_secs(),
    }
}

/// Violations in a document as violations in the spec: fields have the same names in both.
fn in_spec(error: &SettingsError) -> Vec<String> {
    match error {
        SettingsError::Invalid(violations) => violations
            .iter()
            .map(|violation| {
                let path = documents::path_in_spec(violation.path());
                format!("spec.{path}: {}", violation.rule())
            })
            .collect(),
        other => vec![format!("spec: {other}")],
    }
}

#[cfg(test)]
mod tests;
