//! Nothing is left when whoever started a control plane is killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jevmetrics_testkit::poll;

/// Processes that were started with `word` in an argument.
fn processes_with(word: &str) -> Vec<String> {
    let directories = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = directories.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    commands.filter(|command| command.contains(word)).collect()
}

/// *Scenario*: a program with a control plane is killed by `kill -9`.
/// *Guarantees*: its processes and its files are gone soon after.
#[tokio::test]
async fn nothing_survives_the_kill_of_its_parent() {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_cluster"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let kubeconfig = line.trim().strip_prefix("export KUBECONFIG=").expect(&line);
    let directory = Path::new(kubeconfig).parent().unwrap().to_str().unwrap();
    // Four programs, a shell above each, its listener, and the shell that removes the files.
    assert_eq!(
        processes_with(directory).len(),
        13,
        "{:#?}",
        processes_with(directory)
    );

    let began = Instant::now();
    parent.kill().unwrap();
    parent.wait().unwrap();
    let nothing = async || match processes_with(directory) {
        none if none.is_empty() && !Path::new(directory).exists() => Ok(()),
        some => Err(format!("{some:#?}")),
    };
    poll::eventually("the end of all", Duration::from_secs(30), nothing)
        .await
        .unwrap();
    println!("all gone after {:?}", began.elapsed());
}
