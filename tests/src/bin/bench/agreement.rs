//! Both sides must do the same work, and the work that the row claims, before it is timed.

use jevmetrics_dataplane::retain::engine::Processed;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

use crate::baseline;
use crate::error::BenchError;
use crate::warm::Warm;
use crate::workload::Workload;

/// Every metric is known, exactly half of them are dropped.
pub(crate) fn check_half(processed: &Processed) -> Result<(), BenchError> {
    let Processed {
        received_metrics,
        dropped_metrics,
        cache_hits,
        ..
    } = processed;
    if cache_hits == received_metrics && dropped_metrics * 2 == *received_metrics {
        return Ok(());
    }
    Err(BenchError::Claim(format!(
        "of {received_metrics} metrics all are known, but {cache_hits} are; half is dropped, but {dropped_metrics} are"
    )))
}

/// Every request: warm, exactly half dropped, the same survivors as the plain way leaves.
pub(crate) fn check(engine: &Warm, workload: &Workload) -> Result<(), BenchError> {
    for request in &workload.requests {
        let ours = engine.process(request)?;
        check_half(&ours)?;
        let theirs = baseline::process(request, &workload.droppable)?;
        let theirs = ExportMetricsServiceRequest::decode(&theirs[..])?;
        let ours = ExportMetricsServiceRequest::decode(ours.output.unwrap_or_default())?;
        if ours != theirs {
            return Err(BenchError::Claim(
                "engine and prost leave the same metrics".to_owned(),
            ));
        }
    }
    Ok(())
}
