//! What the child prints: the last part in memory, all of it in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinHandle;

/// Kept in memory per stream.
const MOST_BYTES: usize = 4 << 20;

/// One captured stream.
#[derive(Debug)]
pub(super) struct Captured {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reading: JoinHandle<()>,
}

impl Captured {
    /// Reads `stream` to its end, into memory and into `file`.
    pub(super) fn start(
        mut stream: impl AsyncRead + Unpin + Send + 'static,
        file: &Path,
    ) -> std::io::Result<Self> {
        let mut file = File::create(file)?;
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let into = Arc::clone(&kept);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 16 << 10];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                let part = &buffer[..read];
                // Memory is what counts; a full disk must not stop the child.
                let _ = file.write_all(part);
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(part);
                let surplus = kept.len().saturating_sub(MOST_BYTES);
                kept.drain(..surplus);
            }
        });
        Ok(Self { kept, reading })
    }

    /// What was printed, without its beginning if it was very much.
    pub(super) fn text(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }

    /// Waits until the stream has ended: after the child has.
    pub(super) async fn finish(&mut self) {
        if !self.reading.is_finished() {
            // It can only fail by a panic, which the test runner has printed.
            let _ = (&mut self.reading).await;
        }
    }
}
