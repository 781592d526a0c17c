//! What was measured: the table for people, `summary.json` for programs.

use std::collections::BTreeMap;

use jevmetrics_testkit::benchmark::{Range, summary_path};

use crate::load::Load;
use crate::rounds::{HARNESS_LIMIT, Pair, Side};
use crate::workload::Workload;
use crate::{Effort, Failure};

/// What a value must keep to, and what it should reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    is_floor: bool,
    pub(crate) must: f64,
    pub(crate) aim: f64,
}

impl Bound {
    pub(crate) const fn at_least(must: f64, aim: f64) -> Self {
        Self {
            is_floor: true,
            must,
            aim,
        }
    }

    pub(crate) const fn at_most(must: f64, aim: f64) -> Self {
        Self {
            is_floor: false,
            must,
            aim,
        }
    }

    pub(crate) fn words(self) -> String {
        let relation = if self.is_floor { '≥' } else { '≤' };
        format!("{relation} {} (aim {relation} {})", self.must, self.aim)
    }

    pub(crate) fn verdict(self, value: f64) -> &'static str {
        let holds = |bound: f64| {
            if self.is_floor {
                value >= bound
            } else {
                value <= bound
            }
        };
        match (holds(self.aim), holds(self.must)) {
            (true, _) => "held, aim reached",
            (false, true) => "held",
            (false, false) => "MISSED",
        }
    }
}

/// Names of the two sides of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides {
    pub(crate) first: &'static str,
    pub(crate) second: &'static str,
}

impl Sides {
    pub(crate) const OURS_AND_COLLECTOR: Self = Self {
        first: "ours",
        second: "collector",
    };
    pub(crate) const PASSING_AND_DECIDING: Self = Self {
        first: "passing",
        second: "deciding",
    };
}

/// A row that compares; its value is the second side over the first.
#[derive(Debug)]
pub(crate) struct PairRow {
    pub(crate) key: &'static str,
    pub(crate) sides: Sides,
    pub(crate) load: Load,
    /// None for a row that only informs.
    pub(crate) bound: Option<Bound>,
    pub(crate) pair: Pair,
}

impl PairRow {
    /// Both sides: name, measurements, CPU time for each data point.
    pub(crate) fn named(&self) -> [(&'static str, &Side, Range); 2] {
        let nanos = self.pair.nanos();
        [
            (self.sides.first, &self.pair.first, nanos.first),
            (self.sides.second, &self.pair.second, nanos.second),
        ]
    }

    pub(crate) fn verdict(&self) -> String {
        if let Some(why) = self.pair.void() {
            return format!("not shown: {why}, three times");
        }
        let verdict = self
            .bound
            .map(|bound| bound.verdict(self.pair.nanos().ratio.median));
        verdict.unwrap_or("for information").to_owned()
    }

    pub(crate) fn must(&self) -> String {
        self.bound.map_or_else(|| "–".to_owned(), Bound::words)
    }

    /// Was the harness so busy that throughput and latency of `side` say nothing?
    pub(crate) fn is_harness_bound(side: &Side) -> bool {
        side.range(|measured| measured.harness_share).median > HARNESS_LIMIT
    }
}

/// A single value.
#[derive(Debug)]
pub(crate) struct ValueRow {
    pub(crate) key: &'static str,
    pub(crate) value: f64,
    pub(crate) bound: Bound,
}

/// One of the workloads in words.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) requests: usize,
    pub(crate) bytes_per_point: f64,
    pub(crate) gzip_ratio: f64,
}

/// Everything, printed as it comes.
pub(crate) struct Report {
    pub(crate) effort: Effort,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) pairs: Vec<PairRow>,
    pub(crate) values: Vec<ValueRow>,
}

impl Report {
    pub(crate) fn new<'a>(
        effort: Effort,
        workloads: impl IntoIterator<Item = (&'static str, &'a std::sync::Arc<Workload>)>,
    ) -> Self {
        println!(
            "CPU of the system under test for each data point received; {} rounds, in turn; medians [lowest..highest]",
            effort.rounds
        );
        let shapes = workloads.into_iter().map(|(name, workload)| Shape {
            name,
            requests: workload.inputs.len(),
            bytes_per_point: workload.bytes_per_point,
            gzip_ratio: workload.gzip_ratio,
        });
        Self {
            effort,
            shapes: shapes.collect(),
            pairs: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(crate) fn value(&mut self, key: &'static str, value: f64, bound: Bound) {
        println!(
            "{key:<34} {value:>8.1}  {}: {}",
            bound.words(),
            bound.verdict(value)
        );
        self.values.push(ValueRow { key, value, bound });
    }

    pub(crate) fn pair(&mut self, row: PairRow) {
        let Range { median, low, high } = row.pair.nanos().ratio;
        println!(
            "{:<34} {median:>8.2} × [{low:.2}..{high:.2}]  a/a {}  {}: {}",
            row.key,
            percent(row.pair.nanos().spread),
            row.must(),
            row.verdict()
        );
        for (name, side, nanos) in row.named() {
            let of = |value: fn(&crate::load::Measured) -> f64| side.range(value).median;
            let bound = if PairRow::is_harness_bound(side) {
                " (harness-bound: void but for CPU)"
            } else {
                ""
            };
            println!(
                "  {name:<10} {:>8.0} ns/point [{:.0}..{:.0}]  {:>7.0} requests/s  p50 {:.2} ms p99 {:.2} ms  \
                 core: system {} harness {}{bound} others {}  RSS {:.0} MiB",
                nanos.median,
                nanos.low,
                nanos.high,
                of(|m| m.requests_per_second),
                of(|m| m.p50.as_secs_f64() * 1e3),
                of(|m| m.p99.as_secs_f64() * 1e3),
                percent(of(|m| m.system_share)),
                percent(of(|m| m.harness_share)),
                percent(side.range(|m| m.others).high),
                of(|m| m.resident_mib),
            );
        }
        self.pairs.push(row);
    }

    /// As it stands in the summary.
    pub(crate) fn flat(&self) -> BTreeMap<String, f64> {
        let mut flat: BTreeMap<String, f64> = self
            .values
            .iter()
            .map(|row| (row.key.to_owned(), row.value))
            .collect();
        for row in &self.pairs {
            let stem = row.key.trim_end_matches("_vs_filter");
            for (name, side, nanos) in row.named() {
                flat.insert(format!("{stem}_{name}_ns_per_point"), nanos.median);
                flat.insert(
                    format!("{stem}_{name}_rss_mib"),
                    side.range(|m| m.resident_mib).median,
                );
                if matches!(row.load, Load::Open { .. }) && !PairRow::is_harness_bound(side) {
                    let micros = |of: fn(&crate::load::Measured) -> std::time::Duration| {
                        side.range(|m| of(m).as_secs_f64() * 1e6).median
                    };
                    flat.insert(format!("{stem}_{name}_p50_us"), micros(|m| m.p50));
                    flat.insert(format!("{stem}_{name}_p99_us"), micros(|m| m.p99));
                }
            }
            if row.pair.void().is_none() {
                flat.insert(row.key.to_owned(), row.pair.nanos().ratio.median);
            }
        }
        flat
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The summary as it is; empty if there is none.
pub(crate) fn read_summary() -> Result<BTreeMap<String, f64>, Failure> {
    match std::fs::read(summary_path()) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

/// Puts the results in place of older ones; what others have measured stays.
pub(crate) fn write_summary(report: &Report) -> Result<(), Failure> {
    let mut summary = read_summary()?;
    for row in &report.pairs {
        // A row that was not shown this time must not show an older value.
        summary.remove(row.key);
    }
    summary.extend(report.flat());
    let path = summary_path();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, serde_json::to_vec_pretty(&summary)?)?;
    Ok(())
}
