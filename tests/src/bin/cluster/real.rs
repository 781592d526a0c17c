//! The cluster with a real node, and a shell in it.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use jevmetrics_testkit::helm::Helm;
use jevmetrics_testkit::node::{Daemon, Node, NodeOptions, images_folder};
use tokio::process::Command;

use super::Failure;

/// Starts the node, runs `command` or a shell, and ends with its code.
pub(super) async fn run(command: Option<&[&str]>) -> Result<ExitCode, Failure> {
    let images = images_folder()?;
    println!("starting a node with {} images", images.len());
    let helm = Helm::shared()?.path();
    let node = Node::start(NodeOptions {
        images,
        ..NodeOptions::default()
    })
    .await?;
    let reached = node.milestones();
    for (what, after) in [
        ("control plane", reached.control_plane),
        ("node Ready", reached.node),
        ("names resolve", reached.names),
    ] {
        println!("  {what} after {:.1} s", after.as_secs_f64());
    }
    for daemon in Daemon::ALL {
        println!("  {daemon}: {} MiB", node.resident_bytes(daemon)? >> 20);
    }

    let plane = node.plane();
    let programs = plane.directory().join("bin");
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| Failure::Io { what, source }
    };
    std::fs::create_dir(&programs).map_err(failed("make a folder for programs"))?;
    for (name, path) in [("kubectl", plane.kubectl_path()), ("helm", helm.to_owned())] {
        symlink(path, programs.join(name)).map_err(failed("link a program"))?;
    }
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/bash".to_owned());
    let words = command.map_or_else(|| vec![shell.as_str()], <[&str]>::to_vec);
    if command.is_none() {
        println!("{shell} with kubectl and helm; the cluster ends with it");
    }
    let mut child = Command::new(words[0]);
    child
        .args(&words[1..])
        .env("KUBECONFIG", plane.admin_kubeconfig())
        .env("PATH", search_path(&programs));
    // What they remember is of this cluster: it goes with it.
    for variable in [
        "KUBECACHEDIR",
        "HELM_CACHE_HOME",
        "HELM_CONFIG_HOME",
        "HELM_DATA_HOME",
    ] {
        child.env(variable, plane.directory().join("home").join(variable));
    }
    let status = child
        .status()
        .await
        .map_err(failed(&format!("run {}", words[0])))?;
    // Not dropped: what the node holds would delay the end, and all of it goes with the sandbox.
    std::mem::forget(node);
    // How a person's last command ended is no news.
    Ok(command.map_or(ExitCode::SUCCESS, |_| code(status)))
}

fn search_path(first: &Path) -> OsString {
    let mut path = first.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}

/// As a shell says it: 128 and the number of the signal for one that was killed.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
