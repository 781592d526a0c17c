//! The addresses that the data plane listens on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::document::{Fields, Read};

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The addresses to listen on. Port 0 means any free port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    grpc: SocketAddr,
    http: SocketAddr,
    peer: SocketAddr,
    metrics: SocketAddr,
    admin: SocketAddr,
}

impl Listen {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let grpc = address(fields, "grpc", SocketAddr::new(ANY, 4317));
        let http = address(fields, "http", SocketAddr::new(ANY, 4318));
        let peer = address(fields, "peer", SocketAddr::new(ANY, crate::peer::PORT));
        let metrics = address(fields, "metrics", SocketAddr::new(ANY, 9464));
        let admin = address(fields, "admin", SocketAddr::new(LOOPBACK, 9465));
        let named = [
            ("grpc", grpc?),
            ("http", http?),
            ("peer", peer?),
            ("metrics", metrics?),
            ("admin", admin?),
        ];
        for (index, (name, address)) in named.iter().enumerate() {
            if let Some((earlier, _)) = named[..index].iter().find(|(_, other)| collide(*address, *other)) {
                let taken = format!("must not use port {}, listen.{earlier} uses it", address.port());
                return Err(fields.refuse(name, taken));
            }
        }
        let [grpc, http, peer, metrics, admin] = named.map(|(_, address)| address);
        Ok(Self {
            grpc,
            http,
            peer,
            metrics,
            admin,
        })
    }

    /// OTLP over gRPC.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// OTLP over HTTP.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The service for other pods and the operator.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Own metrics and probes.
    pub fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// Admin pages: they show resource values, so loopback unless set otherwise.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }
}

fn address(fields: &mut Fields<'_>, name: &'static str, default: SocketAddr) -> Read<SocketAddr> {
    match fields.text(name)? {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| {
            fields.refuse(
                name,
                "must be an IP address and a port, such as 0.0.0.0:4317 or [::1]:4317",
            )
        }),
    }
}

/// Whether one of the two sockets would keep the other from being bound.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    // `::` listens on IPv4 as well unless the system says otherwise.
    let covers = |wide: IpAddr, ip: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || ip.is_ipv4());
    let (first, second) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() != 0
        && one.port() == other.port()
        && (first == second || covers(first, second) || covers(second, first))
}
