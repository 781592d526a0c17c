//! Ports for what is started here.
//!
//! Invariants: none is given out twice by this process, and none that the system may give to an outgoing connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Below the ports that Linux gives to outgoing connections: one found free there stays free until it is listened on.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A free port of this machine alone: where everything here listens unless it is told otherwise.
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A port of `ip` that nobody listens on.
pub(crate) fn free_port(ip: IpAddr) -> io::Result<u16> {
    // Other processes begin elsewhere.
    static NEXT: LazyLock<Mutex<u16>> = LazyLock::new(|| Mutex::new(fastrand::u16(PORTS)));
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in PORTS {
        let port = *next;
        *next = if port + 1 < PORTS.end {
            port + 1
        } else {
            PORTS.start
        };
        if TcpListener::bind((ip, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::other("all are taken"))
}
