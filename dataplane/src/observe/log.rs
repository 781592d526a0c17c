//! Log lines on standard error: one line each, with the member id.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Compact, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Environment variable with the filter, for example `info` or `jevmetrics_dataplane=debug`.
pub const FILTER_VARIABLE: &str = "JEVMETRICS_LOG";

/// Puts the member id in front of each line.
struct WithMember {
    member_id: String,
    line: Format<Compact>,
}

impl<S, N> FormatEvent<S, N> for WithMember
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "{} ", self.member_id)?;
        self.line.format_event(context, writer, event)
    }
}

/// The Kubernetes client logs each failed call by itself, as an error: what is worth a line is told by whoever called.
const QUIET: &str = "kube_client";

/// The filter that `text` asks for. One that cannot be read counts as `info`.
fn filter(text: &str) -> EnvFilter {
    let text = if text.trim().is_empty() { "info" } else { text };
    let filter = EnvFilter::try_new(text).unwrap_or_else(|_| EnvFilter::new("info"));
    match format!("{QUIET}=off").parse() {
        Ok(directive) if !text.contains(QUIET) => filter.add_directive(directive),
        _ => filter,
    }
}

/// Starts logging. A filter that cannot be read counts as `info`.
pub fn start(member_id: &str) {
    let filter = filter(&std::env::var(FILTER_VARIABLE).unwrap_or_default());
    let line = tracing_subscriber::fmt::format()
        .compact()
        .with_ansi(false)
        .with_target(false);
    let format = WithMember {
        member_id: member_id.to_owned(),
        line,
    };
    // Fails only if logging was started before, by a test or another part of the process.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written (full disk, reader gone) is lost. By default its loss would be printed,
        // which fails as well and ends the task that only wanted to log.
        .log_internal_errors(false)
        .with_ansi(false)
        .event_format(format)
        .try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubernetes_client_is_quiet_unless_it_is_asked_for() {
        for (text, shown) in [
            ("", "kube_client=off,info"),
            ("debug", "kube_client=off,debug"),
            ("=,=", "kube_client=off,info"),
            ("info,kube_client=debug", "kube_client=debug,info"),
        ] {
            assert_eq!(filter(text).to_string(), shown, "{text}");
        }
    }
}
