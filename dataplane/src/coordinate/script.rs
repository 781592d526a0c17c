//! The scripts, and how one is run.
//!
//! A script is sent by its hash. A server that does not know it gets the text once: SCRIPT LOAD is not among the rights
//! that we ask for, and a text is known from its first run on.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

/// A Lua script; its head says what it takes and gives.
pub(super) struct Script {
    /// Of its file.
    pub(super) name: &'static str,
    text: &'static str,
    sha1: LazyLock<String>,
}

pub(super) static LOOKUP: Script = Script {
    name: "lookup",
    text: include_str!("scripts/lookup.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/lookup.lua"))),
};
pub(super) static ADMIT: Script = Script {
    name: "admit",
    text: include_str!("scripts/admit.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/admit.lua"))),
};
pub(super) static PUBLISH: Script = Script {
    name: "publish",
    text: include_str!("scripts/publish.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/publish.lua"))),
};
pub(super) static FAIL: Script = Script {
    name: "fail",
    text: include_str!("scripts/fail.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/fail.lua"))),
};
pub(super) static RELEASE: Script = Script {
    name: "release",
    text: include_str!("scripts/release.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/release.lua"))),
};
pub(super) static BEAT: Script = Script {
    name: "beat",
    text: include_str!("scripts/beat.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/beat.lua"))),
};
pub(super) static MEMBERS: Script = Script {
    name: "members",
    text: include_str!("scripts/members.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/members.lua"))),
};
pub(super) static LEAVE: Script = Script {
    name: "leave",
    text: include_str!("scripts/leave.lua"),
    sha1: LazyLock::new(|| sha1(include_str!("scripts/leave.lua"))),
};

fn sha1(text: &str) -> String {
    redis::Script::new(text).get_hash().to_owned()
}

impl Script {
    /// Runs it. Whoever calls bounds the time.
    ///
    /// # Guarantees
    /// Runs at most once: a server that does not know a hash has run nothing.
    pub(super) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<Value, RedisError> {
        let by_hash = command("EVALSHA", &self.sha1, keys, arguments);
        match by_hash.query_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let by_text = command("EVAL", self.text, keys, arguments);
                by_text.query_async(connection).await
            }
            result => result,
        }
    }
}

fn command(name: &str, script: &str, keys: &[&str], arguments: &[&str]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len());
    for argument in keys.iter().chain(arguments) {
        command.arg(*argument);
    }
    command
}
