//! The plain way: decode with prost, retain, encode.

use std::collections::HashSet;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::{DecodeError, Message as _};

/// Drops the metrics of these names, and parents that this leaves empty.
pub(crate) fn process(request: &[u8], droppable: &HashSet<String>) -> Result<Vec<u8>, DecodeError> {
    let mut request = ExportMetricsServiceRequest::decode(request)?;
    request.resource_metrics.retain_mut(|resource| {
        let had_scopes = !resource.scope_metrics.is_empty();
        resource.scope_metrics.retain_mut(|scope| {
            let had_metrics = !scope.metrics.is_empty();
            scope.metrics.retain(|metric| !droppable.contains(&metric.name));
            !had_metrics || !scope.metrics.is_empty()
        });
        !had_scopes || !resource.scope_metrics.is_empty()
    });
    Ok(request.encode_to_vec())
}
