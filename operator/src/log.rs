//! One JSON line an entry, to standard error.

use tracing_subscriber::EnvFilter;

/// Begins to log. `JEVMETRICS_LOG` has the filter, such as `debug` or `jevmetrics_operator=debug,info`.
pub(crate) fn start() {
    let given = std::env::var("JEVMETRICS_LOG").unwrap_or_default();
    let _ = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter(&given))
        .with_writer(std::io::stderr)
        .try_init();
}

/// kube's client logs replies that it cannot read as a whole, and a Secret may be among them: only who asks for that gets
/// it. A filter that cannot be read counts as `info`.
fn filter(given: &str) -> EnvFilter {
    let given = if given.trim().is_empty() { "info" } else { given };
    let filter = EnvFilter::try_new(given).unwrap_or_else(|_| EnvFilter::new("info"));
    match "kube_client=off".parse() {
        Ok(quiet) if !given.contains("kube_client") => filter.add_directive(quiet),
        _ => filter,
    }
}
