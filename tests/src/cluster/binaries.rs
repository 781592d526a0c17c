//! Where the programs of a cluster are: `tests/kubernetes/build.sh` says it, and builds what is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::error::{ClusterError, io_error};

/// Programs by their names.
#[derive(Debug, Clone)]
pub(crate) struct Binaries(BTreeMap<String, PathBuf>);

impl Binaries {
    /// Builds what is missing, which takes minutes once, on one process at a time.
    pub(crate) async fn find(names: &[&str]) -> Result<Self, ClusterError> {
        let paths = run_script("build.sh", names).await?;
        let names = names.iter().map(|&name| name.to_owned());
        Ok(Self(names.zip(paths).collect()))
    }

    /// Where a program is that was asked for; else its bare name, which whoever runs it complains about.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.get(name).cloned().unwrap_or_else(|| PathBuf::from(name))
    }
}

/// Runs a script of `tests/kubernetes` that prints one path for each of `names`.
pub(crate) async fn run_script(script: &str, names: &[&str]) -> Result<Vec<PathBuf>, ClusterError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("kubernetes")
        .join(script);
    let output = Command::new(&script)
        .args(names)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(io_error(format!("cannot run {}", script.display())))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let paths: Vec<PathBuf> = printed.lines().map(PathBuf::from).collect();
    if output.status.success() && paths.len() == names.len() {
        return Ok(paths);
    }
    Err(ClusterError::NotBuilt {
        script,
        status: output.status,
        printed: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
