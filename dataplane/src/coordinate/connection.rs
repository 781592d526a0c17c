//! A connection to Redis: from a name to a server that has accepted user and database.
//!
//! ```text
//! name --look up--> addresses --TCP, in turn--> TLS --> AUTH, SELECT --> Connection
//! ```
//! Invariants: every connection begins with the name, for names are what failovers move; one deadline bounds all of it;
//! the password is the one of now. The driver's own connecting is not used: it would bring a second way to do TLS, and
//! ours follows its files.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::trouble::Trouble;
use crate::secret::WatchedSecret;
use crate::tls::client::WatchedClient;
use crate::tls::{self, Stream};

/// How many commands may wait to be written. More wait for room, within their own time.
const UNWRITTEN: usize = 256;

/// Where Redis is and who we are there.
pub struct Server {
    /// Name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Number of the database.
    pub database: u32,
    /// User of the ACL; `None` for the default user.
    pub user: Option<String>,
    /// Its password, if it has one.
    pub password: Option<Arc<WatchedSecret>>,
    /// For a connection over TLS: roots and the name that the certificate must have.
    pub tls: Option<(WatchedClient, ServerName<'static>)>,
}

/// A connection in use. Ends with its last holder.
pub(super) struct Connection {
    multiplexed: MultiplexedConnection,
    driver: AbortHandle,
    eviction_policy: Option<String>,
}

impl Connection {
    /// What commands are sent with.
    pub(super) fn multiplexed(&self) -> MultiplexedConnection {
        self.multiplexed.clone()
    }

    /// `maxmemory-policy`, if the server told us.
    pub(super) fn eviction_policy(&self) -> Option<&str> {
        self.eviction_policy.as_deref()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Unanswered commands would keep the task, and the socket, for as long as the server is silent.
        self.driver.abort();
    }
}

impl Server {
    /// Connects, within `time`.
    ///
    /// # Errors
    /// What went wrong; never with anything of the password.
    pub(super) async fn connect(&self, time: Duration) -> Result<Connection, Trouble> {
        let deadline = Instant::now() + time;
        let connecting = self.connect_until(deadline);
        timeout_at(deadline, connecting)
            .await
            .unwrap_or(Err(Trouble::Timeout))
    }

    async fn connect_until(&self, deadline: Instant) -> Result<Connection, Trouble> {
        let identification = self.identification()?;
        let stream = self.stream(deadline).await?;
        // Commands are bounded by those who send them: they know what else must fit into the time.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(UNWRITTEN);
        let (multiplexed, driver) = MultiplexedConnection::new_with_config(&identification, stream, config)
            .await
            .map_err(|error| Trouble::of_handshake(&error))?;
        let mut connection = Connection {
            multiplexed,
            driver: tokio::spawn(driver).abort_handle(),
            eviction_policy: None,
        };
        connection.eviction_policy = eviction_policy(&mut connection.multiplexed).await?;
        Ok(connection)
    }

    fn identification(&self) -> Result<RedisConnectionInfo, Trouble> {
        // CLIENT SETINFO is unknown to Redis 7.0 and would be one more right to ask for.
        let mut identification = RedisConnectionInfo::default()
            .set_skip_set_lib_name()
            .set_db(self.database.into());
        if let Some(user) = &self.user {
            identification = identification.set_username(user);
        }
        if let Some(password) = &self.password {
            let password = password.get().ok_or(Trouble::PasswordMissing)?;
            identification = identification.set_password(password.expose());
        }
        Ok(identification)
    }

    async fn stream(&self, deadline: Instant) -> Result<Stream, Trouble> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, self.port))
            .await
            .map_err(|error| Trouble::Resolve(crate::root_cause::root_cause(&error)))?
            .collect();
        let mut trouble = Trouble::Resolve("the name has none".to_owned());
        for (index, address) in addresses.iter().enumerate() {
            // An address that swallows everything must not take the time of those after it.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - index).unwrap_or(1);
            match timeout_at(Instant::now() + share, self.stream_to(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => trouble = Trouble::Connect(crate::root_cause::root_cause(&error)),
                Err(_) => trouble = Trouble::Timeout,
            }
        }
        Err(trouble)
    }

    async fn stream_to(&self, address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Stream::Plain(stream)),
            Some((client, name)) => tls::client::connect(client, name.clone(), stream).await,
        }
    }
}

/// Asks for what happens to keys when memory is full. The documented rights do not include the question: whoever wants the
/// warning grants it.
async fn eviction_policy(multiplexed: &mut MultiplexedConnection) -> Result<Option<String>, Trouble> {
    let mut question = redis::cmd("INFO");
    match question.arg("memory").query_async::<String>(multiplexed).await {
        Ok(text) => Ok(policy_of(&text).map(str::to_owned)),
        Err(error) if error.is_io_error() => Err(Trouble::of_command(&error)),
        Err(_) => Ok(None),
    }
}

/// One word of lower-case letters and hyphens.
fn policy_of(info: &str) -> Option<&str> {
    let policy = info
        .lines()
        .find_map(|line| line.strip_prefix("maxmemory_policy:"))?
        .trim_end();
    let is_word = (1..=32).contains(&policy.len())
        && policy
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_word.then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_one_word_or_unknown() {
        let info =
            |policy: &str| format!("# Memory\r\nused_memory:1\r\nmaxmemory_policy:{policy}\r\nx:y\r\n");
        assert_eq!(policy_of(&info("allkeys-lru")), Some("allkeys-lru"));
        for text in [info(""), info("a b"), info("\u{1b}[1m"), "x".to_owned()] {
            assert_eq!(policy_of(&text), None, "{text:?}");
        }
    }
}
