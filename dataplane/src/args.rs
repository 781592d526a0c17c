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

/// An empty word, as of a variable that somebody has left empty, says nothing.
pub(crate) fn told(word: Option<&str>) -> Option<String> {
    word.filter(|word| !word.is_empty()).map(str::to_owned)
}

impl Pod {
    /// What the process was told.
    #[must_use]
    pub fn told(&self) -> Self {
        Self {
            name: told(self.name.as_deref()),
            uid: told(self.uid.as_deref()),
            node: told(self.node.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_word_is_as_good_as_none() {
        let pod = |word: &str| Pod {
            name: Some(word.to_owned()),
            uid: Some(word.to_owned()),
            node: Some(word.to_owned()),
        };
        let empty = pod("").told();
        assert_eq!((empty.name, empty.uid, empty.node), (None, None, None));
        let a = || Some("a".to_owned());
        let told = pod("a").told();
        assert_eq!((told.name, told.uid, told.node), (a(), a(), a()));
    }
}
