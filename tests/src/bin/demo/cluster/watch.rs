//! Watching a policy, as a person does with `kubectl get jmp --watch`.

use std::fmt;

use jevmetrics_testkit::poll;
use serde_json::Value;

use super::person::Person;
use super::{NAMESPACE, PATIENCE};
use crate::Failure;

/// The end of the demo's last line: what the status says when all is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    revision: String,
    ready: String,
    members: i64,
    epoch: i64,
}

impl Summary {
    fn of(policy: &Value) -> Self {
        let status = &policy["status"];
        Self {
            revision: word(&status["revision"]["current"]).to_owned(),
            ready: word(&status["ready"]).to_owned(),
            members: number(&status["routing"]["members"]),
            epoch: number(&status["routing"]["epoch"]),
        }
    }

    /// Whether `replicas` pods of `revision` serve, and all of them own something.
    pub(crate) fn is(&self, revision: &str, replicas: i64) -> bool {
        self.revision == revision
            && self.ready == format!("{replicas}/{replicas}")
            && self.members == replicas
            && self.epoch > 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision,
            ready,
            members,
            epoch,
        } = self;
        write!(
            formatter,
            "revision={revision} ready={ready} members={members} epoch={epoch}"
        )
    }
}

/// Prints each change until every pod runs `revision`, owns something and knows it; gives what the status says then.
pub(crate) async fn rollout(person: &Person<'_>, revision: &str) -> Result<Summary, Failure> {
    let progress = |policy: &Value| {
        let status = &policy["status"];
        format!(
            "current={} target={} updated={} ready={} RolledOut={} members={} epoch={}",
            word(&status["revision"]["current"]),
            word(&status["revision"]["target"]),
            status["revision"]["updated"],
            word(&status["ready"]),
            word(&condition(policy, "RolledOut")["reason"]),
            number(&status["routing"]["members"]),
            number(&status["routing"]["epoch"]),
        )
    };
    let is_done = |policy: &Value| {
        policy["status"]["revision"]["current"] == revision
            && is_true(policy, "RolledOut")
            && has_gathered(policy)
    };
    let policy = watch(person, "the rollout", progress, is_done).await?;
    Ok(Summary::of(&policy))
}

/// Prints each change until every wanted pod owns something and knows it; gives the policy as it is then.
pub(crate) async fn gathering(person: &Person<'_>) -> Result<Value, Failure> {
    let progress = |policy: &Value| {
        let routing = &policy["status"]["routing"];
        format!(
            "ready={} members={} epoch={} converged={} RoutingConverged={}",
            word(&policy["status"]["ready"]),
            number(&routing["members"]),
            number(&routing["epoch"]),
            word(&routing["converged"]),
            word(&condition(policy, "RoutingConverged")["reason"]),
        )
    };
    watch(person, "members", progress, has_gathered).await
}

async fn watch(
    person: &Person<'_>,
    what: &str,
    line: impl Fn(&Value) -> String,
    is_done: impl Fn(&Value) -> bool,
) -> Result<Value, Failure> {
    let mut shown = String::new();
    let look = async || {
        let text = person
            .quietly(&format!("get jmp metrics -n {NAMESPACE} -o json"))
            .await;
        let text = text.map_err(|error| error.to_string())?;
        let policy: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let now = line(&policy);
        if now != shown {
            println!("     {now}");
            shown.clone_from(&now);
        }
        if is_done(&policy) { Ok(policy) } else { Err(now) }
    };
    Ok(poll::eventually(what, PATIENCE, look).await?)
}

/// Whether as many pods are ready and own something as there are to be, and all know the table.
fn has_gathered(policy: &Value) -> bool {
    let (replicas, status) = (&policy["spec"]["replicas"], &policy["status"]);
    status["ready"] == format!("{replicas}/{replicas}")
        && status["routing"]["members"] == *replicas
        && is_true(policy, "RoutingConverged")
}

/// Of the present spec.
fn is_true(policy: &Value, type_: &str) -> bool {
    let condition = condition(policy, type_);
    condition["status"] == "True" && condition["observedGeneration"] == policy["metadata"]["generation"]
}

fn condition<'a>(policy: &'a Value, type_: &str) -> &'a Value {
    let conditions = policy["status"]["conditions"].as_array();
    let mut found = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["type"] == type_);
    found.next().unwrap_or(&Value::Null)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}
