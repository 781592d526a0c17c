//! Helm, with which the chart is rendered and installed as users do it.
//!
//! Invariant: nothing of the machine's own Helm is read or written: no settings, no cache, no cluster unless a kubeconfig
//! is given.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use crate::cluster::{ClusterError, ControlPlane, Directory};

/// Why Helm did not do it.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// There is no Helm, and it could not be built.
    #[error("there is no Helm: {0}")]
    NotFound(String),
    /// It could not be run.
    #[error("cannot run Helm: {0}")]
    Run(#[from] io::Error),
    /// It has no place for its files.
    #[error(transparent)]
    Directory(#[from] ClusterError),
    /// It failed.
    #[error("helm {arguments:?} ended with {status}: {printed}")]
    Failed {
        /// What it was asked.
        arguments: Vec<String>,
        /// How it ended.
        status: ExitStatus,
        /// All that it printed.
        printed: String,
    },
}

/// A binary with a home of its own.
#[derive(Debug)]
pub struct Helm {
    binary: PathBuf,
    home: Directory,
}

impl Helm {
    /// The one of this process.
    ///
    /// # Errors
    /// It is not there and could not be built. That is not tried again.
    pub fn shared() -> Result<&'static Self, &'static HelmError> {
        static SHARED: OnceLock<Result<Helm, HelmError>> = OnceLock::new();
        SHARED.get_or_init(Self::find).as_ref()
    }

    fn find() -> Result<Self, HelmError> {
        let binary = built()?;
        if !binary.is_file() {
            return Err(HelmError::NotFound(format!("{} is no file", binary.display())));
        }
        Ok(Self {
            binary,
            home: Directory::create()?,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.binary
    }

    /// Runs it with `input` as its standard input; gives what it printed on standard output.
    ///
    /// # Errors
    /// [`HelmError::Failed`] with all that it printed.
    pub fn run(&self, arguments: &[&str], input: &str) -> Result<String, HelmError> {
        self.run_with(None, arguments, input)
    }

    /// Runs it as the user of `kubeconfig`.
    ///
    /// # Errors
    /// As [`Helm::run`].
    pub fn run_as(&self, kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<String, HelmError> {
        self.run_with(Some(kubeconfig), arguments, input)
    }

    fn run_with(
        &self,
        kubeconfig: Option<&Path>,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, HelmError> {
        // An empty file is no cluster.
        let kubeconfig = kubeconfig.map_or_else(|| OsString::from("/dev/null"), OsString::from);
        let mut child = Command::new(&self.binary)
            .args(arguments)
            .env_clear()
            .env("HOME", self.home.path())
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // It may end without having read all of it; then its status tells.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() {
            return Ok(stdout);
        }
        Err(HelmError::Failed {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            status: output.status,
            printed: stdout + &stderr,
        })
    }
}

/// Runs it as the administrator of `plane`.
///
/// # Errors
/// As [`Helm::run`].
pub async fn on(plane: &ControlPlane, arguments: &[&str]) -> Result<String, HelmError> {
    as_user(&plane.admin_kubeconfig(), arguments).await
}

/// Runs it as the user of `kubeconfig`, on a thread of its own: it takes as long as what it waits for.
///
/// # Errors
/// As [`Helm::run`].
pub async fn as_user(kubeconfig: &Path, arguments: &[&str]) -> Result<String, HelmError> {
    let helm = Helm::shared().map_err(|error| HelmError::NotFound(error.to_string()))?;
    let kubeconfig = kubeconfig.to_owned();
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let run = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        helm.run_as(&kubeconfig, &arguments, "")
    });
    run.await
        .map_err(|error| HelmError::Run(io::Error::other(error)))?
}

/// The folder of the chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/jevmetrics")
}

fn built() -> Result<PathBuf, HelmError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes/build.sh");
    let output = Command::new(&script).arg("helm").stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(HelmError::NotFound(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
