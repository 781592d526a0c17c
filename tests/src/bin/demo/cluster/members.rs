//! Who owns what, shown while the number of pods changes.

use std::time::Instant;

use serde_json::Value;

use super::person::Person;
use super::{NAMESPACE, watch};
use crate::Failure;

/// Shows who is there.
pub(crate) async fn show(person: &Person<'_>) -> Result<(), Failure> {
    let policy = watch::gathering(person).await?;
    person.kubectl(&format!("get jmp -n {NAMESPACE} -o wide")).await?;
    lines(&policy);
    Ok(())
}

/// Scales, and shows who is there then.
pub(crate) async fn scale(person: &Person<'_>, replicas: u32) -> Result<(), Failure> {
    let began = Instant::now();
    person
        .kubectl(&format!("scale jmp/metrics -n {NAMESPACE} --replicas={replicas}"))
        .await?;
    show(person).await?;
    println!(
        "   {replicas} members after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A line for each of `status.members`.
fn lines(policy: &Value) {
    let row = |cells: [&str; 6]| {
        let [slot, pod, node, state, revision, epoch] = cells;
        println!("     {slot:<5} {pod:<36} {node:<6} {state:<9} {revision:<9} {epoch}");
    };
    row(["slot", "pod", "node", "state", "revision", "epoch"]);
    for member in policy["status"]["members"].as_array().into_iter().flatten() {
        let slot = member["slot"].as_i64();
        let slot = slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string());
        let text = |field: &str| member[field].as_str().unwrap_or("-");
        row([
            &slot,
            text("pod"),
            text("node"),
            text("state"),
            text("revision"),
            text("epoch"),
        ]);
    }
}
