//! Where the control plane's binaries are: `$KUBEBUILDER_ASSETS` first, one by one, then what
//! `tests/kubernetes/build.sh` has built.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::error::{ClusterError, io_error};

/// The folder of envtest's convention.
const GIVEN: &str = "KUBEBUILDER_ASSETS";

/// Two folders to look into.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    given: Option<PathBuf>,
    built: PathBuf,
}

impl Binaries {
    /// Builds what is missing, which takes minutes once, on one process at a time.
    pub(super) async fn find() -> Result<Self, ClusterError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes/build.sh");
        let output = Command::new("sh")
            .arg(&script)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(io_error("cannot run the build of the control plane"))?;
        if !output.status.success() {
            return Err(ClusterError::NotBuilt {
                script,
                status: output.status,
                printed: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        Ok(Self {
            given: std::env::var_os(GIVEN)
                .filter(|given| !given.is_empty())
                .map(PathBuf::from),
            built: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        let given = self.given.as_ref().map(|folder| folder.join(name));
        given
            .filter(|path| path.is_file())
            .unwrap_or_else(|| self.built.join(name))
    }
}
