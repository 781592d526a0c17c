//! The Service that senders use.

use jevmetrics_api::policy::{ServiceType, ValidPolicy};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::metadata::{metadata, selector};

/// Name of the Service of a policy.
pub fn service_name(policy: &str) -> String {
    format!("{policy}-otlp")
}

pub(super) fn service(policy: &ValidPolicy) -> Service {
    let wanted = policy.service();
    let mut metadata = metadata(policy, service_name(policy.name()));
    metadata.annotations.clone_from(&wanted.annotations);
    let type_ = match wanted.type_ {
        ServiceType::ClusterIP => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
    };
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(type_.to_owned()),
            selector: selector(policy).match_labels,
            ports: Some(vec![otlp_grpc(), port("otlp-http", 4318, None)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

pub(super) const OTLP_GRPC_PORT: i32 = 4317;

pub(super) fn otlp_grpc() -> ServicePort {
    port("otlp-grpc", OTLP_GRPC_PORT, Some("kubernetes.io/h2c"))
}

fn port(name: &str, port: i32, app_protocol: Option<&str>) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(name.to_owned())),
        app_protocol: app_protocol.map(str::to_owned),
        ..ServicePort::default()
    }
}
