//! A Redis for data planes: a server of the test's own or one that is there already, the user that data planes are, what
//! is done to it, and what it has recorded.
//!
//! ```text
//! data planes ──[proxy]──▶ redis-server ◀── admin: keys and their ends, faults
//!   (ACL user, TLS)            └── MONITOR ──▶ watch ─▶ evidence
//! ```
//!
//! Invariants: data planes have exactly the documented rights; a server of the test's own listens on loopback at a free
//! port, keeps nothing on disk, and ends with its value; of a server that was there before, only the namespace and the
//! user of the test are touched, and both are gone in the end.

mod admin;
mod error;
mod evidence;
mod monitor_line;
mod proxy;
mod server;
#[cfg(test)]
mod tests;
mod user;
mod watch;

use std::net::SocketAddr;

use redis::FromRedisValue;

use crate::process::{ClientTls, Coordination, Source};
use server::Server;
use user::User;

pub use error::RedisError;
pub use evidence::{Admission, BudgetRecord, Cooldown, Evidence, Publication};
pub use proxy::{Passage, Proxy};
pub use watch::Watch;

/// Names a server, `HOST:PORT`, that tests use in place of their own. Its default user must be allowed everything.
pub const ADDRESS_VARIABLE: &str = "JEVMETRICS_TEST_REDIS_ADDR";
/// If it is set to anything but `0`, data planes speak TLS with servers of the tests' own.
pub const TLS_VARIABLE: &str = "JEVMETRICS_TEST_REDIS_TLS";

/// Why no server of a test's own can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Tests use a server that is there already.
    Foreign,
    /// The program is not installed.
    Program,
}

/// Whether tests can have a server that they may kill.
///
/// # Errors
/// Why not.
pub fn own_server() -> Result<(), Missing> {
    if std::env::var_os(ADDRESS_VARIABLE).is_some() {
        Err(Missing::Foreign)
    } else if server::is_installed() {
        Ok(())
    } else {
        Err(Missing::Program)
    }
}

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name under which data planes share.
    pub namespace: String,
    /// What is evicted when memory is full.
    pub eviction_policy: &'static str,
    /// Whether data planes speak TLS.
    pub tls: bool,
}

impl Default for Options {
    /// As documented, in a namespace of its own; TLS if the environment says so.
    fn default() -> Self {
        Self {
            namespace: format!("tests/{:016x}", fastrand::u64(..)),
            eviction_policy: "noeviction",
            tls: std::env::var(TLS_VARIABLE).is_ok_and(|value| !value.is_empty() && value != "0"),
        }
    }
}

/// A server with a user for data planes.
#[derive(Debug)]
pub struct Redis {
    place: Place,
    user: User,
    namespace: String,
}

#[derive(Debug)]
enum Place {
    Own(Box<Server>),
    Foreign(SocketAddr),
}

impl Redis {
    /// Starts a server, or uses the one that the environment names, and makes the user.
    ///
    /// # Errors
    /// Any [`RedisError`]; nothing is left then.
    pub async fn start(options: Options) -> Result<Self, RedisError> {
        // As documented.
        let user = User::new(format!("~{}*", key_prefix(&options.namespace)))?;
        let place = if let Some(named) = std::env::var_os(ADDRESS_VARIABLE) {
            let address = foreign(&named.to_string_lossy()).await?;
            let rule = format!("ACL SETUSER {}", user.rule());
            let words: Vec<&str> = rule.split(' ').collect();
            admin::run::<()>(address, &words).await?;
            Place::Foreign(address)
        } else {
            let server = Server::start(&user, options.tls, options.eviction_policy).await?;
            Place::Own(Box::new(server))
        };
        Ok(Self {
            place,
            user,
            namespace: options.namespace,
        })
    }

    /// Where the tests' own connection leads.
    pub fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Own(server) => server.address(),
            Place::Foreign(address) => *address,
        }
    }

    /// Where data planes connect to, and what a proxy is put in front of.
    pub fn entrance(&self) -> SocketAddr {
        match &self.place {
            Place::Own(server) => server.tls().map_or(server.address(), |(address, _)| address),
            Place::Foreign(address) => *address,
        }
    }

    /// The name under which data planes share.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The section of a data plane's settings with which it comes in at `entrance`: the server's own or a proxy's.
    pub fn coordination(&self, entrance: SocketAddr) -> Coordination {
        let tls = match &self.place {
            Place::Own(server) => server.tls(),
            Place::Foreign(_) => None,
        };
        Coordination {
            host: match tls {
                Some(_) => server::TLS_HOST.to_owned(),
                None => entrance.ip().to_string(),
            },
            port: entrance.port(),
            database: None,
            user: Some(self.user.name.clone()),
            password: Some(Source::File {
                file: self.user.password_file(),
            }),
            tls: tls.map(|(_, ca_file)| ClientTls {
                ca_file: Some(ca_file),
                ..ClientTls::default()
            }),
            timeout_milliseconds: None,
            namespace: self.namespace.clone(),
        }
    }

    /// Runs a command, given as words, as the default user.
    ///
    /// # Errors
    /// It was refused, or there is no server.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, RedisError> {
        admin::run(self.address(), words).await
    }

    /// The whole name of a key of the namespace.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", key_prefix(&self.namespace))
    }

    /// Names of keys that begin with `name` within the namespace.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn keys(&self, name: &str) -> Result<Vec<String>, RedisError> {
        admin::keys(self.address(), &format!("{}*", self.key(name))).await
    }

    /// What is left of the life of each key that begins with `name` within the namespace, in milliseconds; -1 if it has
    /// no end.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn lives(&self, name: &str) -> Result<Vec<(String, i64)>, RedisError> {
        let keys = self.keys(name).await?;
        let lives = admin::lives(self.address(), &keys).await?;
        // Gone between the two.
        Ok(keys
            .into_iter()
            .zip(lives)
            .filter(|(_, life)| *life != -2)
            .collect())
    }

    /// Keys of the namespace that do not end by themselves: there must be none.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn keys_without_expiry(&self) -> Result<Vec<String>, RedisError> {
        let lives = self.lives("").await?.into_iter();
        Ok(lives
            .filter(|(_, life)| *life == -1)
            .map(|(key, _)| key)
            .collect())
    }

    /// Keys of no namespace of ours: in a server of the test's own there must be none.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn keys_outside(&self) -> Result<Vec<String>, RedisError> {
        if matches!(self.place, Place::Foreign(_)) {
            return Ok(Vec::new());
        }
        let mut keys = admin::keys(self.address(), "*").await?;
        keys.retain(|key| !key.starts_with(&key_prefix(&self.namespace)));
        Ok(keys)
    }

    /// Records what is run from now on.
    ///
    /// # Errors
    /// The server cannot be watched.
    pub async fn watch(&self) -> Result<Watch, RedisError> {
        Watch::start(self.address(), &self.namespace).await
    }

    /// Kills the server.
    ///
    /// # Errors
    /// It is not the test's own.
    pub async fn kill(&mut self) -> Result<(), RedisError> {
        Ok(self.own_mut()?.kill().await?)
    }

    /// Starts a killed server again: on the same port, empty, with the same user.
    ///
    /// # Errors
    /// It does not come up, or is not the test's own.
    pub async fn restart(&mut self) -> Result<(), RedisError> {
        self.own_mut()?.spawn().await
    }

    /// Stops all that it does, and lets connections be.
    ///
    /// # Errors
    /// It does not run, or is not the test's own.
    pub async fn pause(&self) -> Result<(), RedisError> {
        Ok(self.own()?.signal("STOP").await?)
    }

    /// Goes on after a pause.
    ///
    /// # Errors
    /// It does not run, or is not the test's own.
    pub async fn resume(&self) -> Result<(), RedisError> {
        Ok(self.own()?.signal("CONT").await?)
    }

    /// Makes it a replica of a primary that is not there: it can be read, and refuses writes.
    ///
    /// # Errors
    /// It is not the test's own, or refuses.
    pub async fn demote(&self) -> Result<(), RedisError> {
        self.own()?;
        self.command(&["REPLICAOF", "127.0.0.1", "1"]).await
    }

    /// Makes it the primary again.
    ///
    /// # Errors
    /// It is not the test's own, or refuses.
    pub async fn promote(&self) -> Result<(), RedisError> {
        self.own()?;
        self.command(&["REPLICAOF", "NO", "ONE"]).await
    }

    /// Lets it forget all scripts.
    ///
    /// # Errors
    /// It is not the test's own, or refuses.
    pub async fn flush_scripts(&self) -> Result<(), RedisError> {
        self.own()?;
        self.command(&["SCRIPT", "FLUSH"]).await
    }

    /// Bytes that it may use from now on; 0: all.
    ///
    /// # Errors
    /// It is not the test's own, or refuses.
    pub async fn limit_memory(&self, bytes: u64) -> Result<(), RedisError> {
        self.own()?;
        self.command(&["CONFIG", "SET", "maxmemory", &bytes.to_string()])
            .await
    }

    /// Gives the user another password, and ends its connections. Data planes read their file, which stays as it is.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn change_password(&self, password: &str) -> Result<(), RedisError> {
        let password = format!(">{password}");
        self.change_user(&["resetpass", &password]).await?;
        self.command::<u64>(&["CLIENT", "KILL", "USER", &self.user.name])
            .await?;
        Ok(())
    }

    /// Replaces the file that data planes read the password from.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_password(&self, password: &str) -> Result<(), RedisError> {
        Ok(self.user.write_password(password)?)
    }

    /// Changes the user's rights: `-hset`, `+hset`.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn change_user(&self, rules: &[&str]) -> Result<(), RedisError> {
        let words = [&["ACL", "SETUSER", &self.user.name], rules].concat();
        self.command(&words).await
    }

    fn own(&self) -> Result<&Server, RedisError> {
        match &self.place {
            Place::Own(server) => Ok(server),
            Place::Foreign(_) => Err(RedisError::NotOwn),
        }
    }

    fn own_mut(&mut self) -> Result<&mut Server, RedisError> {
        match &mut self.place {
            Place::Own(server) => Ok(server),
            Place::Foreign(_) => Err(RedisError::NotOwn),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Place::Foreign(address) = self.place {
            // Whoever is there can only be left as it is if this fails; keys end by themselves.
            let _ = admin::clear(
                address,
                &format!("{}*", key_prefix(&self.namespace)),
                &self.user.name,
            );
        }
    }
}

/// What the keys of a namespace begin with.
fn key_prefix(namespace: &str) -> String {
    format!("jevmetrics:{{{namespace}}}:")
}

async fn foreign(named: &str) -> Result<SocketAddr, RedisError> {
    let mut found = tokio::net::lookup_host(named)
        .await
        .map_err(|_| RedisError::Address(named.to_owned()))?;
    found.next().ok_or_else(|| RedisError::Address(named.to_owned()))
}
