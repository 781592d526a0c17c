//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};

/// Runs a data plane for every JevMetricsPolicy.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look after the policies of a cluster.
    Run(Run),
    /// Print the CustomResourceDefinition.
    Crd,
    /// Print every object that would be made for policies; needs no cluster.
    Render(Render),
    /// Say what is wrong with policies; needs no cluster.
    Check(Files),
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Look at this namespace alone; by default at all.
    #[arg(long, env = "JEVMETRICS_NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub namespace: Option<String>,

    /// Image of data planes whose policy names none.
    #[arg(long, env = "JEVMETRICS_DATAPLANE_IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub dataplane_image: String,

    /// Address of /metrics, /livez and /readyz.
    #[arg(long, env = "JEVMETRICS_LISTEN", default_value = "0.0.0.0:9464")]
    pub listen: SocketAddr,

    /// Namespace of the Lease; by default that of the operator's pod or of the kubeconfig.
    #[arg(long, env = "JEVMETRICS_LEASE_NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub lease_namespace: Option<String>,

    /// Name of the Lease. Operators that look at different namespaces need different ones.
    #[arg(long, env = "JEVMETRICS_LEASE_NAME", value_parser = NonEmptyStringValueParser::new(), default_value = "jevmetrics-operator")]
    pub lease_name: String,

    /// What this replica is called in the Lease and in events, by default the hostname; random digits are added.
    #[arg(long, env = "JEVMETRICS_IDENTITY", value_parser = NonEmptyStringValueParser::new())]
    pub identity: Option<String>,
}

/// Options of `render`.
#[derive(Debug, Args)]
pub struct Render {
    /// Files with policies.
    #[command(flatten)]
    pub files: Files,

    /// Image of data planes whose policy names none.
    #[arg(
        long,
        env = "JEVMETRICS_DATAPLANE_IMAGE", value_parser = NonEmptyStringValueParser::new(),
        default_value = "jevmetrics-dataplane"
    )]
    pub dataplane_image: String,
}

/// Files with policies.
#[derive(Debug, Args)]
pub struct Files {
    /// A YAML file with one or more policies; `-` is standard input.
    #[arg(short = 'f', long = "filename", required = true)]
    pub filenames: Vec<PathBuf>,
}
