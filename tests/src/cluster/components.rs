//! The four programs of a control plane and how each is started.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// One program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The scheduler.
    Scheduler,
    /// The controllers.
    ControllerManager,
    /// The API server.
    ApiServer,
    /// The store.
    Etcd,
}

impl Component {
    /// All of them, whoever needs others before these.
    pub const ALL: [Self; 4] = [
        Self::Scheduler,
        Self::ControllerManager,
        Self::ApiServer,
        Self::Etcd,
    ];

    /// The name of its binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The addresses of Services.
const SERVICES: &str = "10.96.0.0/16";
/// The first of them, which the API server has inside the cluster.
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Off in the controller manager for hollow nodes: what acts on nodes that send no heartbeats, and what puts pods'
/// addresses into endpoints, which refuse loopback.
const NOT_FOR_HOLLOW_NODES: &str = "-node-lifecycle-controller,\
    -endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller";

/// Off in every controller manager: what has nothing to do here, each of which would hold watches and caches: volumes,
/// devices, routes, certificates, cron.
const NOT_NEEDED: &str = "-cloud-node-lifecycle-controller,-node-route-controller,-node-ipam-controller,\
    -service-lb-controller,-ttl-controller,-cronjob-controller,\
    -persistentvolume-attach-detach-controller,-persistentvolume-binder-controller,\
    -persistentvolume-expander-controller,-persistentvolume-protection-controller,\
    -persistentvolumeclaim-protection-controller,-volumeattributesclass-protection-controller,\
    -ephemeral-volume-controller,-resourceclaim-controller,-device-taint-eviction-controller,\
    -certificatesigningrequest-approving-controller,-certificatesigningrequest-cleaner-controller,\
    -certificatesigningrequest-signing-controller,-podcertificaterequest-cleaner-controller,\
    -kube-apiserver-serving-clustertrustbundle-publisher-controller,-storage-version-migrator-controller,\
    -storageversion-garbage-collector-controller";

/// Where a control plane listens, and for what nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// On a loopback range of its own, for hollow nodes.
    #[default]
    Loopback,
    /// On an address that pods reach as well, for real nodes.
    Reachable(Ipv4Addr),
}

/// Where everything of one control plane is.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) directory: PathBuf,
    pub(super) network: Network,
    pub(super) address: Ipv4Addr,
    pub(super) etcd_port: u16,
    pub(super) api_port: u16,
}

impl Layout {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn server(&self) -> String {
        format!("https://{}:{}", self.address, self.api_port)
    }

    /// `--name=value` of each setting.
    pub(super) fn arguments(&self, component: Component) -> Vec<String> {
        let file = |name: &str| self.file(name).display().to_string();
        let etcd = format!("http://{}:{}", self.address, self.etcd_port);
        let settings: Vec<(&str, String)> = match component {
            Component::Etcd => vec![
                ("data-dir", file("etcd")),
                // Nothing here has to survive the machine.
                ("unsafe-no-fsync", "true".into()),
                ("listen-client-urls", etcd.clone()),
                ("advertise-client-urls", etcd),
                // It has no peers.
                ("listen-peer-urls", format!("http://{}:0", self.address)),
                ("log-level", "warn".into()),
            ],
            Component::ApiServer => [
                ("etcd-servers", etcd),
                ("bind-address", self.address.to_string()),
                ("secure-port", self.api_port.to_string()),
                // Else that of the default route, which not every machine has.
                ("advertise-address", self.address.to_string()),
                ("service-cluster-ip-range", SERVICES.into()),
                ("authorization-mode", "Node,RBAC".into()),
                ("allow-privileged", "true".into()),
                ("client-ca-file", file("ca.crt")),
                ("tls-cert-file", file("kube-apiserver.crt")),
                ("tls-private-key-file", file("kube-apiserver.key")),
                (
                    "service-account-issuer",
                    "https://kubernetes.default.svc.cluster.local".into(),
                ),
                ("service-account-key-file", file("sa.pub")),
                ("service-account-signing-key-file", file("sa.key")),
                ("audit-policy-file", file("audit-policy.json")),
                ("audit-log-path", file("audit.log")),
                // The default batches: an answer would be seen before its line is there.
                ("audit-log-mode", "blocking".into()),
                // Rotation would hide lines from the reader.
                ("audit-log-maxsize", "0".into()),
                // Else watches are not ended at its end, and it waits a minute for them.
                ("shutdown-watch-termination-grace-period", "1s".into()),
                ("profiling", "false".into()),
            ]
            .into_iter()
            .chain(self.towards_nodes())
            .collect(),
            Component::ControllerManager => vec![
                ("kubeconfig", file("controller-manager.kubeconfig")),
                ("service-account-private-key-file", file("sa.key")),
                ("root-ca-file", file("ca.crt")),
                // Each controller has only the rights of its own role, as in real clusters.
                ("use-service-account-credentials", "true".into()),
                ("controllers", self.controllers()),
                ("leader-elect", "false".into()),
                // Without a port of its own: nobody asks it.
                ("secure-port", "0".into()),
                // The default of 20 requests a second makes hundreds of pods slow.
                ("kube-api-qps", "500".into()),
                ("kube-api-burst", "1000".into()),
                ("profiling", "false".into()),
            ],
            Component::Scheduler => vec![
                ("kubeconfig", file("scheduler.kubeconfig")),
                ("leader-elect", "false".into()),
                ("secure-port", "0".into()),
                ("kube-api-qps", "500".into()),
                ("kube-api-burst", "1000".into()),
                ("profiling", "false".into()),
            ],
        };
        let written = settings.into_iter();
        written.map(|(name, value)| format!("--{name}={value}")).collect()
    }

    /// What the API server needs to know of its nodes.
    fn towards_nodes(&self) -> Vec<(&'static str, String)> {
        let file = |name: &str| self.file(name).display().to_string();
        match self.network {
            // A loopback address is refused as an endpoint of the Service `kubernetes`.
            Network::Loopback => vec![("endpoint-reconciler-type", "none".into())],
            Network::Reachable(_) => vec![
                ("kubelet-client-certificate", file("kubelet-client.crt")),
                ("kubelet-client-key", file("kubelet-client.key")),
                ("kubelet-certificate-authority", file("ca.crt")),
                // Nobody here resolves the names of nodes.
                ("kubelet-preferred-address-types", "InternalIP".into()),
            ],
        }
    }

    fn controllers(&self) -> String {
        match self.network {
            Network::Loopback => format!("*,{NOT_FOR_HOLLOW_NODES},{NOT_NEEDED}"),
            Network::Reachable(_) => format!("*,{NOT_NEEDED}"),
        }
    }
}
