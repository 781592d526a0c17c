#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

const POLL_IN_TESTS: Duration = Duration::from_millis(10);

fn file(directory: &TempDir, content: impl AsRef<[u8]>) -> SecretSource {
    let path = directory.path().join("secret");
    fs::write(&path, content).unwrap();
    SecretSource::File(path)
}

fn path(source: &SecretSource) -> &Path {
    match source {
        SecretSource::File(path) => path,
        SecretSource::Env(_) => panic!("not a file"),
    }
}

async fn until(condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), met)
        .await
        .expect("the condition is met in time");
}

#[test]
fn line_breaks_at_the_end_are_not_part_of_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    for content in ["hunter2", "hunter2\n", "hunter2\r\n", "hunter2\n\n"] {
        assert_eq!(
            Secret::read(&file(&directory, content)).unwrap().expose(),
            "hunter2"
        );
    }
    assert_eq!(Secret::read(&file(&directory, "a b")).unwrap().expose(), "a b");
}

#[test]
fn what_is_no_secret_is_refused_by_its_place_and_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    for (content, rule) in [
        (b"".to_vec(), "must not be empty"),
        (b"\n".to_vec(), "must not be empty"),
        (
            b"hunter2\nhunter2".to_vec(),
            "must be printable ASCII in one line",
        ),
        (b"hunter2\0".to_vec(), "must be printable ASCII in one line"),
        (b"hunter2\t".to_vec(), "must be printable ASCII in one line"),
        (
            "hünter2".as_bytes().to_vec(),
            "must be printable ASCII in one line",
        ),
        (b"hunter2\xff".to_vec(), "must be printable ASCII in one line"),
        (b" hunter2".to_vec(), "must not begin or end with a space"),
        (b"hunter2 \n".to_vec(), "must not begin or end with a space"),
        (vec![b'h'; MAX_BYTES + 1], "must have at most 65536 bytes"),
    ] {
        let source = file(&directory, content);
        let error = Secret::read(&source).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("secret file {}: {rule}", path(&source).display())
        );
        assert!(!format!("{error:?}").contains("nter2"), "{error:?}");
    }
}

#[test]
fn a_secret_of_64_kib_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let mut content = vec![b'h'; MAX_BYTES];
    content.extend_from_slice(b"\r\n");
    assert_eq!(
        Secret::read(&file(&directory, content)).unwrap().expose().len(),
        MAX_BYTES
    );
}

#[test]
fn debug_shows_no_value() {
    let directory = tempfile::tempdir().unwrap();
    let watched = WatchedSecret::load_required(file(&directory, "hunter2")).unwrap();
    let shown = format!("{watched:?} {:?}", watched.get().unwrap());
    assert!(
        shown.contains("Secret(hidden)") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn a_secret_can_come_from_the_environment() {
    // Set by cargo for every test.
    let source = SecretSource::Env("CARGO_PKG_NAME".to_owned());
    assert_eq!(Secret::read(&source).unwrap().expose(), "jevmetrics-dataplane");
    let unset = SecretSource::Env("JEVMETRICS_NEVER_SET".to_owned());
    assert_eq!(
        Secret::read(&unset).unwrap_err().to_string(),
        "secret environment variable JEVMETRICS_NEVER_SET: not set"
    );
}

#[test]
fn a_required_secret_must_be_there_and_an_optional_one_says_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let missing = SecretSource::File(directory.path().join("missing"));
    let message = format!("secret file {}: not found", path(&missing).display());
    assert_eq!(
        WatchedSecret::load_required(missing.clone())
            .unwrap_err()
            .to_string(),
        message
    );
    let watched = WatchedSecret::load(missing);
    assert_eq!((watched.get(), watched.problem()), (None, Some(message)));
}

#[test]
fn a_failed_reading_keeps_the_value_and_is_news_once() {
    let value = |text: &str| Ok(Arc::new(Secret(text.into())));
    let lost = Err(SecretError {
        place: SecretSource::Env("A".to_owned()),
        problem: SecretProblem::Unreadable(ReadError::NotFound),
    });
    let empty = Err(SecretError {
        place: SecretSource::Env("A".to_owned()),
        problem: SecretProblem::Empty,
    });
    let mut current = Current::first(lost.clone());
    for (reading, change, in_use) in [
        (&lost, Change::Nothing, None),
        (&empty, Change::Failed, None),
        (&value("a"), Change::NewValue, Some("a")),
        (&value("a"), Change::Nothing, Some("a")),
        (&lost, Change::Failed, Some("a")),
        (&lost, Change::Nothing, Some("a")),
        (&empty, Change::Failed, Some("a")),
        (&value("a"), Change::ReadableAgain, Some("a")),
        (&lost, Change::Failed, Some("a")),
        (&value("b"), Change::NewValue, Some("b")),
    ] {
        let (next, seen) = current.after(reading);
        assert_eq!(seen, change);
        assert_eq!(next.value.as_deref().map(Secret::expose), in_use);
        assert_eq!(next.reading, *reading);
        current = next;
    }
}

#[tokio::test]
async fn a_rotated_secret_is_used_and_a_lost_one_stays_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let source = file(&directory, "first\n");
    let path = path(&source).to_owned();
    let watched = Arc::new(WatchedSecret::load_required(source).unwrap());
    let stop = CancellationToken::new();
    let following = tokio::spawn({
        let (watched, stop) = (Arc::clone(&watched), stop.clone());
        async move { watched.follow_every(POLL_IN_TESTS, stop).await }
    });
    let in_use = || watched.get().unwrap().expose().to_owned();

    fs::write(directory.path().join("next"), "second\n").unwrap();
    fs::rename(directory.path().join("next"), &path).unwrap();
    until(|| in_use() == "second").await;
    assert_eq!(watched.problem(), None);

    fs::remove_file(&path).unwrap();
    until(|| watched.problem().is_some()).await;
    assert_eq!(in_use(), "second");

    fs::write(&path, "third").unwrap();
    until(|| in_use() == "third" && watched.problem().is_none()).await;

    stop.cancel();
    tokio::time::timeout(Duration::from_secs(30), following)
        .await
        .expect("following ends")
        .unwrap();
}

#[tokio::test]
async fn a_secret_that_was_missing_at_start_is_found_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("late");
    let watched = WatchedSecret::load(SecretSource::File(path.clone()));
    assert!(watched.get().is_none());
    let stop = CancellationToken::new();
    let found = async {
        fs::write(&path, "here").unwrap();
        until(|| watched.get().is_some() && watched.problem().is_none()).await;
        stop.cancel();
    };
    tokio::join!(watched.follow_every(POLL_IN_TESTS, stop.clone()), found);
}
