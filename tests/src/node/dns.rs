//! Names of Services: `CoreDNS` as a Deployment behind the Service that the kubelet tells pods about.

use serde_json::{Value, json};

use super::images::{DNS_IMAGE, PROBE_IMAGE};
use super::restricted::restricted;
use super::settings::DNS;

/// Where all of it is.
pub(super) const NAMESPACE: &str = "kube-system";
/// The pod that resolves a name.
pub(super) const LOOKUP: &str = "dns-lookup";

/// Names of the cluster, and no others: from here nothing else is reached, and a name that is surely not there is
/// said to be so, not to be refused, which resolvers take for a fault that may pass.
const COREFILE: &str = "\
cluster.local:1053 in-addr.arpa:1053 ip6.arpa:1053 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    cache 5
    loadbalance
}
.:1053 {
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
";

/// All objects of the DNS, and the pod that asks it.
pub(super) fn objects() -> Value {
    let labels = json!({"k8s-app": "kube-dns"});
    let named = |name: &str| json!({"name": name, "namespace": NAMESPACE, "labels": labels});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("coredns")},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": NAMESPACE}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("coredns"), "data": {"Corefile": COREFILE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": named("kube-dns"),
            "spec": {
                "clusterIP": DNS,
                "selector": labels,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": "dns-tcp"},
                ],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": named("coredns"),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": server()},
            },
        },
        lookup(),
    ]})
}

fn server() -> Value {
    json!({
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        // Names of the cluster are its own affair.
        "dnsPolicy": "Default",
        "containers": [{
            "name": "coredns",
            "image": DNS_IMAGE,
            "args": ["-conf", "/etc/coredns/Corefile"],
            "ports": [
                {"name": "dns", "containerPort": 1053, "protocol": "UDP"},
                {"name": "dns-tcp", "containerPort": 1053, "protocol": "TCP"},
            ],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "failureThreshold": 6},
            "securityContext": restricted(),
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/coredns", "readOnly": true}],
        }],
        "volumes": [{"name": "settings", "configMap": {"name": "coredns"}}],
    })
}

/// A pod that ends well once a name of the cluster resolves.
fn lookup() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": LOOKUP, "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "probe",
                "image": PROBE_IMAGE,
                "args": ["resolve", "-within", "2m", "kubernetes.default"],
                "securityContext": restricted(),
            }],
        },
    })
}
