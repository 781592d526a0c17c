//! Systems under test: child processes on a core of their own, one connection in, one sink out.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jevmetrics_testkit::mock_jev::{MockJev, Opinion};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, SettingsFile};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::cpu::{SYSTEM_CORE, pin};
use crate::sink::Sink;
use crate::{Failure, cpu};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Go's collector of garbage runs half as often as by default and costs less: the fairer opponent.
const COLLECTOR_ENVIRONMENT: [(&str, &str); 2] = [("GOMAXPROCS", "1"), ("GOGC", "400")];

/// What must come out of a system.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Output {
    /// Everything.
    Whole,
    /// All but the droppable metrics.
    Kept,
}

/// A running system; dropping it ends it.
pub(crate) struct System {
    address: SocketAddr,
    pid: u32,
    output: Output,
    process: Process,
}

enum Process {
    DataPlane {
        data_plane: Box<DataPlane>,
        _jev: MockJev,
    },
    Other {
        _child: Child,
        _directory: Option<TempDir>,
    },
}

impl System {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn output(&self) -> Output {
        self.output
    }

    /// Our data plane in `Reduce`. With [`Output::Whole`] its mock of Jev wants to keep everything.
    pub(crate) async fn data_plane(output: Output, sink: &Sink) -> Result<Self, Failure> {
        let jev = MockJev::start().await?;
        if matches!(output, Output::Whole) {
            jev.judge().set_closure(|_, _| Some(Opinion::with_keep(0.9)));
        }
        let mut settings = SettingsFile::new(&format!("http://{}", sink.address()), &jev.base_url());
        // Nothing expires while it is measured, and nobody waits for the answers.
        settings.inference.score_ttl_seconds = Some(86_400);
        settings.inference.requests_per_second_per_replica = Some(10_000);
        settings.inference.burst = Some(10_000);
        settings.inference.workers = Some(8);
        settings.inference.queue_size = Some(65_536);
        let mut options = Options::new(settings, Mode::Reduce);
        // One worker on one core, wherever it is started.
        options
            .environment
            .push(("TOKIO_WORKER_THREADS".to_owned(), "1".to_owned()));
        let data_plane = DataPlane::start(options).await?;
        pin(data_plane.pid(), SYSTEM_CORE)?;
        Ok(Self {
            address: data_plane.listen().grpc,
            pid: data_plane.pid(),
            output,
            process: Process::DataPlane {
                data_plane: Box::new(data_plane),
                _jev: jev,
            },
        })
    }

    /// Our transports alone.
    pub(crate) async fn pass_through(sink: &Sink) -> Result<Self, Failure> {
        let binary = std::env::current_exe()?.with_file_name("bench_passthrough");
        let address = free_address()?;
        let mut command = Command::new(binary);
        command
            .arg(address.to_string())
            .arg(sink.address().to_string())
            .env("TOKIO_WORKER_THREADS", "1");
        Self::start(command, address, Output::Whole, None).await
    }

    /// The Collector, dropping `names`; with none it has no processor at all.
    pub(crate) async fn collector(binary: &Path, names: &[String], sink: &Sink) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let address = free_address()?;
        let file = directory.path().join("collector.yaml");
        let configuration = collector_configuration(address, sink.address(), names);
        std::fs::write(&file, serde_yaml::to_string(&configuration)?)?;
        let mut command = Command::new(binary);
        command.arg("--config").arg(&file).envs(COLLECTOR_ENVIRONMENT);
        let output = if names.is_empty() {
            Output::Whole
        } else {
            Output::Kept
        };
        Self::start(command, address, output, Some(directory)).await
    }

    async fn start(
        mut command: Command,
        address: SocketAddr,
        output: Output,
        directory: Option<TempDir>,
    ) -> Result<Self, Failure> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or("a system under test ended at once")?;
        pin(pid, SYSTEM_CORE)?;
        poll::until_some("a system under test to listen", PATIENCE, async || {
            TcpStream::connect(address).await.ok()
        })
        .await?;
        // Threads that were born while others were moved.
        pin(pid, SYSTEM_CORE)?;
        Ok(Self {
            address,
            pid,
            output,
            process: Process::Other {
                _child: child,
                _directory: directory,
            },
        })
    }

    /// Instruments that Jev has not been asked about; none in other systems.
    pub(crate) async fn awaiting(&self) -> Result<u64, Failure> {
        let Process::DataPlane { data_plane, .. } = &self.process else {
            return Ok(0);
        };
        let (status, body) = data_plane.get_admin("/api/summary").await?;
        if status != 200 {
            return Err(format!("/api/summary answered {status}").into());
        }
        let summary: Value = serde_json::from_str(&body)?;
        let rows = summary["identities"]["now"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let awaiting = rows.iter().filter(|row| row["reason"] == "awaiting_assessment");
        Ok(awaiting.filter_map(|row| row["instruments"].as_u64()).sum())
    }

    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        cpu::resident_mib(self.pid)
    }
}

/// Where `tests/peer/build.sh` has put the Collector; it is built if it is not there.
pub(crate) async fn collector_binary() -> Result<PathBuf, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer/build.sh");
    let output = Command::new("sh")
        .arg(script)
        .stderr(Stdio::inherit())
        .output()
        .await?;
    if !output.status.success() {
        return Err("the Collector could not be built".into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// No queue, no retries, no batching, no telemetry of its own: what arrives is answered when downstream has
/// answered. `exclude` by strict names is one look-up in a map per metric; OTTL conditions, which replace it,
/// compare one after another.
fn collector_configuration(listen: SocketAddr, export: SocketAddr, names: &[String]) -> Value {
    let processors: Vec<&str> = if names.is_empty() { vec![] } else { vec!["filter"] };
    json!({
        "receivers": {"otlp": {"protocols": {"grpc": {
            "endpoint": listen.to_string(),
            "max_recv_msg_size_mib": 64,
        }}}},
        "processors": {"filter": {"metrics": {"exclude": {
            "match_type": "strict",
            "metric_names": names,
        }}}},
        "exporters": {"otlp_grpc": {
            "endpoint": export.to_string(),
            "compression": "none",
            "tls": {"insecure": true},
            "sending_queue": {"enabled": false},
            "retry_on_failure": {"enabled": false},
        }},
        "service": {
            "telemetry": {"logs": {"level": "error"}, "metrics": {"level": "none"}},
            "pipelines": {"metrics": {
                "receivers": ["otlp"],
                "processors": processors,
                "exporters": ["otlp_grpc"],
            }},
        },
    })
}

fn free_address() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
