//! Row `rules_100x`: what a warm request costs under 11,000 protection rules, against 110.
//!
//! A bound of a few percent drowns in timing noise, so instructions are counted: this program runs itself
//! under callgrind with two numbers of iterations; their difference is the iterations alone.

use std::collections::HashSet;
use std::hint::black_box;
use std::io;
use std::process::{Command, Stdio};

use jevmetrics_testkit::source::shape_a;

use crate::error::BenchError;
use crate::report::{Bound, Report};
use crate::warm::Warm;
use crate::workload::{REQUESTS, Workload};

/// Protected names; a tenth as many prefixes come on top.
const FEW_RULES: u32 = 100;
const MANY_RULES: u32 = 10_000;
/// Passes over all requests of the workload: so many that random hash tables, which make a start-up differ from
/// the next, stay below a thousandth.
const ITERATIONS: [u32; 2] = [20, 220];
const MOST_RATIO: f64 = 1.05;

/// The row. False if valgrind is not there.
pub(crate) fn run(report: &mut Report) -> Result<bool, BenchError> {
    let mut costs = [0.0; 2];
    for (cost, rules) in costs.iter_mut().zip([FEW_RULES, MANY_RULES]) {
        let [short, long] = ITERATIONS;
        let (Some(start), Some(end)) = (count(rules, short)?, count(rules, long)?) else {
            Report::missing(
                "rules_100x",
                "valgrind is not installed (Debian: apt-get install valgrind)",
            );
            return Ok(false);
        };
        let instructions = f64::from(u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX));
        *cost = instructions / f64::from(long - short);
    }
    let [few, many] = costs;
    report.value(
        "rules_100x",
        many / few,
        Bound::AtMost(MOST_RATIO),
        "× the instructions",
    );
    let points = u32::try_from(shape_a().metrics * shape_a().points).unwrap_or(u32::MAX);
    let per_point = few / f64::from(points) / f64::from(REQUESTS);
    report.info("instructions_a_per_point", per_point, "instructions");
    Ok(true)
}

/// The counted part: `iterations` passes of a warm engine over shape A.
pub(crate) fn run_counted(rules: &str, iterations: &str) -> Result<(), BenchError> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| BenchError::Arguments(text.to_owned()))
    };
    let (rules, iterations) = (number(rules)?, number(iterations)?);
    let workload = Workload::new(shape_a());
    let names: Vec<String> = (0..rules)
        .map(|rule| format!("legacy.application.metric_{rule:05}"))
        .collect();
    let prefixes: Vec<String> = (0..rules / 10)
        .map(|rule| format!("legacy.vendor_{rule:04}."))
        .collect();
    let engine = Warm::new(shape_a().metrics * workload.requests.len(), &names, &prefixes)?;
    let droppable: &HashSet<String> = &workload.droppable;
    workload
        .requests
        .iter()
        .try_for_each(|request| engine.learn(request, droppable))?;
    for _ in 0..iterations {
        for request in &workload.requests {
            black_box(engine.process(request)?);
        }
    }
    Ok(())
}

/// Instructions of a whole run of this program. `None` without valgrind.
fn count(rules: u32, iterations: u32) -> Result<Option<u64>, BenchError> {
    let valgrind = |what: &dyn std::fmt::Display| BenchError::Valgrind(what.to_string());
    let program = std::env::current_exe().map_err(|error| valgrind(&error))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([
            "instructions",
            "--rules",
            &rules.to_string(),
            "--iterations",
            &iterations.to_string(),
        ])
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| valgrind(&error))?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match counted {
        Some(counted) if output.status.success() => Ok(Some(counted)),
        _ => Err(valgrind(&format_args!("{}: {said}", output.status))),
    }
}
