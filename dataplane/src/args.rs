//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// The limit of memory in Kubernetes, unless the policy has another one.
const DEFAULT_MEMORY_LIMIT: u64 = 512 << 20;

/// Receives OTLP metrics, keeps or drops whole instruments by cached assessments, exports OTLP.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// Settings file (YAML).
    #[arg(long, env = "JEVMETRICS_SETTINGS")]
    pub settings: PathBuf,

    /// Only checks the settings file and says what is wrong with it.
    #[arg(long)]
    pub check: bool,

    /// Bytes of memory that this process may have; a quarter of it is for requests in flight. In Kubernetes, the limit.
    #[arg(long, env = "JEVMETRICS_MEMORY_LIMIT", default_value_t = DEFAULT_MEMORY_LIMIT)]
    pub memory_limit: u64,

    /// Where this process runs, as it is told in Kubernetes.
    #[command(flatten)]
    pub pod: Pod,

    /// Uid of the policy that this process works for: routing tables of others are refused.
    #[arg(long, env = "JEVMETRICS_POLICY_UID")]
    pub policy_uid: Option<String>,
}

/// Names of the pod, shown in heartbeats.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Pod {
    /// Name of this pod.
    #[arg(long = "pod-name", env = "JEVMETRICS_POD_NAME")]
    pub name: Option<String>,

    /// Uid of this pod.
    #[arg(long = "pod-uid", env = "JEVMETRICS_POD_UID")]
    pub uid: Option<String>,

    /// Name of the node that this pod is on.
    #[arg(long = "node-name", env = "JEVMETRICS_NODE_NAME")]
    pub node: Option<String>,
}
