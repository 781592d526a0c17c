//! What is told of it.

use jevmetrics_testkit::sink::Counts;
use serde_json::Value;

use crate::Failure;

/// What each instrument got, and why.
///
/// `page` gives an administrative page of a data plane.
pub(crate) async fn decisions(
    page: impl AsyncFn(String) -> Result<Value, Failure>,
    names: &[String],
) -> Result<(), Failure> {
    println!(
        "\n   {:<44} {:<8} {:<19} {:>5}  model",
        "instrument", "decision", "reason", "keep"
    );
    for name in names {
        let answer = page(format!("/api/decisions?metric={name}")).await?;
        let rows = answer["decisions"].as_array().cloned().unwrap_or_default();
        let Some(row) = rows.first() else { continue };
        let keep = row["answers"]["keep_probability"].as_f64();
        println!(
            "   {:<44} {:<8} {:<19} {:>5}  {}{}",
            name,
            text(&row["decision"]),
            text(&row["reason"]),
            keep.map_or_else(|| "-".to_owned(), |keep| format!("{keep:.2}")),
            text(&row["model"]),
            if rows.len() > 1 {
                format!("  ({} identities)", rows.len())
            } else {
                String::new()
            },
        );
    }
    Ok(())
}

/// What Reduce would have saved.
pub(crate) fn preview(summary: &Value) {
    let would_drop: u64 = outcomes(summary, "annotate", "drop");
    let received = number(&summary["points"]["received"]);
    println!(
        "\n   so far {received} points came in and all were passed on; Reduce would have dropped {would_drop}"
    );
    println!(
        "   of them (decided only where an answer was there); companion points added: {}",
        number(&summary["points"]["companions_exported"])
    );
}

/// What Reduce saved between two summaries.
pub(crate) fn savings(before: &Value, after: &Value) {
    let change = |path: &[&str]| {
        let at = |value: &Value| number(path.iter().fold(value, |value, key| &value[*key]));
        at(after) - at(before)
    };
    let (received, dropped) = (change(&["points", "received"]), change(&["points", "dropped"]));
    let (bytes_in, bytes_out) = (change(&["bytes", "received"]), change(&["bytes", "exported"]));
    println!(
        "   points: {received} received, {dropped} dropped ({})",
        share(dropped, received)
    );
    let saved = bytes_in.saturating_sub(bytes_out);
    println!(
        "   bytes:  {bytes_in} received, {bytes_out} sent on ({} saved, unpacked sizes)",
        share(saved, bytes_in)
    );
}

/// The last line: the data plane's numbers, checked against what was sent and against the sink's own count.
///
/// Gives it, and whether all of it holds.
pub(crate) fn equation(sent: u64, summary: &Value, sink: &Counts) -> (String, bool) {
    let points = |key: &str| number(&summary["points"][key]);
    let (received, kept, dropped) = (points("received"), points("kept"), points("dropped"));
    let (exported, companions) = (points("exported"), points("companions_exported"));
    let checks = [
        ("received = sent", received, sent),
        ("received = kept + dropped", received, kept + dropped),
        ("kept = exported + failed", kept, exported + points("failed")),
        (
            "exported = the sink's count",
            exported,
            sink.accepted.others.points,
        ),
        (
            "companions = the sink's count",
            companions,
            sink.accepted.companions.points,
        ),
        ("something was dropped", u64::from(dropped > 0), 1),
        ("something was annotated", u64::from(companions > 0), 1),
    ];
    println!();
    for (what, left, right) in checks.iter().filter(|(_, left, right)| left != right) {
        println!("   does not hold: {what} ({left} against {right})");
    }
    let holds = checks.iter().all(|(_, left, right)| left == right);
    let verdict = if holds { "ok" } else { "broken" };
    let line = format!(
        "demo: received={received} kept={kept} dropped={dropped} exported={exported} companions={companions} \
         equation={verdict}"
    );
    (line, holds)
}

fn outcomes(summary: &Value, mode: &str, decision: &str) -> u64 {
    let rows = summary["outcomes"].as_array().cloned().unwrap_or_default();
    let rows = rows
        .iter()
        .filter(|row| row["mode"] == mode && row["decision"] == decision);
    rows.map(|row| number(&row["points"])).sum()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn share(part: u64, whole: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a share for people")]
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    format!("{percent:.0} %")
}
