//! A browser without a window, that takes pictures of pages.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::Failure;

/// Names the browser; without it, these are looked for.
const VARIABLE: &str = "JEVMETRICS_BROWSER";
/// Only the shell gives windows that are as narrow as a phone.
const NAMES: [&str; 2] = ["chromium-headless-shell", "chrome-headless-shell"];
/// Longer than a page takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A picture that is wanted.
#[derive(Debug)]
pub(crate) struct Shot {
    pub(crate) file: PathBuf,
    /// In pixels of CSS.
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scale: u32,
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Browser(PathBuf);

impl Browser {
    /// The browser of this machine.
    pub(crate) fn find() -> Result<Self, Failure> {
        if let Some(named) = std::env::var_os(VARIABLE) {
            return Ok(Self(named.into()));
        }
        let found = NAMES.into_iter().find_map(program);
        found.map(Self).ok_or_else(|| {
            let names = NAMES.join(" or ");
            format!("there is no browser: install {names}, or name one in {VARIABLE}").into()
        })
    }

    /// Opens `url` and takes the picture.
    pub(crate) async fn take(&self, url: &str, shot: &Shot) -> Result<(), Failure> {
        let profile = tempfile::tempdir()?;
        // Written beside, and whole or not at all.
        let picture = profile.path().join("picture.png");
        let run = Command::new(&self.0)
            // The page is our own, and the sandbox needs what containers do not give.
            .args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={},{}", shot.width, shot.height))
            .arg(format!("--force-device-scale-factor={}", shot.scale))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(url)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(DEADLINE, run)
            .await
            .map_err(|_| format!("{} takes longer than {DEADLINE:?}", self.0.display()))?
            .map_err(|error| format!("{} cannot be started: {error}", self.0.display()))?;
        if !output.status.success() || !picture.is_file() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} took no picture: {said}", self.0.display()).into());
        }
        smaller(&picture).await;
        std::fs::copy(&picture, &shot.file).map_err(|error| format!("{}: {error}", shot.file.display()))?;
        Ok(())
    }
}

/// Fewer colours, if the program is there: a third of the bytes.
async fn smaller(picture: &Path) {
    let done = Command::new("pngquant")
        .args(["--force", "--ext", ".png", "--speed", "1", "64"])
        .arg(picture)
        .stdin(Stdio::null())
        .status()
        .await;
    if !done.is_ok_and(|status| status.success()) {
        println!("pngquant is missing: the picture is larger than it could be");
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
