//! The table for people and the summary for programs.

use std::collections::BTreeMap;
use std::io::Write as _;

use jevmetrics_testkit::benchmark::{MOST_SPREAD, Paired, Range, summary_path};

use crate::error::BenchError;
use crate::rounds::Effort;
use crate::workload::Workload;

/// What a value must keep to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn verdict(self, value: f64) -> String {
        let (holds, words, bound) = match self {
            Self::AtLeast(bound) => (value >= bound, "at least", bound),
            Self::AtMost(bound) => (value <= bound, "at most", bound),
        };
        format!("{} ({words} {bound})", if holds { "holds" } else { "MISSED" })
    }
}

/// Collects what is measured, prints it as it comes.
pub(crate) struct Report {
    values: BTreeMap<String, f64>,
}

impl Report {
    pub(crate) fn new(effort: Effort) -> Self {
        let Effort { rounds, .. } = effort;
        say(&format!(
            "one thread, its CPU time, {rounds} rounds of A B A B; medians, ranges of the rounds in brackets; a/a: median\n\
             difference of a side to itself within a round, above {} the row is void\n",
            percent(MOST_SPREAD)
        ));
        Self {
            values: BTreeMap::new(),
        }
    }

    /// A ratio of two sides with its bound; without a measurement it is published as not shown.
    pub(crate) fn ratio(&mut self, key: &str, bound: Bound, paired: Option<Paired>) {
        let Some(Paired { ratio, spread, .. }) = paired else {
            say(&format!(
                "{key:<24} not shown: a side differed from itself by over {}, three times",
                percent(MOST_SPREAD)
            ));
            return;
        };
        let Range { median, low, high } = ratio;
        let verdict = bound.verdict(median);
        say(&format!(
            "{key:<24} {median:>8.2} ×  [{low:.2}..{high:.2}]  a/a {}  {verdict}",
            percent(spread)
        ));
        self.values.insert(key.to_owned(), median);
    }

    /// A single value with its bound.
    pub(crate) fn value(&mut self, key: &str, value: f64, bound: Bound, unit: &str) {
        say(&format!(
            "{key:<24} {value:>8.3} {unit}  {}",
            bound.verdict(value)
        ));
        self.values.insert(key.to_owned(), value);
    }

    /// A value that promises nothing.
    pub(crate) fn info(&mut self, key: &str, value: f64, unit: &str) {
        say(&format!("  {key:<22} {value:>8.1} {unit}"));
        self.values.insert(key.to_owned(), value);
    }

    /// What a pass over a workload took, by point and by byte.
    #[allow(clippy::cast_precision_loss, reason = "a few megabytes")]
    pub(crate) fn speed(&mut self, name: &str, pass: Range, workload: &Workload) {
        let Range { median, low, high } = pass;
        let points = workload.points as f64;
        let (nanos, low, high) = (median / points, low / points, high / points);
        let (gigabytes, millions) = (workload.bytes as f64 / median, 1_000.0 / nanos);
        say(&format!(
            "  {name:<22} {nanos:>8.1} ns/point [{low:.1}..{high:.1}]  {gigabytes:.2} GB/s in  {millions:.1} M points/s"
        ));
        self.values.insert(format!("{name}_ns_per_point"), nanos);
    }

    /// A row that could not be measured.
    pub(crate) fn missing(key: &str, why: &str) {
        say(&format!("{key:<24} missing: {why}"));
    }

    /// Writes `bench/summary.json` in cargo's target directory, anew: nothing of an earlier run may look like
    /// a result of this one. What else is measured comes after this program and adds its own keys.
    pub(crate) fn write_summary(&self) -> Result<(), BenchError> {
        let path = summary_path();
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| Ok(serde_json::to_vec_pretty(&self.values)?))
            .and_then(|json| std::fs::write(&path, json));
        written.map_err(|source| BenchError::File {
            path: path.clone(),
            source,
        })?;
        say(&format!("\nsummary: {}", path.display()));
        Ok(())
    }
}

/// Why there is no report.
pub(crate) fn complain(error: &BenchError) {
    // A closed terminal is no reason to fail.
    let _ = writeln!(std::io::stderr(), "bench: {error}");
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
