//! What can be wrong with Redis, told without its words: they may quote what was sent.

use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why Redis gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// After a failure it is left alone for a while.
    #[error("left alone after a failure")]
    Backoff,
    /// There is no budget to come with.
    #[error("no budget: {0}")]
    Budget(String),
    /// Its name leads to no address.
    #[error("no address: {0}")]
    Resolve(String),
    /// No connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// No connection or no answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke.
    #[error("the connection broke")]
    Closed,
    /// A password is configured, and there is none at present.
    #[error("there is no password to use")]
    PasswordMissing,
    /// The user or the password is not accepted, or one is missing.
    #[error("user or password are not accepted")]
    Password,
    /// The user may not run a command, or not with these keys.
    #[error("the user lacks a right: see the documented ACL rule")]
    Permission,
    /// The database cannot be selected.
    #[error("the database cannot be selected")]
    Database,
    /// A replica, where a primary was expected.
    #[error("read-only: not the primary")]
    ReadOnly,
    /// `maxmemory` is reached.
    #[error("out of memory")]
    OutOfMemory,
    /// Starting, failing over, or busy with somebody's script.
    #[error("not ready: {0}")]
    NotReady(Code),
    /// Another refusal.
    #[error("refused: {0}")]
    Refused(Code),
    /// An answer that no script of ours gives.
    #[error("an answer of another form")]
    Answer,
}

/// The first word of an error of Redis: at most 32 upper-case letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    pub(super) fn new(code: &str) -> Self {
        let letters = code.chars().filter(char::is_ascii_uppercase);
        Self(letters.take(32).collect())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a trouble is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The connection is of no more use: the next one begins with the name.
    Connection,
    /// The server, or what it lets us do: this connection is as good as any other.
    Server,
}

impl Trouble {
    /// A stable word for metrics and pages.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Backoff => "backoff",
            Self::Budget(_) => "budget",
            Self::Resolve(_) => "resolve",
            Self::Connect(_) => "connect",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::PasswordMissing => "password_missing",
            Self::Password => "password",
            Self::Permission => "permission",
            Self::Database => "database",
            Self::ReadOnly => "read_only",
            Self::OutOfMemory => "out_of_memory",
            Self::NotReady(_) => "not_ready",
            Self::Refused(_) => "refused",
            Self::Answer => "answer",
        }
    }

    pub(super) fn reach(&self) -> Reach {
        match self {
            // Also rights: they may have been given to another user or password by now.
            Self::Resolve(_)
            | Self::Connect(_)
            | Self::Timeout
            | Self::Closed
            | Self::PasswordMissing
            | Self::Password
            | Self::Permission
            | Self::Database
            | Self::ReadOnly
            | Self::NotReady(_) => Reach::Connection,
            Self::Backoff | Self::Budget(_) | Self::OutOfMemory | Self::Refused(_) | Self::Answer => {
                Reach::Server
            }
        }
    }

    /// Whatever is asked of Redis would meet it, heartbeats and admissions alike.
    pub(crate) fn stops_everything(&self) -> bool {
        match self {
            Self::Backoff
            | Self::Resolve(_)
            | Self::Connect(_)
            | Self::Timeout
            | Self::Closed
            | Self::PasswordMissing
            | Self::Password
            | Self::Database => true,
            Self::Budget(_)
            | Self::Permission
            | Self::ReadOnly
            | Self::OutOfMemory
            | Self::NotReady(_)
            | Self::Refused(_)
            | Self::Answer => false,
        }
    }

    /// What an error of a command means.
    pub(super) fn of_command(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Password,
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Self::ReadOnly,
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::Permission,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::Answer,
            _ if error.is_timeout() => Self::Timeout,
            _ if error.is_io_error() => Self::Closed,
            _ => Self::of_code(
                error.code().unwrap_or_default(),
                error.detail().unwrap_or_default(),
            ),
        }
    }

    /// What an error while a connection was set up means: its texts are the driver's own.
    pub(super) fn of_handshake(error: &RedisError) -> Self {
        match Self::of_command(error) {
            // Of the commands that are sent, only SELECT is refused so.
            Self::Refused(_) => Self::Database,
            other => other,
        }
    }

    fn of_code(code: &str, detail: &str) -> Self {
        match code {
            "NOAUTH" | "WRONGPASS" => Self::Password,
            "NOPERM" => Self::Permission,
            "READONLY" => Self::ReadOnly,
            "OOM" => Self::OutOfMemory,
            "LOADING" | "MASTERDOWN" | "BUSY" | "MISCONF" | "NOREPLICAS" | "CLUSTERDOWN" | "TRYAGAIN" => {
                Self::NotReady(Code::new(code))
            }
            // Some servers wrap what a command in a script met.
            "ERR" if detail.contains("READONLY") => Self::ReadOnly,
            "ERR" if detail.contains("The user executing the script can't") => Self::Permission,
            _ => Self::Refused(Code::new(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_redis_are_told_apart_by_their_code() {
        let not_ready = |code| Trouble::NotReady(Code::new(code));
        for (code, detail, expected) in [
            (
                "OOM",
                "allow-oom flag is not set on the script",
                Trouble::OutOfMemory,
            ),
            (
                "READONLY",
                "You can't write against a read only replica.",
                Trouble::ReadOnly,
            ),
            (
                "ERR",
                "Error running script: -READONLY You can't write",
                Trouble::ReadOnly,
            ),
            (
                "ERR",
                "The user executing the script can't run this command",
                Trouble::Permission,
            ),
            ("WRONGPASS", "invalid username-password pair", Trouble::Password),
            ("NOAUTH", "Authentication required.", Trouble::Password),
            ("LOADING", "", not_ready("LOADING")),
            ("BUSY", "", not_ready("BUSY")),
            ("ERR", "unknown command", Trouble::Refused(Code::new("ERR"))),
        ] {
            assert_eq!(Trouble::of_code(code, detail), expected, "{code} {detail}");
        }
    }

    #[test]
    fn nothing_of_a_text_but_capitals_is_shown() {
        let trouble = Trouble::of_code("Secret-ABC\u{1b}[1m", "password=hunter2");
        assert_eq!(trouble.to_string(), "refused: SABC");
    }
}
