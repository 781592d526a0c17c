//! A process that ends with this one, however this one ends.
//!
//! ```text
//! this process ──pipe──▶ sh ──starts, waits for──▶ the program
//!                         └─ end of the pipe: kill -9
//! ```
//!
//! The kernel closes our end of the pipe in any case, after `kill -9` too and for a `static` that is never dropped.
//!
//! Invariants: signals go through the shell whose child the program is, so no other process that got its number can
//! be hit; both are in a process group of their own, so what is sent to ours does not reach the program before the
//! shell knows; nothing here needs a runtime.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use super::error::{ClusterError, io_error};

/// `$1` is the log, the rest the command. Prints the program's id. Each line that comes in is a signal to send.
const SHELL: &str = r#"
log=$1
shift
exec 3<&0 2>>"$log"
"$@" </dev/null >>"$log" 3<&- &
program=$!
echo "$program"
exec >&2
{
    while read -r signal; do kill -s "$signal" "$program"; done
    kill -s KILL "$program"
} <&3 2>/dev/null &
listener=$!
wait "$program"
status=$?
kill "$listener" 2>/dev/null
exit "$status"
"#;

/// Where programs are found, and where they put temporary files.
const PASSED_ON: [&str; 2] = ["PATH", "TMPDIR"];

/// What a failure shows of a log.
const TAIL_BYTES: u64 = 6 << 10;

/// A signal to a supervised process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Terminate,
    Stop,
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

/// A running program and the shell above it. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub(crate) struct Supervised {
    shell: Child,
    signals: Option<ChildStdin>,
    program: u32,
    log: PathBuf,
}

impl Supervised {
    /// Starts `program` with nothing of our environment but [`PASSED_ON`]; all it prints is added to `log`.
    ///
    /// # Errors
    /// The shell could not be started. A program that cannot be started ends with 127, and its log says why.
    pub(crate) fn start(
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
        home: &Path,
        log: PathBuf,
    ) -> Result<Self, ClusterError> {
        let what = || format!("cannot start {}", program.display());
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .arg(&log)
            .arg(program)
            .args(arguments)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|&name| Some((name, std::env::var_os(name)?))),
            )
            .env("HOME", home)
            .current_dir(home)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io_error(what()))?;
        let signals = shell.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = shell.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(io_error(what()))?;
        }
        let not_a_number = |_| io_error(what())(std::io::Error::other(format!("it said {line:?}")));
        let program = line.trim().parse().map_err(not_a_number)?;
        Ok(Self {
            shell,
            signals,
            program,
            log,
        })
    }

    /// The program's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.program
    }

    /// Asks the shell to send `signal`; that happens a little later.
    pub(crate) fn signal(&mut self, signal: Signal) -> std::io::Result<()> {
        let gone = || std::io::Error::other("it has ended");
        let signals = self.signals.as_mut().ok_or_else(gone)?;
        writeln!(signals, "{}", signal.name())?;
        signals.flush()
    }

    /// How it ended, if it did: 128 and the signal's number if by a signal.
    pub(crate) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.shell.try_wait()
    }

    /// The end of what it printed.
    pub(crate) fn printed(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("(no log: {error})"))
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.signals = None;
        // It can only fail if somebody else has waited for the shell.
        let _ = self.shell.wait();
    }
}

fn tail(log: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
