//! The sandbox that this process is in, as `tests/scripts/sandbox.sh` tells it.

use std::net::Ipv4Addr;

use super::NodeError;

const ADDRESS: &str = "JEVMETRICS_NODE_ADDRESS";
const BRIDGE: &str = "JEVMETRICS_BRIDGE";

/// A network with a bridge for pods.
#[derive(Debug, Clone)]
pub(super) struct Sandbox {
    /// The bridge's address: the node's.
    pub(super) address: Ipv4Addr,
    /// The bridge's name.
    pub(super) bridge: String,
}

impl Sandbox {
    /// # Errors
    /// This process is in none.
    pub(super) fn entered() -> Result<Self, NodeError> {
        Self::parse(|name| std::env::var(name).ok())
    }

    fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, NodeError> {
        let bridge = variable(BRIDGE).ok_or(NodeError::NoSandbox(BRIDGE))?;
        let value = variable(ADDRESS).ok_or(NodeError::NoSandbox(ADDRESS))?;
        let address = value.parse().map_err(|_| NodeError::NoAddress {
            variable: ADDRESS,
            value,
        })?;
        Ok(Self { address, bridge })
    }

    /// The addresses of pods and of the node.
    pub(super) fn subnet(&self) -> String {
        let [first, second, ..] = self.address.octets();
        format!("{first}.{second}.0.0/16")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_sandbox_there_is_no_node() {
        let error = Sandbox::parse(|_| None).unwrap_err().to_string();
        assert!(error.contains("make e2e"), "{error}");
        let odd = Sandbox::parse(|_| Some("here".to_owned()));
        assert!(odd.unwrap_err().to_string().contains("here"));
        let told = |name: &str| Some(if name == BRIDGE { "bridge" } else { "10.7.0.1" }.to_owned());
        assert_eq!(Sandbox::parse(told).unwrap().subnet(), "10.7.0.0/16");
    }
}
