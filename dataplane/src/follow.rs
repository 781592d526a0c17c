//! Following a file by its content.
//!
//! Content is compared, not times or inodes: a rename over the file, a swapped symbolic link and a write
//! in place all look alike. A change counts when two readings in a row agree, so that a file half
//! written or missing between two renames is passed over.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time between two looks at a file.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is none.
    #[error("not found")]
    NotFound,
    /// A directory, pipe or device.
    #[error("must be a regular file")]
    NotRegular,
    /// Longer than its reader takes.
    #[error("must have at most {0} bytes")]
    TooLong(usize),
    /// The system refused; its own words.
    #[error("cannot be read: {0}")]
    Failed(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Reads a regular file of at most `most` bytes; symbolic links are followed.
pub(crate) fn read_file(path: &Path, most: usize) -> Result<Vec<u8>, ReadError> {
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(ReadError::NotRegular);
    }
    let mut content = Vec::new();
    File::open(path)?
        .take(most as u64 + 1)
        .read_to_end(&mut content)?;
    if content.len() > most {
        Err(ReadError::TooLong(most))
    } else {
        Ok(content)
    }
}

/// The readings of one file: the one in force and perhaps a newer one that must be seen again.
#[derive(Debug)]
struct Readings<R> {
    settled: R,
    pending: Option<R>,
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Unchanged,
    Unsettled,
    Settled,
}

impl<R: PartialEq> Readings<R> {
    fn observe(&mut self, reading: R) -> Seen {
        if reading == self.settled {
            self.pending = None;
            return Seen::Unchanged;
        }
        if self.pending.as_ref() == Some(&reading) {
            self.pending = None;
            self.settled = reading;
            return Seen::Settled;
        }
        self.pending = Some(reading);
        Seen::Unsettled
    }
}

/// Calls `read` again and again, away from the async threads, and tells what changed for good.
pub(crate) struct Follower<F, R> {
    read: F,
    readings: Readings<R>,
    poll: Duration,
    stop: CancellationToken,
}

impl<F, R> Follower<F, R>
where
    F: Fn() -> R + Clone + Send + 'static,
    R: PartialEq + Send + 'static,
{
    /// Follows on from `settled`, a reading that the caller knows already.
    pub(crate) fn new(settled: R, read: F, poll: Duration, stop: CancellationToken) -> Self {
        Self {
            read,
            readings: Readings {
                settled,
                pending: None,
            },
            poll,
            stop,
        }
    }

    /// The next reading that differs from the one before; `None` once stopped.
    pub(crate) async fn changed(&mut self) -> Option<&R> {
        let mut wait = self.poll;
        loop {
            let look = async {
                tokio::time::sleep(wait).await;
                tokio::task::spawn_blocking(self.read.clone()).await
            };
            // An error means that the runtime ends, or that `read` panicked and would again.
            let reading = self.stop.run_until_cancelled(look).await?.ok()?;
            match self.readings.observe(reading) {
                Seen::Settled => return Some(&self.readings.settled),
                Seen::Unsettled => wait = self.poll / 10,
                Seen::Unchanged => wait = self.poll,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_change_counts_when_two_readings_in_a_row_agree() {
        let mut readings = Readings {
            settled: "old",
            pending: None,
        };
        assert_eq!(readings.observe("old"), Seen::Unchanged);
        assert_eq!(readings.observe("half"), Seen::Unsettled);
        assert_eq!(readings.observe("whole"), Seen::Unsettled);
        assert_eq!(readings.observe("whole"), Seen::Settled);
        assert_eq!(readings.observe("whole"), Seen::Unchanged);
        assert_eq!(readings.settled, "whole");
    }

    #[test]
    fn what_passes_between_two_equal_readings_leaves_no_trace() {
        let mut readings = Readings {
            settled: "old",
            pending: None,
        };
        assert_eq!(readings.observe("half"), Seen::Unsettled);
        assert_eq!(readings.observe("old"), Seen::Unchanged);
        assert_eq!(readings.observe("half"), Seen::Unsettled);
        assert_eq!(readings.settled, "old");
    }

    #[test]
    fn only_regular_files_within_their_bound_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(read_file(&path, 3), Err(ReadError::NotFound));
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_file(&path, 3), Ok(b"abc".to_vec()));
        assert_eq!(read_file(&path, 2), Err(ReadError::TooLong(2)));
        assert_eq!(read_file(directory.path(), 3), Err(ReadError::NotRegular));
        assert_eq!(read_file(Path::new("/dev/zero"), 3), Err(ReadError::NotRegular));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_file(&link, 3), Ok(b"abc".to_vec()));
    }
}
