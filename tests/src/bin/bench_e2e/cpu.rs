//! Cores and what the kernel says of a process: CPU time, resident memory.

use std::process::Command;
use std::time::Duration;

use crate::Failure;

/// Generator, sink and mock.
pub(crate) const HARNESS_CORE: &str = "0";
/// The system under test.
pub(crate) const SYSTEM_CORE: &str = "1";

/// Moves all threads of a process to one core; threads started later inherit it.
pub(crate) fn pin(pid: u32, core: &str) -> Result<(), Failure> {
    let output = Command::new("taskset")
        .args(["-a", "-c", "-p", core, &pid.to_string()])
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("cannot pin a process to core {core}: {}", why.trim()).into())
    }
}

/// User and system time of all threads, also of those that have ended.
///
/// # Caveats
/// In steps of 10 ms: half a percent of two seconds.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the name, in parentheses, and may hold anything.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let ticks = |index: usize| -> Result<u64, Failure> {
        Ok(fields
            .get(index)
            .ok_or("a process has no CPU time in /proc")?
            .parse()?)
    };
    // USER_HZ is 100 on every Linux platform that Rust supports.
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// What all processes and the hypervisor have used of all cores since the start.
pub(crate) fn machine_time() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>()?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
    let [user, nice, system, _, _, irq, softirq, steal] = ticks
        .first_chunk()
        .ok_or("/proc/stat has not the columns that it had")?;
    Ok(Duration::from_millis(
        (user + nice + system + irq + softirq + steal) * 10,
    ))
}

/// Resident memory in MiB.
#[allow(clippy::cast_precision_loss, reason = "a few megabytes")]
pub(crate) fn resident_mib(pid: u32) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    Ok(kib.ok_or("a process has no resident memory in /proc")? as f64 / 1024.0)
}
