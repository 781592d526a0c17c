//! A `redis-server` of the test's own, as Debian packages it.
//!
//! Invariants: it listens on loopback alone, writes nothing but its log, and ends with its value.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::error::RedisError;
use super::{admin, user::User};
use crate::certificates::Authority;
use crate::{poll, ports, signal};

const PROGRAM: &str = "redis-server";
/// Name in the certificate, and where clients over TLS find it.
pub(super) const TLS_HOST: &str = "localhost";
const UP_WITHIN: Duration = Duration::from_secs(30);
const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Whether the program is there.
pub(super) fn is_installed() -> bool {
    let mut command = std::process::Command::new(PROGRAM);
    command.arg("--version").stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A server as a child process.
#[derive(Debug)]
pub(super) struct Server {
    child: Option<Child>,
    address: SocketAddr,
    tls: Option<Tls>,
    directory: TempDir,
}

#[derive(Debug)]
struct Tls {
    port: u16,
    /// Has the files.
    authority: Authority,
}

impl Server {
    /// Starts it, on free ports.
    pub(super) async fn start(
        user: &User,
        with_tls: bool,
        eviction_policy: &str,
    ) -> Result<Self, RedisError> {
        let directory = tempfile::tempdir()?;
        let port = ports::free_port(IP)?;
        let mut configuration = vec![
            format!("port {port}"),
            format!("bind {IP}"),
            format!("dir {}", directory.path().display()),
            "save \"\"".to_owned(),
            "appendonly no".to_owned(),
            format!("maxmemory-policy {eviction_policy}"),
            format!("user {}", user.rule()),
        ];
        let mut tls = None;
        if with_tls {
            let (port, authority) = (ports::free_port(IP)?, Authority::new()?);
            let (certificate, key) = authority.pair("redis", TLS_HOST);
            configuration.extend([
                format!("tls-port {port}"),
                format!("tls-cert-file {}", certificate.display()),
                format!("tls-key-file {}", key.display()),
                format!("tls-ca-cert-file {}", authority.ca_file().display()),
                "tls-auth-clients no".to_owned(),
            ]);
            tls = Some(Tls { port, authority });
        }
        std::fs::write(directory.path().join("redis.conf"), configuration.join("\n"))?;
        let mut server = Self {
            child: None,
            address: SocketAddr::new(IP, port),
            tls,
            directory,
        };
        server.spawn().await?;
        Ok(server)
    }

    /// Where it listens without TLS.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens with TLS, and the certificate of its authority.
    pub(super) fn tls(&self) -> Option<(SocketAddr, PathBuf)> {
        let tls = self.tls.as_ref()?;
        Some((SocketAddr::new(IP, tls.port), tls.authority.ca_path()))
    }

    /// Starts the process, on the same ports and with nothing of what it knew. Does nothing if it runs.
    pub(super) async fn spawn(&mut self) -> Result<(), RedisError> {
        if self.child.is_some() {
            return Ok(());
        }
        let log = self.directory.path().join("log");
        let child = Command::new(PROGRAM)
            .arg(self.directory.path().join("redis.conf"))
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| RedisError::NoProgram { source })?;
        self.child = Some(child);
        let up = async || admin::run::<String>(self.address, &["PING"]).await.map(drop);
        poll::eventually("redis-server", UP_WITHIN, up)
            .await
            .map_err(|source| RedisError::NotUp {
                source,
                printed: printed(&log),
            })
    }

    /// Kills it and waits for its end. Does nothing if it has been killed.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => child.kill().await,
            None => Ok(()),
        }
    }

    /// `STOP` or `CONT`.
    pub(super) async fn signal(&self, name: &str) -> io::Result<()> {
        let id = self.child.as_ref().and_then(Child::id);
        signal::send(name, id.ok_or_else(|| io::Error::other("it does not run"))?).await
    }
}

fn printed(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}
