//! Watching a rollout, as a person does with `kubectl get jmp --watch`.

use jevmetrics_testkit::poll;
use serde_json::Value;

use super::person::Person;
use super::{NAMESPACE, PATIENCE};
use crate::Failure;

/// Prints each change until every pod runs `revision`; gives what the status says then.
pub(crate) async fn rollout(person: &Person<'_>, revision: &str) -> Result<String, Failure> {
    let mut shown = String::new();
    let look = async || {
        let text = person
            .quietly(&format!("get jmp metrics -n {NAMESPACE} -o json"))
            .await;
        let text = text.map_err(|error| error.to_string())?;
        let policy: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let now = progress(&policy);
        if now != shown {
            println!("     {now}");
            shown.clone_from(&now);
        }
        is_done(&policy, revision).then(|| summary(&policy)).ok_or(now)
    };
    Ok(poll::eventually("the rollout", PATIENCE, look).await?)
}

fn progress(policy: &Value) -> String {
    let status = &policy["status"];
    format!(
        "current={} target={} updated={} ready={} RolledOut={}",
        word(&status["revision"]["current"]),
        word(&status["revision"]["target"]),
        status["revision"]["updated"],
        word(&status["ready"]),
        word(&condition(policy, "RolledOut")["reason"]),
    )
}

fn is_done(policy: &Value, revision: &str) -> bool {
    let rolled_out = condition(policy, "RolledOut");
    policy["status"]["revision"]["current"] == revision
        && rolled_out["status"] == "True"
        && rolled_out["observedGeneration"] == policy["metadata"]["generation"]
}

/// The end of the demo's last line.
fn summary(policy: &Value) -> String {
    let status = &policy["status"];
    format!(
        "revision={} ready={}",
        word(&status["revision"]["current"]),
        word(&status["ready"])
    )
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
