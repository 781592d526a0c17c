#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;

use jevmetrics_api::live::Mode;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

const POLL_IN_TESTS: Duration = Duration::from_millis(10);
const ANNOTATE: &str = "policy: {schema: 1}\n";
const REDUCE: &str = "policy: {schema: 1, mode: Reduce}\n";
const BROKEN: &str = "policy: {schema: 1, mode: Reduce\n";

/// A followed live file in a directory of its own.
struct Followed {
    directory: TempDir,
    path: PathBuf,
    states: watch::Receiver<LiveState>,
    stop: CancellationToken,
    following: JoinHandle<()>,
}

impl Followed {
    fn begin(content: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("live.yaml");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        Self::at(directory, path)
    }

    fn at(directory: TempDir, path: PathBuf) -> Self {
        let file = LiveFile::open(path.clone());
        let states = file.subscribe();
        let stop = CancellationToken::new();
        let following = tokio::spawn(file.follow_every(POLL_IN_TESTS, stop.clone()));
        Self {
            directory,
            path,
            states,
            stop,
            following,
        }
    }

    fn rename_over(&self, content: &str) {
        let next = self.directory.path().join("next");
        fs::write(&next, content).unwrap();
        fs::rename(next, &self.path).unwrap();
    }

    async fn until(&mut self, condition: impl FnMut(&LiveState) -> bool) -> LiveState {
        let met = self.states.wait_for(condition);
        tokio::time::timeout(Duration::from_secs(30), met)
            .await
            .expect("the state comes in time")
            .unwrap()
            .clone()
    }
}

fn mode(state: &LiveState) -> Option<Mode> {
    state.policy.as_ref().map(|policy| policy.mode())
}

#[tokio::test]
async fn the_first_reading_is_there_before_following_begins() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.yaml");
    fs::write(&path, REDUCE).unwrap();
    let state = LiveFile::open(path).subscribe().borrow().clone();
    assert_eq!((mode(&state), state.error), (Some(Mode::Reduce), None));
}

#[tokio::test]
async fn without_a_file_there_is_no_policy_until_one_comes() {
    let mut followed = Followed::begin(None);
    let state = followed.states.borrow().clone();
    assert_eq!(state.policy, None);
    assert_eq!(
        state.error,
        Some(format!("live file {}: not found", followed.path.display()))
    );
    followed.rename_over(ANNOTATE);
    let state = followed.until(|state| state.policy.is_some()).await;
    assert_eq!((mode(&state), state.error), (Some(Mode::Annotate), None));
}

#[tokio::test]
async fn a_rename_and_a_write_in_place_are_followed() {
    let mut followed = Followed::begin(Some(ANNOTATE));
    followed.rename_over(REDUCE);
    followed.until(|state| mode(state) == Some(Mode::Reduce)).await;
    fs::write(&followed.path, ANNOTATE).unwrap();
    followed.until(|state| mode(state) == Some(Mode::Annotate)).await;
}

#[tokio::test]
async fn a_swapped_link_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    for (name, content) in [("one", ANNOTATE), ("two", REDUCE)] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("live.yaml"), content).unwrap();
    }
    symlink("one", root.join("data")).unwrap();
    symlink("data/live.yaml", root.join("live.yaml")).unwrap();
    let mut followed = Followed::at(directory, root.join("live.yaml"));
    assert_eq!(mode(&followed.states.borrow()), Some(Mode::Annotate));
    symlink("two", root.join("data-next")).unwrap();
    fs::rename(root.join("data-next"), root.join("data")).unwrap();
    followed.until(|state| mode(state) == Some(Mode::Reduce)).await;
}

#[tokio::test]
async fn broken_and_missing_content_leave_the_policy_in_force() {
    let mut followed = Followed::begin(Some(REDUCE));
    let named = format!("live file {}: ", followed.path.display());
    for content in [BROKEN, "", "policy: {schema: 1, mode: reduce}\n", "\u{0}"] {
        followed.rename_over(content);
        let state = followed.until(|state| state.error.is_some()).await;
        assert_eq!(mode(&state), Some(Mode::Reduce), "{content:?}");
        assert!(state.error.unwrap().starts_with(&named));
        followed.rename_over(REDUCE);
        followed.until(|state| state.error.is_none()).await;
    }
    fs::remove_file(&followed.path).unwrap();
    let state = followed.until(|state| state.error.is_some()).await;
    assert_eq!(
        (mode(&state), state.error),
        (Some(Mode::Reduce), Some(format!("{named}not found")))
    );
    fs::write(&followed.path, [0xff, 0xfe, 0x00]).unwrap();
    let state = followed
        .until(|state| state.error.as_ref().is_some_and(|error| error.contains("UTF-8")))
        .await;
    assert_eq!(mode(&state), Some(Mode::Reduce));
    followed.rename_over(ANNOTATE);
    let state = followed.until(|state| mode(state) == Some(Mode::Annotate)).await;
    assert_eq!(state.error, None);
}

#[tokio::test]
async fn following_ends_when_it_is_stopped() {
    let followed = Followed::begin(Some(ANNOTATE));
    followed.stop.cancel();
    tokio::time::timeout(Duration::from_secs(30), followed.following)
        .await
        .expect("following ends")
        .unwrap();
}
