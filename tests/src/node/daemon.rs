//! The three daemons of a node and how each is started.

use std::fmt;
use std::path::Path;

use super::NODE;
use super::sandbox::Sandbox;

/// One daemon of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// Runs containers.
    Containerd,
    /// Runs pods.
    Kubelet,
    /// Leads connections to Services on to pods.
    KubeProxy,
}

impl Daemon {
    /// All of them, in the order of their start.
    pub const ALL: [Self; 3] = [Self::Containerd, Self::Kubelet, Self::KubeProxy];

    /// The name of its binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// The arguments of containerd.
    pub(super) fn containerd(directory: &Path) -> Vec<String> {
        flags(&[("config", directory.join("containerd.toml").display().to_string())])
    }

    /// The arguments of the kubelet: what is not in its file.
    pub(super) fn kubelet(directory: &Path, sandbox: &Sandbox, kubeconfig: &Path) -> Vec<String> {
        let file = |name: &str| directory.join(name).display().to_string();
        flags(&[
            ("config", file("kubelet.json")),
            ("kubeconfig", kubeconfig.display().to_string()),
            ("root-dir", file("kubelet")),
            ("cert-dir", file("kubelet")),
            ("hostname-override", NODE.to_owned()),
            ("node-ip", sandbox.address.to_string()),
        ])
    }

    /// The arguments of kube-proxy.
    pub(super) fn kube_proxy(sandbox: &Sandbox, kubeconfig: &Path) -> Vec<String> {
        flags(&[
            ("kubeconfig", kubeconfig.display().to_string()),
            ("hostname-override", NODE.to_owned()),
            ("proxy-mode", "iptables".to_owned()),
            ("cluster-cidr", sandbox.subnet()),
            // The tables of connections are the machine's: not to be resized from a sandbox.
            ("conntrack-max-per-core", "0".to_owned()),
            ("conntrack-tcp-timeout-established", "0".to_owned()),
            ("conntrack-tcp-timeout-close-wait", "0".to_owned()),
        ])
    }
}

fn flags(settings: &[(&str, String)]) -> Vec<String> {
    let written = settings.iter();
    written.map(|(name, value)| format!("--{name}={value}")).collect()
}

impl fmt::Display for Daemon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
