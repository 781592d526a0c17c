//! When a pod is started, ready and alive.

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub(super) const PORT: &str = "metrics";

/// Listeners up, settings loaded, not draining; nothing that depends on load.
pub(super) fn readiness() -> Probe {
    Probe {
        period_seconds: Some(5),
        failure_threshold: Some(3),
        ..get("/readyz")
    }
}

/// A slow answer under load is not death: a minute of silence is.
pub(super) fn liveness() -> Probe {
    Probe {
        period_seconds: Some(10),
        failure_threshold: Some(6),
        ..get("/livez")
    }
}

fn get(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(PORT.to_owned()),
            ..HTTPGetAction::default()
        }),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}
