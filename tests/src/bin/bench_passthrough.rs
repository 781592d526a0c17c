//! What the data plane costs without deciding anything: its own transports with nothing between them.
//! Only the benchmark runs it: `bench_passthrough LISTEN EXPORT`, for example `127.0.0.1:4317 127.0.0.1:14317`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use jevmetrics_dataplane::export::grpc::GrpcExporter;
use jevmetrics_dataplane::export::pack::Compression;
use jevmetrics_dataplane::export::resolve::GrpcEndpoint;
use jevmetrics_dataplane::export::{self, Exporter, Protocol, fixed_headers};
use jevmetrics_dataplane::receive::in_flight::BytesInFlight;
use jevmetrics_dataplane::receive::serve::{Server, bind};
use jevmetrics_dataplane::receive::{self, Handler, Request, SizeLimits};
use jevmetrics_dataplane::verdict::Verdict;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// As in the data plane.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The data plane's defaults.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECTION_AGE: Duration = Duration::from_mins(5);
const LIMITS: SizeLimits = SizeLimits {
    max_request_bytes: 16 << 20,
    max_unpacked_bytes: 64 << 20,
};

struct PassThrough(Exporter);

impl Handler for PassThrough {
    async fn handle(&self, request: Request) -> Verdict {
        let own = Instant::now() + TIMEOUT;
        let deadline = request.deadline.map_or(own, |deadline| deadline.min(own));
        self.0.export(request.body, deadline).await
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, export] = &arguments[..] else {
        return Err("arguments are LISTEN and EXPORT".into());
    };
    let (listen, endpoint) = (listen.parse()?, GrpcEndpoint::parse(export)?);
    // As in the data plane.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut registry = Registry::default();
        let headers = fixed_headers(HeaderMap::new());
        let exporter = GrpcExporter::new(&endpoint, Compression::None, headers, Duration::from_secs(5))?;
        let exporter = Exporter::new(
            Protocol::Grpc(exporter),
            export::stats::Stats::register(&mut registry),
        );
        let stats = receive::stats::Stats::register(&mut registry);
        let handler = Arc::new(PassThrough(exporter));
        let server = Server::new(
            handler,
            LIMITS,
            BytesInFlight::new(usize::MAX),
            1_000,
            CONNECTION_AGE,
            stats,
        );
        let listener = bind("LISTEN", listen).await?;
        server.serve(listener, CancellationToken::new(), TIMEOUT).await;
        Ok(())
    })
}
