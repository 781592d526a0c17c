//! What the operator may do, each right with its reason. The chart, the tests and `docs/security.md` hold to this
//! list; a test that looks at the API server's audit log holds the list to what the operator does.

/// Rights on one kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource, with its subresource if it is one.
    pub resource: &'static str,
    /// What is done with it.
    pub verbs: &'static [&'static str],
    /// Why.
    pub reason: &'static str,
}

const OWNED: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// In every namespace that the operator looks at.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "jevmetrics.io",
        resource: "jevmetricspolicies",
        verbs: &["get", "list", "watch"],
        reason: "what is wanted",
    },
    Right {
        group: "jevmetrics.io",
        resource: "jevmetricspolicies/status",
        verbs: &["patch"],
        reason: "what is there",
    },
    Right {
        group: "apps",
        resource: "deployments",
        verbs: OWNED,
        reason: "the pods of a data plane",
    },
    Right {
        group: "apps",
        resource: "replicasets",
        verbs: &["list"],
        reason: "settings are deleted when no ReplicaSet wants them",
    },
    Right {
        group: "",
        resource: "pods",
        verbs: &["list", "watch"],
        reason: "who is a member, why a rollout does not get on, and whom to ask",
    },
    Right {
        group: "",
        resource: "configmaps",
        verbs: OWNED,
        reason: "settings, live object, and what Collectors in front read; get and watch are passed on to data planes, each for its live object",
    },
    Right {
        group: "",
        resource: "services",
        verbs: OWNED,
        reason: "where senders send, and where Collectors in front find the pods",
    },
    Right {
        group: "",
        resource: "serviceaccounts",
        verbs: OWNED,
        reason: "who the pods are",
    },
    Right {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        verbs: OWNED,
        reason: "what the pods may do: read their live object",
    },
    Right {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        verbs: OWNED,
        reason: "that the pods may do it",
    },
    Right {
        group: "policy",
        resource: "poddisruptionbudgets",
        verbs: OWNED,
        reason: "a drain takes one pod at a time",
    },
    Right {
        group: "",
        resource: "secrets",
        verbs: &["get"],
        reason: "to name what is missing, and to ask pods over mutual TLS; never listed or watched",
    },
    Right {
        group: "events.k8s.io",
        resource: "events",
        verbs: &["create", "patch"],
        reason: "what has happened to a policy",
    },
];

/// In the namespace of the Lease.
pub const LEASE_RIGHTS: &[Right] = &[Right {
    group: "coordination.k8s.io",
    resource: "leases",
    verbs: &["get", "create", "update"],
    reason: "one operator leads",
}];

/// What a data plane gets from the operator, each for the one object of its policy. Kubernetes lets nobody pass on what
/// he does not hold himself.
pub const PASSED_ON: &[Right] = &[Right {
    group: "",
    resource: "configmaps",
    verbs: &["get", "watch"],
    reason: "a data plane follows its live object",
}];
