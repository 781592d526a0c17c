//! A control plane for one test alone, with an operator that looks at every namespace.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use jevmetrics_api::policy::{JevMetricsPolicy, definition};
use jevmetrics_testkit::cluster::{
    ControlPlane, HollowNodes, Mark, Operator, OperatorOptions, Options, Request,
};
use jevmetrics_testkit::{poll, process};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::{policies, stage};

/// Longer than dozens of policies take on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(4);
/// Calls at a time.
const AT_A_TIME: usize = 8;
/// The user of the operator.
const USER: &str = "operator-of-all";

pub(crate) struct Site {
    // Dropped in this order.
    pub(crate) nodes: HollowNodes,
    pub(crate) plane: ControlPlane,
    pub(crate) client: Client,
    /// Where policies are.
    pub(crate) namespaces: Vec<String>,
    lease_namespace: String,
}

impl Site {
    /// With so many namespaces for policies.
    pub(crate) async fn start(namespaces: usize) -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        let nodes = HollowNodes::start(&plane, 3).await.unwrap();
        plane.install(&[definition().unwrap()]).await.unwrap();
        let mut made = Vec::new();
        for _ in 0..namespaces {
            made.push(plane.namespace("policies").await.unwrap());
        }
        Self {
            client: plane.admin().await.unwrap(),
            lease_namespace: plane.namespace("operator").await.unwrap(),
            namespaces: made,
            nodes,
            plane,
        }
    }

    /// Starts the operator, and waits until it leads.
    pub(crate) async fn operator(&self) -> Operator {
        let options = OperatorOptions::for_cluster(USER, &self.lease_namespace);
        let operator = self.plane.operator(&options).await.unwrap();
        leads(&operator).await;
        operator
    }

    /// Namespace and name of the policy number `index`: they are spread over all namespaces.
    pub(crate) fn place(&self, index: usize) -> (&str, String) {
        (
            &self.namespaces[index % self.namespaces.len()],
            format!("jm-{index}"),
        )
    }

    /// Applies `spec` as each of so many policies.
    pub(crate) async fn apply(&self, policies: std::ops::Range<usize>, spec: &Value) {
        stream::iter(policies)
            .for_each_concurrent(AT_A_TIME, async |index| {
                let (namespace, name) = self.place(index);
                let policy = policies::named(&name, spec);
                let params = PatchParams::apply("user").force().validation_strict();
                let api: Api<JevMetricsPolicy> = Api::namespaced(self.client.clone(), namespace);
                api.patch(&name, &params, &Patch::Apply(&policy)).await.unwrap();
            })
            .await;
    }

    /// Waits until so many policies have all of these conditions: type, status, reason.
    pub(crate) async fn conditions(&self, policies: usize, wanted: &[(&str, &str, &str)]) {
        let what = format!("{wanted:?} of {policies} policies");
        poll::eventually(&what, WITHIN, async || {
            let list = self.policies().await.map_err(|error| error.to_string())?;
            let has_all = |policy: &&JevMetricsPolicy| wanted.iter().all(|wanted| has(policy, *wanted));
            let done = list.iter().filter(has_all).count();
            let other = list.iter().find(|policy| !has_all(policy));
            if done == policies && other.is_none() {
                return Ok(());
            }
            Err(format!(
                "{done} have them; {:#?}",
                other.map(|other| &other.status)
            ))
        })
        .await
        .unwrap();
    }

    pub(crate) async fn policies(&self) -> kube::Result<Vec<JevMetricsPolicy>> {
        let api: Api<JevMetricsPolicy> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Everything that the operator asked to be changed since `mark`, its Lease apart.
    pub(crate) fn writes(&self, mark: Mark) -> Vec<Request> {
        let mut requests = self.requests(mark);
        requests.retain(|request| request.is_write() && request.resource != "leases");
        requests
    }

    /// All that the operator asked since `mark`.
    pub(crate) fn requests(&self, mark: Mark) -> Vec<Request> {
        self.plane.requests_of(USER, mark).unwrap()
    }

    /// Waits until the operator has written nothing for `quiet`, and has nothing that waits to be written; says what it wrote
    /// since `mark`.
    pub(crate) async fn settled(&self, mark: Mark, quiet: Duration) -> Vec<Request> {
        loop {
            let writes = stage::settled(quiet, || self.writes(mark)).await;
            if !stage::is_crowded(&writes) {
                return writes;
            }
        }
    }
}

fn has(policy: &JevMetricsPolicy, (type_, status, reason): (&str, &str, &str)) -> bool {
    let conditions = policy.status.iter().flat_map(|status| &status.conditions);
    let mut of_type = conditions.filter(|condition| condition.type_ == type_);
    of_type.any(|condition| {
        condition.status == status
            && condition.reason == reason
            && condition.observed_generation == policy.metadata.generation
    })
}

/// Waits until `operator` leads.
pub(crate) async fn leads(operator: &Operator) {
    let leads = async || operator.leads().await.then_some(());
    let waited = poll::until_some("leading", WITHIN, leads).await;
    waited.unwrap_or_else(|error| panic!("{error}; {}", operator.printed()));
}

/// The sum of all series of the operator's metrics whose name and labels begin with `series`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters are whole and not negative"
)]
pub(crate) async fn count(operator: &Operator, series: &str) -> u64 {
    let (_, text) = operator.page("/metrics").await.unwrap();
    let scrape = process::parse_metrics(&text);
    let of_series = scrape.iter().filter(|(name, _)| name.starts_with(series));
    of_series.map(|(_, value)| *value as u64).sum()
}
