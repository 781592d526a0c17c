//! An application instrumented with the OpenTelemetry SDK, exporting with the SDK's own OTLP exporters.
//!
//! Invariant: nothing is exported but by [`Application::flush`]. Everything that blocks (building, flushing,
//! shutting down, and dropping the blocking HTTP client) runs on a thread for blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _, UpDownCounter};
use opentelemetry_otlp::{
    Compression, MetricExporter, Protocol, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

use crate::http_client;

/// What the exporter speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// gRPC by tonic.
    Grpc,
    /// HTTP/protobuf by reqwest's blocking client.
    Http,
}

/// How to set up an application.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the exporter speaks.
    pub transport: Transport,
    /// `http://address:port`.
    pub endpoint: String,
    /// Compress with gzip.
    pub gzip: bool,
    /// The exporter's own deadline, retries included.
    pub timeout: Duration,
    /// `service.name`.
    pub service: String,
}

impl Options {
    /// Uncompressed, 10 s.
    pub fn new(transport: Transport, endpoint: &str) -> Self {
        let timeout = Duration::from_secs(10);
        Self {
            transport,
            endpoint: endpoint.to_owned(),
            gzip: false,
            timeout,
            service: "checkout".to_owned(),
        }
    }
}

/// Why the SDK did not do it.
#[derive(Debug, thiserror::Error)]
pub enum SdkError {
    /// The exporter could not be built.
    #[error("the OTLP exporter could not be built: {0}")]
    Build(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The SDK reports a failed export.
    #[error("the SDK did not export: {0}")]
    Export(#[from] opentelemetry_sdk::error::OTelSdkError),
    /// The blocking thread ended early.
    #[error("the thread for the SDK ended early: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// The names of the application's instruments, and the data points of each in an export after
/// [`Application::record`].
pub const INSTRUMENTS: [(&str, u64); 5] = [
    ("shop.orders", ROUTES.len() as u64),
    ("shop.debug.orders", ROUTES.len() as u64),
    ("shop.open_carts", 1),
    ("shop.order.duration", ROUTES.len() as u64),
    ("shop.queue.length", 1),
];

const ROUTES: [&str; 3] = ["/cart", "/orders", "/orders/{id}"];

/// A running application. Dropped without [`Application::shutdown`], it is shut down in the background.
#[derive(Debug)]
pub struct Application {
    provider: SdkMeterProvider,
    orders: Counter<u64>,
    debug_orders: Counter<u64>,
    carts: UpDownCounter<i64>,
    duration: Histogram<f64>,
    queue: Arc<AtomicI64>,
}

impl Application {
    /// Builds the exporter and the instruments; connects when flushing.
    ///
    /// # Errors
    /// The exporter could not be built.
    pub async fn start(options: Options) -> Result<Self, SdkError> {
        tokio::task::spawn_blocking(move || Self::build(&options)).await?
    }

    fn build(options: &Options) -> Result<Self, SdkError> {
        let exporter = exporter(options)?;
        // Longer than any test: only a flush exports.
        let reader = PeriodicReader::builder(exporter)
            .with_interval(Duration::from_hours(24))
            .build();
        let resource = Resource::builder()
            .with_service_name(options.service.clone())
            .build();
        let provider = SdkMeterProvider::builder()
            .with_reader(reader)
            .with_resource(resource)
            .build();
        let meter = provider.meter("shop");
        let queue = Arc::new(AtomicI64::new(0));
        let observed = Arc::clone(&queue);
        // The provider keeps what observes; the handle is not needed.
        let _observable = meter
            .i64_observable_gauge("shop.queue.length")
            .with_unit("{order}")
            .with_callback(move |observer| observer.observe(observed.load(Ordering::Relaxed), &[]))
            .build();
        Ok(Self {
            orders: meter
                .u64_counter("shop.orders")
                .with_unit("{order}")
                .with_description("Orders taken.")
                .build(),
            debug_orders: meter
                .u64_counter("shop.debug.orders")
                .with_unit("{order}")
                .build(),
            carts: meter
                .i64_up_down_counter("shop.open_carts")
                .with_unit("{cart}")
                .build(),
            duration: meter.f64_histogram("shop.order.duration").with_unit("s").build(),
            queue,
            provider,
        })
    }

    /// Records one measurement on every instrument and attribute set, worth `amount`.
    pub fn record(&self, amount: u32) {
        for route in ROUTES {
            let attributes = [KeyValue::new("http.route", route)];
            self.orders.add(amount.into(), &attributes);
            self.debug_orders.add(amount.into(), &attributes);
            self.duration.record(f64::from(amount) / 1_000.0, &attributes);
        }
        self.carts.add(amount.into(), &[]);
        self.queue.store(amount.into(), Ordering::Relaxed);
    }

    /// Exports now, with the SDK's own retries.
    ///
    /// # Errors
    /// What the SDK reports; it says little about the cause.
    pub async fn flush(&self) -> Result<(), SdkError> {
        let provider = self.provider.clone();
        Ok(tokio::task::spawn_blocking(move || provider.force_flush()).await??)
    }

    /// Exports for the last time and ends the exporter.
    ///
    /// # Errors
    /// What the SDK reports.
    pub async fn shutdown(self) -> Result<(), SdkError> {
        let provider = self.provider.clone();
        Ok(tokio::task::spawn_blocking(move || provider.shutdown()).await??)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // Shutting down is what drops the blocking HTTP client, which must not happen on an async thread.
        let provider = self.provider.clone();
        std::thread::spawn(move || {
            // An error says that it has been shut down.
            let _ = provider.shutdown();
        });
    }
}

fn exporter(options: &Options) -> Result<MetricExporter, SdkError> {
    let exporter = match options.transport {
        Transport::Grpc => {
            let builder = MetricExporter::builder()
                .with_tonic()
                .with_endpoint(options.endpoint.clone())
                .with_timeout(options.timeout);
            if options.gzip {
                builder.with_compression(Compression::Gzip)
            } else {
                builder
            }
            .build()?
        }
        Transport::Http => {
            http_client::install_tls_provider();
            let builder = MetricExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_endpoint(format!("{}/v1/metrics", options.endpoint))
                .with_timeout(options.timeout);
            if options.gzip {
                builder.with_compression(Compression::Gzip)
            } else {
                builder
            }
            .build()?
        }
    };
    Ok(exporter)
}
