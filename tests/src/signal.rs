//! Signals to processes that were started here.

use std::io;

use tokio::process::Command;

/// Sends the signal `name` (`TERM`, `INT`, `STOP`, `CONT`) to the process `id`, which must be a child that has not been
/// waited for: until then its id belongs to nobody else.
///
/// # Errors
/// It is gone.
pub(crate) async fn send(name: &str, id: u32) -> io::Result<()> {
    // The shell's own kill: a program of that name is not everywhere.
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name])
        .arg(id.to_string())
        .status()
        .await?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(status.to_string()))
    }
}
