//! A range of loopback addresses for one control plane: 127.N.0.0/16.
//!
//! Linux answers on all of 127.0.0.0/8 without set-up. The API server gets the first address, hollow pods get others.
//!
//! Invariant: no two processes hold the same range at the same time; it is free again when its holder has ended.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use super::error::ClusterError;

/// Whoever listens on this port of the range's last address holds the range.
const CLAIM: u16 = 14_319;

/// A range that is ours until it is dropped.
#[derive(Debug)]
pub(super) struct Loopback {
    second: u8,
    next_pod: AtomicU16,
    _claim: TcpListener,
}

impl Loopback {
    pub(super) fn claim() -> Result<Self, ClusterError> {
        // Not 127.0: others are there. Beginning anywhere, for another process may be claiming as well.
        let begin = fastrand::u8(..254);
        let mut last = Ipv4Addr::LOCALHOST;
        for step in 0..254_u8 {
            let second = 1 + u8::try_from((u16::from(begin) + u16::from(step)) % 254).unwrap_or(0);
            last = Ipv4Addr::new(127, second, 255, 254);
            if let Ok(claim) = TcpListener::bind((last, CLAIM)) {
                return Ok(Self {
                    second,
                    next_pod: AtomicU16::new(0),
                    _claim: claim,
                });
            }
        }
        Err(ClusterError::NoAddresses { port: CLAIM, last })
    }

    /// Where the control plane listens.
    pub(super) fn server(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, 0, 1)
    }

    /// An address for a pod. The first ones come again after 62 000 others.
    pub(super) fn next_pod(&self) -> Ipv4Addr {
        // Neither the server's nor the claim's third byte, and a last byte as hosts have it.
        let count = self.next_pod.fetch_add(1, Ordering::Relaxed) % (250 * 250);
        let [third, fourth] = [count / 250, count % 250].map(|part| u8::try_from(part + 1).unwrap_or(1));
        Ipv4Addr::new(127, self.second, third, fourth)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashSet;

    use super::Loopback;

    #[test]
    fn ranges_do_not_meet() {
        let ranges: Vec<Loopback> = (0..20).map(|_| Loopback::claim().unwrap()).collect();
        let servers: HashSet<_> = ranges.iter().map(Loopback::server).collect();
        assert_eq!(servers.len(), 20);
    }

    #[test]
    fn pods_have_addresses_of_their_own() {
        let range = Loopback::claim().unwrap();
        let pods: HashSet<_> = (0..1000).map(|_| range.next_pod()).collect();
        assert_eq!(pods.len(), 1000);
        assert!(!pods.contains(&range.server()));
        assert!(
            pods.iter()
                .all(|pod| pod.octets()[1] == range.server().octets()[1])
        );
    }
}
