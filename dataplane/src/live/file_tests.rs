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
    routing: Arc<Routing>,
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
        let routing = Arc::new(Routing::default());
        let file = LiveFile::open(path.clone(), Arc::clone(&routing));
        let states = file.subscribe();
        let stop = CancellationToken::new();
        let following = tokio::spawn(file.follow_every(POLL_IN_TESTS, stop.clone()));
        Self {
            directory,
            path,
            states,
            routing,
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
    let state = LiveFile::open(path, Arc::default()).subscribe().borrow().clone();
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

/// A file whose two parts are these.
fn both(policy: &str, epoch: u64) -> String {
    format!(
        "{policy}routing: {{schema: 1, epoch: {epoch}, hash: hrw-splitmix64-v1, keySchema: 1, \
         cluster: {{namespace: shop, policy: ours}}, \
         owners: [{{slot: 0, uid: u, name: n, address: \"10.0.0.1:4319\"}}]}}\n"
    )
}

#[tokio::test]
async fn neither_part_holds_up_the_other() {
    let mut followed = Followed::begin(Some(&both(ANNOTATE, 7)));
    assert_eq!(followed.routing.epoch(), Some(7), "before following begins");
    followed.rename_over(&both("policy: {schema: 1, mode: reduce}\n", 8));
    let state = followed.until(|state| state.error.is_some()).await;
    assert_eq!(
        (mode(&state), followed.routing.epoch()),
        (Some(Mode::Annotate), Some(8))
    );
    followed.rename_over(&both(REDUCE, 3));
    let state = followed.until(|state| mode(state) == Some(Mode::Reduce)).await;
    assert_eq!((state.error, followed.routing.epoch()), (None, Some(8)));
    let problem = followed.routing.problem().unwrap();
    let named = format!("live file {}: routing.epoch: ", followed.path.display());
    assert!(problem.starts_with(&named), "{problem}");
    // What is wrong with the whole file is said once, and a file without a table says nothing of it.
    let strange = format!("{REDUCE}routingTable: {{schema: 1}}\nother: 1\n");
    for (content, is_wrong) in [
        (BROKEN, true),
        (ANNOTATE, false),
        (strange.as_str(), true),
        (REDUCE, false),
    ] {
        followed.rename_over(content);
        followed.until(|state| state.error.is_some() == is_wrong).await;
        assert_eq!(
            (followed.routing.epoch(), followed.routing.problem()),
            (Some(8), None),
            "{content}"
        );
    }
}

#[tokio::test]
async fn of_a_table_only_what_is_wrong_with_the_table_is_said() {
    let content = format!("{}other: 1\n", both(ANNOTATE, 8).replace("slot: 0", "slot: x"));
    let followed = Followed::begin(Some(&content));
    let problem = followed.routing.problem().unwrap();
    assert!(
        problem.contains("routing.owners[0].slot") && !problem.contains("other"),
        "{problem}"
    );
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
