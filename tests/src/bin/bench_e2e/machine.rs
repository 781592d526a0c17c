//! Where and with what it was measured. Nothing that names a host or a path.

use std::process::Command;

/// Lines of "what: which".
pub(crate) fn describe() -> Vec<(&'static str, String)> {
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cores = std::fs::read_to_string("/proc/cpuinfo")
        .map(|text| text.lines().filter(|line| line.starts_with("processor")).count());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    vec![
        ("CPU", or_unknown(model)),
        ("cores", or_unknown(cores.ok().map(|cores| cores.to_string()))),
        (
            "kernel",
            or_unknown(kernel.map(|kernel| format!("Linux {}", kernel.trim()))),
        ),
        ("Rust", or_unknown(first_line("rustc", "--version"))),
        ("Go", or_unknown(first_line("go", "version"))),
        ("data plane", env!("CARGO_PKG_VERSION").to_owned()),
        ("OpenTelemetry Collector", "v0.161.0, grpc-go v1.83.2".to_owned()),
    ]
}

fn or_unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "unknown".to_owned())
}

fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.to_owned())
}
