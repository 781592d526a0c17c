//! A directory that goes when this process ends, however it ends.
//!
//! Invariants: nobody else may read it, for keys are in it; it is removed by a shell that waits for the end of a pipe
//! that only we write to, as the programs in [`super::supervised`] are ended.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::error::{ClusterError, io_error};

/// Tried again while programs that are being killed still write into it: at most 10 s.
const SHELL: &str = r#"
cat >/dev/null
tries=100
until rm -rf "$1" || [ "$tries" = 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
done
"#;

/// A directory of our own. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    remover: Child,
}

impl Directory {
    pub(crate) fn create() -> Result<Self, ClusterError> {
        let what = "cannot make a directory for a control plane";
        let directory = tempfile::Builder::new()
            .prefix("jevmetrics-cluster-")
            .tempdir()
            .map_err(io_error(what))?;
        let remover = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .arg(directory.path())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io_error(what))?;
        Ok(Self {
            path: directory.keep(),
            remover,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.remover.stdin = None;
        // It can only fail if somebody else has waited for the shell.
        let _ = self.remover.wait();
    }
}
