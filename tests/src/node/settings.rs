//! The settings files of the node's daemons. Pure.

use std::net::Ipv4Addr;
use std::path::Path;

use serde_json::{Value, json};

use super::images::PAUSE_IMAGE;
use super::sandbox::Sandbox;
use crate::cluster::ServerFiles;

/// The address of the DNS Service.
pub(super) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Where Debian puts the plugins of the container network interface.
pub(super) const NETWORK_PLUGINS: &str = "/usr/lib/cni";

/// containerd's socket.
pub(super) fn socket(directory: &Path) -> String {
    directory.join("containerd.sock").display().to_string()
}

/// containerd's own file.
pub(super) fn containerd(directory: &Path) -> String {
    let file = |name: &str| directory.join(name).display().to_string();
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"

[grpc]
address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{opt}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Where root may not lower a score, no container would start.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{NETWORK_PLUGINS}"
conf_dir = "{network}"
"#,
        root = file("containerd/root"),
        state = file("containerd/state"),
        socket = socket(directory),
        opt = file("containerd/opt"),
        network = file("network"),
    )
}

/// How a pod gets its interface and its address.
pub(super) fn network(directory: &Path, sandbox: &Sandbox) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": sandbox.bridge,
                "isDefaultGateway": true,
                // A pod may reach itself by its Service.
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": directory.join("addresses"),
                    "ranges": [[{"subnet": sandbox.subnet(), "gateway": sandbox.address}]],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// The kubelet's file.
pub(super) fn kubelet(directory: &Path, sandbox: &Sandbox, authority: &Path, server: &ServerFiles) -> Value {
    let file = |name: &str| directory.join(name);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": sandbox.address,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": authority},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": server.certificate,
        "tlsPrivateKeyFile": server.key,
        "containerRuntimeEndpoint": format!("unix://{}", socket(directory)),
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        // Pods that want the node's own names get none: nothing is reached from here.
        "resolvConf": "",
        "podLogsDir": file("pods"),
        "volumePluginDir": file("volume-plugins"),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        // Without cgroups of its own above those of containers: it could not say how much of a machine that it shares
        // with others it may give away.
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "oomScoreAdj": 0,
        // Neither what others leave of the disk nor the age of an image is the node's affair: nothing can be pulled anew.
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_node_writes_is_in_its_directory() {
        let directory = Path::new("/run/tmp/here");
        let sandbox = Sandbox {
            address: Ipv4Addr::new(10, 88, 0, 1),
            bridge: "bridge".to_owned(),
        };
        let server = ServerFiles {
            certificate: directory.join("server.crt"),
            key: directory.join("server.key"),
        };
        let text = [
            containerd(directory),
            network(directory, &sandbox).to_string(),
            kubelet(directory, &sandbox, &directory.join("ca.crt"), &server).to_string(),
        ]
        .concat();
        let paths = text
            .split(['"', '\''])
            .map(|word| word.trim_start_matches("unix://"))
            .filter(|word| word.starts_with('/') && *word != NETWORK_PLUGINS);
        let paths: Vec<&str> = paths.collect();
        assert!(paths.len() > 8, "{paths:?}");
        assert!(
            paths.iter().all(|path| Path::new(path).starts_with(directory)),
            "{paths:?}"
        );
    }
}
