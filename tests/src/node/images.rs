//! Images: those of the node itself, and those that a test brings along. Nothing is pulled.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::NodeError;
use crate::cluster::{ClusterError, io_error, run_script};

/// Names the folder of the product's images; without it, it is `images` in the target folder.
pub const IMAGES_VARIABLE: &str = "JEVMETRICS_IMAGES";

/// Holds the namespaces of a pod.
pub(super) const PAUSE_IMAGE: &str = "jevmetrics.test/pause:1";
/// Answers for names of Services.
pub(super) const DNS_IMAGE: &str = "jevmetrics.test/coredns:1";
/// `/probe`: a server, a client and a resolver for tests of the node itself, see `tests/kubernetes/probe`.
pub const PROBE_IMAGE: &str = "jevmetrics.test/probe:1";

/// The images of the node itself, written if they are not there.
pub(super) async fn own() -> Result<Vec<PathBuf>, ClusterError> {
    run_script("images.sh", &["pause", "coredns", "probe"]).await
}

/// All images of the product: the tars of the folder that [`IMAGES_VARIABLE`] names. A folder that is not there has none.
///
/// # Errors
/// The folder cannot be read.
pub fn images_folder() -> Result<Vec<PathBuf>, NodeError> {
    let this = std::env::current_exe().map_err(io_error("cannot find this executable"))?;
    let named = std::env::var_os(IMAGES_VARIABLE).map(PathBuf::from);
    let folder = named.or_else(|| target(&this).map(|target| target.join("images")));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        return Ok(Vec::new());
    };
    Ok(tars(&folder).map_err(io_error(format!("cannot read {}", folder.display())))?)
}

/// The target folder: a test is in TARGET/PROFILE/deps, a program in TARGET/PROFILE.
fn target(executable: &Path) -> Option<&Path> {
    let folder = executable.parent()?;
    let profile = if folder.ends_with("deps") {
        folder.parent()?
    } else {
        folder
    };
    profile.parent()
}

fn tars(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension() == Some(OsStr::new("tar")));
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_target_folder_is_that_of_the_executable() {
        for executable in ["/target/debug/cluster", "/target/release/deps/e2e-0"] {
            assert_eq!(target(Path::new(executable)), Some(Path::new("/target")));
        }
    }

    #[test]
    fn only_tars_are_images() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.tar", "a.tar", "a.tar.part", "notes"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let expected = ["a.tar", "b.tar"].map(|name| folder.path().join(name));
        assert_eq!(tars(folder.path()).unwrap(), expected);
    }
}
