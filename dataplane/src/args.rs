//! The command line.

use std::path::PathBuf;

use clap::Parser;

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
}
